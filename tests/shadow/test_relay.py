"""What is passed through comes out as it went in, whatever becomes of what listens."""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl

import pytest

from mqregistry.protocol.command import Command, encode_command
from mqregistry.shadow.counts import Counts
from mqregistry.shadow.relay import Relay
from mqregistry.shadow.tap import Tap
from tests.certificates import Authority
from tests.waiting import until


class Silent:
    def sent(self, data):
        pass

    answered = sent


class Broken:
    def sent(self, data):
        raise RuntimeError("a mistake")

    def answered(self, data):
        raise AssertionError("it is not called again")


async def echo(reader, writer):
    """Sends back what comes, and closes after its peer did."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


class Passed:
    """A relay to a server of the test."""

    def __init__(self, serve=echo, listener=Silent, **options):
        self._serve, self._listener, self._options = serve, listener, options

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0, **self._options)
        port = self.server.sockets[0].getsockname()[1]
        self.relay = await Relay("127.0.0.1", 0, "127.0.0.1", port, self._listener).__aenter__()
        return self

    async def __aexit__(self, *_):
        await self.relay.__aexit__()
        self.server.close()

    async def connect(self, **options):
        return await asyncio.open_connection("127.0.0.1", self.relay.port, **options)


@pytest.mark.parametrize("listener", [Silent, Broken, lambda: Tap(Counts(), print)])
async def test_bytes_of_any_kind_come_back_as_they_were(listener):
    data = random.Random(1).randbytes(3 << 20)
    async with Passed(listener=listener) as passed:
        reader, writer = await passed.connect()

        async def send():
            for first in range(0, len(data), 100_000):
                writer.write(data[first : first + 100_000])
                await writer.drain()

        sending = asyncio.create_task(send())
        assert await reader.readexactly(len(data)) == data
        await sending
        writer.close()
        await until(lambda: not passed.relay.open, "it is closed")
    assert passed.relay.deaf == (listener is Broken)


async def test_a_client_that_reads_nothing_does_not_fill_the_memory():
    sent = 0

    async def flood(reader, writer):
        nonlocal sent
        try:
            while True:
                writer.write(bytes(65536))
                await writer.drain()
                sent += 65536
        except OSError:
            pass

    async with Passed(flood) as passed:
        _, writer = await passed.connect(limit=1)
        stood = -1
        while stood != sent:  # until nobody takes any more
            stood = sent
            await asyncio.sleep(0.1)
        (connection,) = passed.relay.open
        assert connection.transport.get_write_buffer_size() < 1 << 20
        assert sent < 64 << 20
        writer.transport.abort()
        await until(lambda: not passed.relay.open, "it is closed")


async def test_what_was_sent_before_a_hang_up_arrives():
    async def say_and_leave(reader, writer):
        writer.write(b"x" * 1_000_000)
        await writer.drain()
        writer.close()

    async with Passed(say_and_leave) as passed:
        reader, writer = await passed.connect()
        assert len(await reader.read(-1)) == 1_000_000
        writer.close()


async def test_a_server_that_is_away_is_told_by_hanging_up():
    async with Passed() as passed:
        passed.server.close()
        await passed.server.wait_closed()
        reader, writer = await passed.connect()
        with contextlib.suppress(ConnectionError):
            assert await reader.read(1) == b""
        writer.close()
        assert passed.relay.refused == 1


async def test_tls_passes_through_unread(tmp_path):
    authority = Authority(tmp_path, "authority")
    certificate = authority.sign("server")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate.cert, certificate.key)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    counts, offered = Counts(), []
    request = encode_command(Command(code=106, opaque=1, version=479))
    async with Passed(listener=lambda: Tap(counts, lambda *read: offered.append(read)), ssl=server) as passed:
        reader, writer = await passed.connect(ssl=client)
        writer.write(request)
        assert await reader.readexactly(len(request)) == request
        writer.close()
        await until(lambda: not passed.relay.open, "it is closed")
    assert (counts.tls_connections, counts.unreadable_connections, counts.requests, offered) == (1, 0, 0, [])
