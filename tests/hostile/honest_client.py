"""Looks one topic up steadily, as a process of its own: ``python -m tests.hostile.honest_client PORT TOPIC``.

It stands for many clients: a lookup is sent when it is due, whether those before it are answered or not. Each answer
must be the first one, byte for byte. For each lookup it writes when it was due and how long after that the answer was
there.
"""

from __future__ import annotations

import select
import socket
import struct
import sys
import time
from collections import deque

from mqregistry.protocol.codes import RequestCode
from mqregistry.protocol.command import Command, encode_command
from mqregistry.protocol.frame import FrameReader

EVERY_S = 0.002
SAMPLE = struct.Struct("dd")


def lookup(topic: str) -> bytes:
    ext = {"topic": topic}
    return encode_command(Command(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, opaque=1, version=479, ext_fields=ext))


def answers(connection: socket.socket, reader: FrameReader) -> list[bytes]:
    data = connection.recv(1 << 18)
    if not data:
        raise SystemExit("the server hung up on an honest client")
    return reader.feed(data)


def main(port: int, topic: str) -> None:
    request, reader, asked = lookup(topic), FrameReader(), deque[float]()
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(request)
        expected: list[bytes] = []
        while not expected:
            expected = answers(connection, reader)
        due = time.monotonic()
        while True:
            now = time.monotonic()
            while due <= now:
                connection.sendall(request)
                asked.append(due)
                due += EVERY_S
            if not select.select([connection], [], [], max(0.0, due - now))[0]:
                continue
            for found in answers(connection, reader):
                if found != expected[0]:
                    raise SystemExit(f"an honest lookup was answered {found!r} instead of {expected[0]!r}")
                then = asked.popleft()
                sys.stdout.buffer.write(SAMPLE.pack(then, time.monotonic() - then))
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
