"""The remoting client against servers that behave in every way."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest

from registry.client.connection import Connection
from registry.errors import PeerUnavailable, RemoteProtocolError
from registry.protocol.codes import FLAG_ONEWAY, FLAG_RESPONSE
from registry.protocol.command import Command, decode_command, encode_command
from registry.protocol.frame import FrameReader


@asynccontextmanager
async def served(answer):
    """A connection to a server that gives each request to ``answer(command, writer)``."""
    got = []

    async def serve(reader, writer):
        frames = FrameReader()
        try:
            while data := await reader.read(65536):
                for frame in frames.feed(data):
                    command = decode_command(frame)
                    got.append(command)
                    answer(command, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    connection = await Connection.connect(*server.sockets[0].getsockname())
    try:
        yield connection, got
    finally:
        await connection.close()
        server.close()
        await server.wait_closed()


def reply(command, body=b"", code=0):
    return encode_command(Command(code=code, opaque=command.opaque, flag=FLAG_RESPONSE, body=body))


async def test_request_gets_its_answer():
    async with served(lambda c, w: w.write(reply(c, c.body[::-1], 17))) as (connection, got):
        answer = await connection.request(105, {"topic": "t"}, b"abc")
        assert (answer.code, answer.body) == (17, b"cba")
        assert (got[0].code, got[0].ext_fields) == (105, {"topic": "t"})


async def test_request_answers_in_another_order_reach_who_asked():
    held = []

    def answer(command, writer):
        held.append(command)
        if len(held) == 3:
            for one in reversed(held):
                writer.write(reply(one, one.body))

    async with served(answer) as (connection, _):
        answers = await asyncio.gather(*(connection.request(1, body=b"%d" % number) for number in range(3)))
        assert [one.body for one in answers] == [b"0", b"1", b"2"]


async def test_request_without_answer_times_out_and_the_connection_goes_on():
    late = []

    def answer(command, writer):
        if command.code == 1:
            late.append(command)
        else:
            writer.write(reply(late[0]) + reply(command, b"in time"))

    async with served(answer) as (connection, _):
        with pytest.raises(PeerUnavailable, match=r"no answer to request 1 within 0\.05 s"):
            await connection.request(1, timeout_s=0.05)
        assert (await connection.request(2)).body == b"in time"


async def test_request_fails_when_the_peer_hangs_up():
    async with served(lambda c, w: w.close()) as (connection, _):
        with pytest.raises(PeerUnavailable, match="closed"):
            await connection.request(1)
        await connection.wait_closed()
        assert connection.is_closed
        with pytest.raises(PeerUnavailable, match="closed"):
            await connection.request(2)


async def test_request_answered_with_garbage_is_a_protocol_error():
    async with served(lambda c, w: w.write(b"HTTP/1.1 400 Bad Request\r\n")) as (connection, _):
        with pytest.raises(RemoteProtocolError):
            await connection.request(1)


async def test_request_cancelled_leaves_nothing_waiting():
    async with served(lambda c, w: None) as (connection, _):
        task = asyncio.create_task(connection.request(1))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not connection._waiting


async def test_oneway_is_sent_as_such():
    async with served(lambda c, w: None if c.is_oneway else w.write(reply(c))) as (connection, got):
        await connection.oneway(103, {"a": "b"})
        await connection.request(1)
        assert (got[0].code, got[0].flag) == (103, FLAG_ONEWAY)


async def test_connect_to_nobody_names_the_address():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with pytest.raises(PeerUnavailable, match=f"127.0.0.1:{port}: "):
        await Connection.connect("127.0.0.1", port)


async def test_close_does_not_wait_for_a_peer_that_does_not_read():
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        connection = await Connection.connect(*deaf.getsockname())
        await connection.oneway(1, body=b"x" * 15_000_000)
        async with asyncio.timeout(10):
            await connection.close()
        assert connection.is_closed
