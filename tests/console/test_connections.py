"""Requests that do not come, by somebody who never logs in, are few, short, and leave no traceback."""

from __future__ import annotations

import asyncio
import logging

import pytest
from starlette.requests import ClientDisconnect

from mqregistry.console import connections, forms
from mqregistry.console.connections import MOST_OF_ADDRESS, bounded
from mqregistry.console.context import BadRequest


async def served(monkeypatch, within_s=10.0):
    import uvicorn

    monkeypatch.setattr(connections, "WITHIN_S", within_s)

    async def app(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    config = uvicorn.Config(
        app, port=0, log_config=None, lifespan="off", http=bounded(lambda address: address == "127.0.0.9")
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None
    listener = config.bind_socket()
    task = asyncio.create_task(server.serve([listener]))
    while not server.started:  # noqa: ASYNC110 - uvicorn tells nobody
        await asyncio.sleep(0.01)
    return server, task, listener.getsockname()[1]


async def closed(reader) -> bool:
    try:
        async with asyncio.timeout(60):
            return await reader.read() == b""
    except ConnectionResetError:
        return True


async def test_an_address_has_some_connections_and_headers_come_in_time(monkeypatch, caplog):
    caplog.set_level(logging.WARNING)
    server, task, port = await served(monkeypatch, within_s=4.0)
    attackers = [
        await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0)) for _ in range(MOST_OF_ADDRESS)
    ]
    for _, writer in attackers:
        writer.write(b"POST /login HTTP/1.1\r\nHost: x\r\n")
    one_more, extra = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
    assert await closed(one_more)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.3", 0))
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert b"200" in await reader.readline(), "others are served"
    for reader, _ in attackers:
        assert await closed(reader), "a header that does not come is not waited for"
    for _, one in [*attackers, (reader, writer), (one_more, extra)]:
        one.close()
    server.should_exit = True
    await task
    assert "Traceback" not in caplog.text


class Request:
    def __init__(self, *chunks, ends=None):
        self.chunks, self.ends = chunks, ends

    async def stream(self):
        for chunk in self.chunks:
            yield chunk
        if self.ends is not None:
            await self.ends()


@pytest.mark.parametrize("why", ["whole within", "hung up", "more than 100 bytes"])
async def test_a_form_that_does_not_come_is_given_up(monkeypatch, why):
    monkeypatch.setattr(forms, "WITHIN_S", 0.05)

    async def hang_up():
        raise ClientDisconnect

    request = {
        "whole within": Request(b"a=1", ends=asyncio.Event().wait),
        "hung up": Request(b"a=1", ends=hang_up),
        "more than 100 bytes": Request(b"a=" + b"1" * 99),
    }[why]
    with pytest.raises(BadRequest, match=why):
        await forms.read_form(request, 100)  # type: ignore[arg-type]
    assert await forms.read_form(Request(b"a=1"), 100) == {"a": "1"}  # type: ignore[arg-type]
