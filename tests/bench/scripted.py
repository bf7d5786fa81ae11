"""A name server that does what a test tells it, in a thread: one connection, blocking, slow and simple."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable

from mqregistry.protocol.command import Command, decode_command, encode_command
from mqregistry.protocol.frame import FrameReader

Answers = Callable[[Command], Iterable[Command]]


def right(command: Command) -> Command:
    """What a name server whose route bodies are the topics' names would answer."""
    body = (command.ext_fields or {}).get("topic", "").encode()
    return Command(code=0, flag=1, opaque=command.opaque, version=479, body=body)


class ScriptedServer:
    """answers: called for each request; the answers that it gives are sent at once. None: hang up."""

    def __init__(self, answers: Callable[[Command], Iterable[Command] | None]) -> None:
        self._answers = answers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.received: list[Command] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self._listener.accept()[0],), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        reader = FrameReader()
        with contextlib.closing(connection), contextlib.suppress(OSError):
            while data := connection.recv(1 << 18):
                for frame in reader.feed(data):
                    command = decode_command(frame)
                    assert command is not None
                    self.received.append(command)
                    answers = self._answers(command)
                    if answers is None:
                        return
                    connection.sendall(b"".join(map(encode_command, answers)))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
