"""The Redis of a round: one server, to which each process has a link, or a master and a replica under Sentinels."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from bench.servers.redis_servers import HOST, RedisProcess, as_text
from mqregistry.embedded import EmbeddedRedis
from tests.topology.servers import REPLICATOR, SentinelSetup

from .processes import Daemon
from .variants import SENTINEL, SINGLE

OPTIONS = {"slowlog-log-slower-than": "30000", "slowlog-max-len": "512", "hz": "20"}
DOWN_AFTER_MS = 1000
"""Sentinels take a server for dead after so long; on a busy machine one that lives may be silent for half of it."""
NO_RETRY: dict[str, Any] = {"retry": Retry(NoBackoff(), 0)}


class SingleRedis(EmbeddedRedis):
    """One server with an append-only file."""

    variant = SINGLE

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "r", extra=[word for name, value in OPTIONS.items() for word in (f"--{name}", value)])

    async def lead(self, daemon: Daemon) -> None:
        """Give a process its way to Redis."""
        await daemon.link.start(self.socket_path)
        daemon.redis_url = f"redis://127.0.0.1:{daemon.link.port}"

    def client(self, timeout_s: float) -> redis.Redis:
        """An administrator's client, past all links."""
        return redis.Redis(
            unix_socket_path=str(self.socket_path), protocol=2, socket_timeout=timeout_s, **NO_RETRY
        )  # fmt: skip

    def heal(self) -> None:
        if self.pid is not None:
            os.kill(self.pid, signal.SIGCONT)

    async def close(self, daemons: Iterable[Daemon]) -> None:
        for daemon in daemons:
            await daemon.link.close()
        self.kill()


class SentinelRedis(SentinelSetup):
    """A master, a replica and three Sentinels, which the processes find the master by; nothing is kept in files."""

    variant = SENTINEL

    def __init__(self, folder: Path) -> None:
        options = [*REPLICATOR, *(f"{name} {value}" for name, value in OPTIONS.items())]
        super().__init__(folder / "r", down_after_ms=DOWN_AFTER_MS, node_options=options)
        self._clients: dict[RedisProcess, redis.Redis] = {}

    async def lead(self, daemon: Daemon) -> None:
        daemon.redis_url = self.url

    def named(self) -> list[tuple[int, RedisProcess]]:
        """Whom each Sentinel that answers names as the master, and in which epoch."""
        found = []
        for sentinel in self.sentinels:
            with contextlib.suppress(redis.RedisError, OSError):
                told = _fields(self._ask(sentinel, "SENTINEL", "MASTER", self.name))
                node = next(node for node in self.nodes if node.port == int(told["port"]))
                found.append((int(told["config-epoch"]), node))
        return found

    def _ask(self, sentinel: RedisProcess, *command: str) -> Any:
        if sentinel not in self._clients:
            self._clients[sentinel] = sentinel.client(socket_timeout=1, **NO_RETRY)
        return self._clients[sentinel].execute_command(*command)

    def would_promote(self, node: RedisProcess) -> bool:
        """Whether most Sentinels take this server for a replica that is up to date."""
        count = 0
        for sentinel in self.sentinels:
            told = [_fields(flat) for flat in self._ask(sentinel, "SENTINEL", "REPLICAS", self.name)]
            good = [one for one in told if one["flags"] == "slave" and one["master-link-status"] == "ok"]
            count += any(int(one["port"]) == node.port for one in good)
        return count >= 2

    def ask_for_failover(self) -> bool:
        """Whether the Sentinels begin one; they do not soon after another one."""
        try:
            self._ask(self.sentinels[1], "SENTINEL", "FAILOVER", self.name)
        except redis.ResponseError:
            return False
        return True

    def join(self, node: RedisProcess) -> None:
        """Start a server that was killed while parted; others may follow it again."""
        node.start().call("ACL", "SETUSER", "replicator", "on")

    @property
    def master(self) -> RedisProcess:
        """The one of the latest failover that a Sentinel knows of."""
        named = self.named()
        if not named:
            raise redis.ConnectionError("no Sentinel answers")
        return max(named, key=lambda one: one[0])[1]

    def leads_to(self, node: RedisProcess) -> bool:
        """Whether a Sentinel names this server, and none a later one, and it takes writes."""
        with contextlib.suppress(redis.RedisError):
            return self.master is node and role(node)[0] == "master"
        return False

    @property
    def pid(self) -> int | None:
        """The master's."""
        with contextlib.suppress(redis.RedisError, OSError):
            return self.master.pid
        return None

    def client(self, timeout_s: float) -> redis.Redis:
        """An administrator's client of the current master."""
        return self.master.client(socket_timeout=timeout_s, **NO_RETRY)

    def heal(self) -> None:
        for server in (*self.nodes, *self.sentinels):
            if server.pid is None:
                server.start()
            else:
                server.go_on()

    async def close(self, daemons: Iterable[Daemon]) -> None:
        self.end()


SERVERS: dict[str, type[SingleRedis] | type[SentinelRedis]] = {SINGLE: SingleRedis, SENTINEL: SentinelRedis}


def _fields(flat: Any) -> dict[str, str]:
    pairs = flat.items() if isinstance(flat, dict) else zip(flat[::2], flat[1::2], strict=True)
    return {as_text(key): as_text(value) for key, value in pairs}


def role(node: RedisProcess) -> tuple[str, int]:
    """What a server is, and how far it is in the master's changes: ("", 0) if it does not answer."""
    with contextlib.suppress(redis.RedisError, OSError), node.client(socket_timeout=0.5, **NO_RETRY) as client:
        told = client.execute_command("ROLE")
        name = as_text(told[0])
        return name, int(told[1] if name == "master" else told[4])
    return "", 0


def follow(node: RedisProcess, master: RedisProcess) -> None:
    """Make it a replica by hand, as an administrator does who does not wait for the Sentinels."""
    node.call("REPLICAOF", HOST, master.port)
