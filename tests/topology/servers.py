"""Redis servers under Sentinels, and a TLS proxy before one; single servers and clusters are in ``bench.servers``."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.servers.redis_servers import HOST, RedisProcess, as_text

from ..server.harness import wait_until


@contextlib.contextmanager
def sentinel_setup(folder: Path, **options: Any) -> Iterator[SentinelSetup]:
    """A master, a replica that follows it, and three Sentinels that agree about both."""
    setup = SentinelSetup(folder, **options)
    try:
        setup.start()
        yield setup
    finally:
        setup.end()


# The replica logs in as a user of its own, so that replication can be stopped without touching anybody else.
REPLICATOR = ("user replicator on nopass +psync +replconf +ping", "masteruser replicator", "masterauth any")


class SentinelSetup:
    """One master, one replica, three Sentinels."""

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "mymaster",
        down_after_ms: int = 1500,
        node_options: Sequence[str] = REPLICATOR,
        sentinel_options: Sequence[str] = (),
        login: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        options = [*node_options, "repl-diskless-sync yes", "repl-diskless-sync-delay 0"]
        self.nodes = [RedisProcess(folder / f"node{i}", options, login=login) for i in (0, 1)]
        self.sentinels = [RedisProcess(folder / f"sentinel{i}", sentinel=True) for i in (0, 1, 2)]
        self._down_after_ms = down_after_ms
        self._sentinel_options = sentinel_options

    def start(self) -> None:
        first, second = (node.start() for node in self.nodes)
        second.call("REPLICAOF", HOST, first.port)
        wait_until(lambda: second.call("ROLE")[3] == b"connected", "the replica follows")
        for sentinel in self.sentinels:
            sentinel.options = [
                f"sentinel monitor {self.name} {HOST} {first.port} 2",
                f"sentinel down-after-milliseconds {self.name} {self._down_after_ms}",
                f"sentinel failover-timeout {self.name} 3000",
                *self._sentinel_options,
            ]
            sentinel.start()
        for sentinel in self.sentinels:
            wait_until(lambda s=sentinel: self._knows_all(s), "the Sentinels know each other and the replica")

    def _knows_all(self, sentinel: RedisProcess) -> bool:
        flat = sentinel.call("SENTINEL", "MASTER", self.name)
        state = flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))
        state = {as_text(key): as_text(value) for key, value in state.items()}
        return (str(state["num-slaves"]), str(state["num-other-sentinels"])) == ("1", "2")

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(s.address for s in self.sentinels)}/{self.name}"

    @property
    def master(self) -> RedisProcess:
        """Whoever the first Sentinel says it is."""
        _, port = self.sentinels[0].call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.name)
        return next(node for node in self.nodes if node.port == int(port))

    @property
    def replica(self) -> RedisProcess:
        master = self.master
        return next(node for node in self.nodes if node is not master)

    def caught_up(self) -> bool:
        """Whether the replica has all that the master has."""
        replica, master = self.replica.call("ROLE"), self.master.call("ROLE")
        return replica[3] == b"connected" and replica[4] == master[1]

    def part(self) -> None:
        """Stop replication: what is written from now on, the replica never gets."""
        master = self.master
        master.call("ACL", "SETUSER", "replicator", "off")
        master.call("CLIENT", "KILL", "TYPE", "replica")
        wait_until(lambda: master.call("ROLE")[2] == [], "the master has no replica")

    def wait_for_failover(self, promoted: RedisProcess) -> None:
        wait_until(lambda: promoted.call("ROLE")[0] == b"master" and self.master is promoted, "failover")

    def end(self) -> None:
        for server in (*self.sentinels, *self.nodes):
            server.kill()


class TlsProxy:
    """Ends TLS and passes the bytes on: this Redis binary has none of its own."""

    def __init__(self, target_port: int, certificate: Path, key: Path) -> None:
        self._target_port = target_port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._listener = socket.create_server((HOST, 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.callback(client.close)
            client.settimeout(10)
            front = stack.enter_context(self._context.wrap_socket(client, server_side=True))
            back = stack.enter_context(socket.create_connection((HOST, self._target_port)))
            # an SSLSocket may not be read and written from two threads at once: one loop for both ways
            while True:
                readable = [front] if front.pending() else select.select([front, back], [], [], 30)[0]
                for source in readable:
                    data = source.recv(65536)
                    if not data:
                        return
                    (back if source is front else front).sendall(data)

    def close(self) -> None:
        # close alone would leave accept() waiting in its thread
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(5)


def make_certificates(folder: Path) -> tuple[Path, Path, Path]:
    """A CA of our own, and a certificate for this host under it: (CA, certificate, key)."""
    ca, ca_key, cert, key, asked = (folder / name for name in ("ca.pem", "ca.key", "cert.pem", "key.pem", "cert.csr"))
    extensions = folder / "extensions"
    extensions.write_text(f"subjectAltName=IP:{HOST}\n")
    new = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for command in (
        [*new, "-x509", "-days", "2", "-subj", "/CN=test CA", "-addext", "keyUsage=critical,keyCertSign",
         "-keyout", ca_key, "-out", ca],
        [*new, "-subj", "/CN=redis", "-keyout", key, "-out", asked],
        ["openssl", "x509", "-req", "-in", asked, "-CA", ca, "-CAkey", ca_key, "-days", "2", "-CAcreateserial",
         "-extfile", extensions, "-out", cert],
    ):  # fmt: skip
        subprocess.run(list(map(str, command)), check=True, capture_output=True)
    return ca, cert, key
