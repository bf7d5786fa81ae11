"""Looks one topic up steadily, as a process of its own: ``python -m tests.hostile.honest_client PORT TOPIC``.

Each answer must be the first one, byte for byte. For each lookup it writes when it was due and how long after that
the answer was there: who waits for one answer is also late with the next ones, and that counts.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

from mqregistry.protocol.codes import RequestCode
from mqregistry.protocol.command import Command, encode_command

EVERY_S = 0.002
SAMPLE = struct.Struct("dd")


def lookup(topic: str) -> bytes:
    ext = {"topic": topic}
    return encode_command(Command(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, opaque=1, version=479, ext_fields=ext))


def answer(connection: socket.socket) -> bytes:
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
        more = connection.recv(1 << 16)
        if not more:
            raise SystemExit("the server hung up on an honest client")
        data += more
    return data


def main(port: int, topic: str) -> None:
    request = lookup(topic)
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(request)
        expected = answer(connection)
        due = time.monotonic()
        while True:
            due += EVERY_S
            time.sleep(max(0.0, due - time.monotonic()))
            connection.sendall(request)
            found = answer(connection)
            if found != expected:
                raise SystemExit(f"an honest lookup was answered {found!r} instead of {expected!r}")
            sys.stdout.buffer.write(SAMPLE.pack(due, time.monotonic() - due))
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
