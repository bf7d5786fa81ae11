"""Starts real Redis servers on loopback TCP, for measurements and tests: a single one, or a Redis Cluster."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import redis

from bench.servers.processes import free_port, is_free, wait_until
from mqregistry.embedded import die_with_parent, find_server

HOST = "127.0.0.1"
WITHIN_S = 20.0


def free_port_and_bus() -> int:
    """A free port whose port 10,000 above is also free: the bus of a cluster node listens there."""
    while True:
        port = free_port()
        if is_free(port + 10_000):
            return port


class RedisProcess:
    """One redis-server process.

    Args:
        options: lines of its configuration file, which Redis may rewrite.
        login: arguments of ``redis.Redis`` for the administrator.
        program: path of the server; "" = the embedded one.
    """

    def __init__(
        self, folder: Path, options: Sequence[str] = (), *, sentinel: bool = False,
        login: dict[str, Any] | None = None, program: str = "",
    ) -> None:  # fmt: skip
        self.folder = folder
        self._program = program
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
    def pid(self) -> int | None:
        """The process id of the server; None while it does not run."""
        return self._process.pid if self._process else None

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def start(self) -> RedisProcess:
        """Start it on its port (the first time: a free one) and wait until it answers."""
        for _ in range(5):
            first = not self.port
            if first:
                self.port = free_port_and_bus()
                self._write_config()
            self._process = subprocess.Popen(
                [
                    self._program or find_server(),
                    str(self.folder / "redis.conf"),
                    *(["--sentinel"] if self._sentinel else []),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                preexec_fn=die_with_parent,
                start_new_session=True,
            )
            wait_until("Redis answers", lambda: self._answers() or self._process.poll() is not None, WITHIN_S)
            if self._process.poll() is None:
                return self
            if not first:
                break
            self.port = 0  # a different process took the port
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
        return redis.Redis(HOST, self.port, **{"protocol": 2, "socket_timeout": 5, **self._login, **options})

    def call(self, *command: Any) -> Any:
        """Run one command; its reply."""
        with self.client() as client:
            return client.execute_command(*command)

    def kill(self) -> None:
        """Send SIGKILL, like a crash, to it and to its child that may be writing the append-only file."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and no child is left
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Send SIGSTOP."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Send SIGCONT."""
        os.kill(self._process.pid, signal.SIGCONT)

    def __enter__(self) -> RedisProcess:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()


@contextlib.contextmanager
def cluster_setup(folder: Path, *, replica_of_slot: int | None = None) -> Iterator[ClusterSetup]:
    """A Redis Cluster of three masters, with a replica of the one that has ``replica_of_slot``."""
    setup = ClusterSetup(folder, replica_of_slot)
    try:
        setup.start()
        yield setup
    finally:
        for node in setup.nodes:
            node.kill()


class ClusterSetup:
    """A Redis Cluster with short timeouts, so that it fails over quickly."""

    def __init__(self, folder: Path, replica_of_slot: int | None) -> None:
        self._replica_of_slot = replica_of_slot
        options = [
            "cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-node-timeout 2000",
            "cluster-replica-validity-factor 0", "cluster-require-full-coverage no",
            "repl-diskless-sync yes", "repl-diskless-sync-delay 0",
        ]  # fmt: skip
        count = 3 if replica_of_slot is None else 4
        self.nodes = [RedisProcess(folder / f"node{i}", options) for i in range(count)]

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
            wait_until("the cluster is whole", lambda n=node: self._whole(n), WITHIN_S)
        if self._replica_of_slot is not None:
            master, replica = self.node_of(self._replica_of_slot), self.nodes[3]
            replica.call("CLUSTER", "REPLICATE", as_text(master.call("CLUSTER", "MYID")))
            wait_until("the replica follows", lambda: replica.call("ROLE")[3] == b"connected", WITHIN_S)
            for node in self.nodes:
                wait_until("every node knows of the replica", lambda n=node: self._slaves(n) == 1, WITHIN_S)

    def _whole(self, node: RedisProcess) -> bool:
        info = dict(line.split(":") for line in as_text(node.call("CLUSTER", "INFO")).split())
        return info["cluster_state"] == "ok" and int(info["cluster_known_nodes"]) == len(self.nodes)

    def _slaves(self, node: RedisProcess) -> int:
        return sum("slave" in line.split()[2] for line in as_text(node.call("CLUSTER", "NODES")).splitlines())

    def node_of(self, slot: int) -> RedisProcess:
        """The master of a slot, at the start."""
        return self.nodes[min(2, next(i for i in range(3) if slot < 16384 * (i + 1) // 3))]

    @property
    def url(self) -> str:
        return f"redis+cluster://{','.join(node.address for node in self.nodes[:3])}"


def as_text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
