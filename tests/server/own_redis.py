"""A Redis that a test may break while front ends use it: killed, paused, cut off, or come back empty."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import threading
from pathlib import Path

import redis

from mqregistry.embedded import EmbeddedRedis

from ..conftest import NO_FSYNC


class Relay:
    """Passes bytes between front ends and Redis, and can stop doing so without closing anything."""

    def __init__(self, folder: Path, target: Path) -> None:
        self.path = folder / "relay.sock"
        self._target = target
        self._open = threading.Event()
        self._open.set()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(str(self._target))
            except OSError:  # as if it were there itself
                client.close()
                server.close()
                continue
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._open.wait()
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def cut(self) -> None:
        self._open.clear()

    def mend(self) -> None:
        self._open.set()

    def close(self) -> None:
        self._open.set()
        self._listener.close()


class OwnRedis:
    """A Redis of this test's own, to be broken."""

    def __init__(self, folder: Path) -> None:
        self.server = EmbeddedRedis(folder, extra=NO_FSYNC)
        self.server.start()
        self.relay = Relay(folder, self.server.socket_path)
        self.url = f"unix://{self.relay.path}"

    def client(self):
        return redis.Redis(unix_socket_path=str(self.server.socket_path), protocol=2)

    def close(self) -> None:
        self.relay.close()
        if self.server.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.server.pid, signal.SIGCONT)
        self.server.stop()

    # the outages: begin, end

    def killed(self):
        self.server.kill()
        return self.server.start

    def paused(self):
        os.kill(self.server.pid, signal.SIGSTOP)
        return lambda: os.kill(self.server.pid, signal.SIGCONT)

    def cut_off(self):
        self.relay.cut()
        return self.relay.mend

    def restarted_empty(self):
        self.server.kill()

        def end() -> None:
            for path in self.server.folder.glob("*.aof"):
                path.unlink()
            shutil.rmtree(self.server.folder / "appendonlydir", ignore_errors=True)
            self.server.start()

        return end
