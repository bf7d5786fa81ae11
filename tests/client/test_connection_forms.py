"""PeerConnection in its other forms: TLS and binary headers."""

from __future__ import annotations

import asyncio
import contextlib
import ssl

import pytest

from mqregistry.client.connection import PeerConnection
from mqregistry.errors import PeerUnavailable
from mqregistry.protocol.codes import Encoding
from mqregistry.protocol.command import Command, decode_command, encode_command
from mqregistry.protocol.frame import FrameReader
from tests.certificates import Authority


@contextlib.asynccontextmanager
async def echoing(context: ssl.SSLContext | None = None):
    """A server that answers each request with its extFields, and keeps what came; its port, and what came."""
    came: list[Command] = []

    async def serve(reader, writer) -> None:
        frames = FrameReader()
        while data := await reader.read(65536):
            for frame in frames.feed(data):
                command = decode_command(frame)
                came.append(command)
                writer.write(encode_command(Command(opaque=command.opaque, flag=1, ext_fields=command.ext_fields)))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1], came
    finally:
        server.close()


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path, "authority")


@pytest.fixture
def server_context(authority):
    pair = authority.sign("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    return context


@pytest.mark.parametrize("encoding", list(Encoding))
async def test_requests_are_written_in_the_chosen_encoding(encoding):
    async with echoing() as (port, came):
        connection = await PeerConnection.connect("127.0.0.1", port, encoding=encoding)
        answer = await connection.request(105, {"topic": "t"}, timeout_s=10)
        await connection.oneway(904, {"brokerName": "b"})
        await connection.request(106, timeout_s=10)
        await connection.close()
    assert answer.ext_fields == {"topic": "t"}
    assert [command.encoding for command in came] == [encoding] * 3


async def test_tls_to_a_server_whose_certificate_is_trusted(authority, server_context):
    async with echoing(server_context) as (port, _):
        trusting = ssl.create_default_context(cafile=str(authority.cert))
        connection = await PeerConnection.connect("127.0.0.1", port, tls=trusting, timeout_s=10)
        assert (await connection.request(105, {"topic": "t"}, timeout_s=10)).ext_fields == {"topic": "t"}
        await connection.close()


async def test_tls_to_a_server_that_is_another_one(authority, server_context):
    async with echoing(server_context) as (port, _):
        trusting = ssl.create_default_context(cafile=str(authority.cert))
        with pytest.raises(PeerUnavailable, match=r"(?i)hostname mismatch|doesn't match"):
            await PeerConnection.connect("127.0.0.1", port, tls=trusting, server_hostname="other.example", timeout_s=10)
        with pytest.raises(PeerUnavailable, match=r"(?i)verify failed"):
            await PeerConnection.connect("127.0.0.1", port, tls=ssl.create_default_context(), timeout_s=10)


async def test_abort_fails_what_is_under_way_at_once():
    async def silent(reader, writer) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    connection = await PeerConnection.connect("127.0.0.1", server.sockets[0].getsockname()[1])
    request = asyncio.ensure_future(connection.request(105, timeout_s=60))
    await asyncio.sleep(0)
    connection.abort()
    with pytest.raises(PeerUnavailable, match="closed"):
        await request
    assert connection.is_closed
    server.close()
