"""Real Redis processes on loopback TCP: single, Sentinel, Cluster; and a TLS proxy before one."""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import redis

from registry.embedded import die_with_parent, find_server

from ..server.harness import wait_until

HOST = "127.0.0.1"


def free_port() -> int:
    """A port that is free now, and free 10,000 above too: the bus of a cluster node listens there."""
    while True:
        port = random.randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as one, socket.socket() as bus:
            one.bind((HOST, port))
            bus.bind((HOST, port + 10_000))
            return port


class Server:
    """One redis-server process. options: lines of its configuration file, which it may rewrite."""

    def __init__(
        self, folder: Path, options: Sequence[str] = (), *, sentinel: bool = False, login: dict[str, Any] | None = None
    ) -> None:
        self.folder = folder
        self.options = list(options)
        self._sentinel = sentinel
        self._login = login or {}
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def url(self) -> str:
        return f"redis://{self.address}"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def start(self) -> Server:
        """Start it on its port (the first time: a free one) and wait until it answers."""
        for _ in range(5):
            first = not self.port
            if first:
                self.port = free_port()
                self._write_config()
            self._process = subprocess.Popen(
                [find_server(), str(self.folder / "redis.conf"), *(["--sentinel"] if self._sentinel else [])],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                preexec_fn=die_with_parent,
                start_new_session=True,
            )
            wait_until(lambda: self._answers() or self._process.poll() is not None, "Redis answers")
            if self._process.poll() is None:
                return self
            if not first:
                break
            self.port = 0  # somebody was faster
        raise AssertionError(f"Redis did not start:\n{self.log}")

    def _write_config(self) -> None:
        lines = [
            f"port {self.port}", f"bind {HOST}", f"dir {self.folder}", f"logfile {self.folder / 'log'}",
            *([] if self._sentinel else ['save ""', "appendonly no"]), *self.options,
        ]  # fmt: skip
        (self.folder / "redis.conf").write_text("\n".join(lines) + "\n")

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.AuthenticationError:
            return True
        except redis.RedisError:
            return False

    def client(self, **options: Any) -> redis.Redis:
        """A client of the administrator of this server."""
        return redis.Redis(HOST, self.port, protocol=2, socket_timeout=5, **{**self._login, **options})

    def call(self, *command: Any) -> Any:
        """One command."""
        with self.client() as client:
            return client.execute_command(*command)

    def call_or_none(self, *command: Any) -> Any:
        """One command; None while the server is not there."""
        try:
            return self.call(*command)
        except (redis.ConnectionError, redis.TimeoutError):
            return None

    def kill(self) -> None:
        """SIGKILL: as a crash would end it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """SIGSTOP."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        os.kill(self._process.pid, signal.SIGCONT)

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()


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
_REPLICATOR = ("user replicator on nopass +psync +replconf +ping", "masteruser replicator", "masterauth any")


class SentinelSetup:
    """One master, one replica, three Sentinels."""

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "mymaster",
        down_after_ms: int = 500,
        node_options: Sequence[str] = _REPLICATOR,
        sentinel_options: Sequence[str] = (),
        login: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        options = [*node_options, "repl-diskless-sync yes", "repl-diskless-sync-delay 0"]
        self.nodes = [Server(folder / f"node{i}", options, login=login) for i in (0, 1)]
        self.sentinels = [Server(folder / f"sentinel{i}", sentinel=True) for i in (0, 1, 2)]
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
            wait_until(lambda s=sentinel: self._knows_all(s), "the Sentinels know each other and the replica", 20)

    def _knows_all(self, sentinel: Server) -> bool:
        flat = sentinel.call("SENTINEL", "MASTER", self.name)
        state = flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))
        state = {_text(key): _text(value) for key, value in state.items()}
        return (str(state["num-slaves"]), str(state["num-other-sentinels"])) == ("1", "2")

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(s.address for s in self.sentinels)}/{self.name}"

    @property
    def master(self) -> Server:
        """Whoever the first Sentinel says it is."""
        _, port = self.sentinels[0].call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.name)
        return next(node for node in self.nodes if node.port == int(port))

    @property
    def replica(self) -> Server:
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

    def wait_for_failover(self, promoted: Server) -> None:
        wait_until(lambda: promoted.call("ROLE")[0] == b"master" and self.master is promoted, "failover", 20)

    def end(self) -> None:
        for server in (*self.sentinels, *self.nodes):
            server.kill()


@contextlib.contextmanager
def cluster_setup(folder: Path, *, replica_of_slot: int | None = None) -> Iterator[ClusterSetup]:
    """Three masters; and a replica of the one that has ``replica_of_slot``."""
    setup = ClusterSetup(folder, replica_of_slot)
    try:
        setup.start()
        yield setup
    finally:
        for node in setup.nodes:
            node.kill()


class ClusterSetup:
    """A Redis Cluster that fails over quickly."""

    def __init__(self, folder: Path, replica_of_slot: int | None) -> None:
        self._replica_of_slot = replica_of_slot
        options = [
            "cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-node-timeout 800",
            "cluster-replica-validity-factor 0", "cluster-require-full-coverage no",
            "repl-diskless-sync yes", "repl-diskless-sync-delay 0",
        ]  # fmt: skip
        count = 3 if replica_of_slot is None else 4
        self.nodes = [Server(folder / f"node{i}", options) for i in range(count)]

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        masters = self.nodes[:3]
        for i, node in enumerate(masters):
            first, last = 16384 * i // 3, 16384 * (i + 1) // 3
            node.call("CLUSTER", "ADDSLOTS", *range(first, last))
            node.call("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        for node in self.nodes[1:]:
            node.call("CLUSTER", "MEET", HOST, self.nodes[0].port)
        for node in self.nodes:
            wait_until(lambda n=node: self._whole(n), "the cluster is whole", 20)
        if self._replica_of_slot is not None:
            master, replica = self.node_of(self._replica_of_slot), self.nodes[3]
            replica.call("CLUSTER", "REPLICATE", _text(master.call("CLUSTER", "MYID")))
            wait_until(lambda: replica.call("ROLE")[3] == b"connected", "the replica follows", 20)
            for node in self.nodes:
                wait_until(lambda n=node: self._slaves(n) == 1, "every node knows of the replica", 20)

    def _whole(self, node: Server) -> bool:
        info = dict(line.split(":") for line in _text(node.call("CLUSTER", "INFO")).split())
        return info["cluster_state"] == "ok" and int(info["cluster_known_nodes"]) == len(self.nodes)

    def _slaves(self, node: Server) -> int:
        return sum("slave" in line.split()[2] for line in _text(node.call("CLUSTER", "NODES")).splitlines())

    def node_of(self, slot: int) -> Server:
        """The master of a slot, at the start."""
        return self.nodes[min(2, next(i for i in range(3) if slot < 16384 * (i + 1) // 3))]

    @property
    def url(self) -> str:
        return f"redis+cluster://{','.join(node.address for node in self.nodes[:3])}"


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


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
