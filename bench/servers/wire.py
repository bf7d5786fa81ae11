"""Sends the requests of measurements over blocking sockets."""

from __future__ import annotations

import contextlib
import socket
import zlib

from mqregistry.model import DataVersion, QueueData
from mqregistry.protocol.bodies.register import encode_register_body
from mqregistry.protocol.bodies.register_content import RegisterBody
from mqregistry.protocol.command import Command, decode_command, encode_command
from mqregistry.protocol.frame import FrameReader
from mqregistry.protocol.headers import RegisterBroker


def ask(connection: socket.socket, command: Command) -> Command:
    """Send a request and read its answer."""
    connection.sendall(encode_command(command))
    return read_answer(connection)


def read_answer(connection: socket.socket) -> Command:
    """Read the answer of a connection on which only one request waits for its answer.

    Raises:
        ConnectionResetError: the name server closed the connection.
    """
    reader = FrameReader()
    frames: list[bytes] = []
    while not frames:
        data = connection.recv(1 << 18)
        if not data:
            raise ConnectionResetError("the name server closed the connection")
        frames = reader.feed(data)
    answer = decode_command(frames[0])
    assert answer is not None
    return answer


def answers(port: int) -> bool:
    """Whether a name server answers a request for its clusters."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
        return ask(connection, Command(code=106, opaque=1, version=479)).code == 0
    return False


def registration_frame(topics: int, *, changed: int = 0, counter: int = 1, port: int = 10911) -> Command:
    """A registration request; the queue numbers of its first ``changed`` topics depend on the counter."""
    table = {
        name: QueueData(8 + counter % 8 if number < changed else 4, 8, 6)
        for number in range(topics)
        if (name := f"a-topic-of-usual-length-{number:05}")
    }
    body = encode_register_body(RegisterBody(data_version=DataVersion(counter, 1, 0), topics=table))
    header = RegisterBroker(
        broker_name=f"broker-{port}",
        broker_addr=f"127.0.0.1:{port}",
        cluster_name="bench",
        ha_server_addr=f"127.0.0.1:{port + 1}",
        broker_id=0,
        body_crc32=zlib.crc32(body) & 0x7FFFFFFF,
    )
    return Command(code=103, opaque=7, version=479, ext_fields=header.to_ext_fields(), body=body)


def registration(connection: socket.socket, topics: int) -> None:
    """Register a broker with this number of topics."""
    answer = ask(connection, registration_frame(topics))
    if answer.code != 0:
        raise RuntimeError(f"registration failed: {answer.remark}")
