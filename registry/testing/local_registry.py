"""Runs a registry for tests: ``mqregistry up`` on a free port, with its tables in a temporary folder."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from ..client.connection import PeerConnection
from ..client.questions import ask_clusters, ask_route
from ..embedded import die_with_parent
from ..errors import StartError
from ..model import TopicRoute
from ..store.config_writes import KvStore
from ..store.operator_reads import read_clusters
from ..store.route_writes import RouteStore
from ..store.snapshot import read_section
from ..store.store import open_existing

HOST: Final = "127.0.0.1"
_SERVER: Final = "MQREGISTRY_REDIS_SERVER"
_BOOTED: Final = "The Name Server boot success"
_STOP_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.01

_Value = TypeVar("_Value")


def eventually(condition: Callable[[], _Value], what: str = "", timeout_s: float = 10.0) -> _Value:
    """Call a condition until its value is true, and return that value.

    Raises:
        AssertionError: it was not true within ``timeout_s``; the message has ``what``.
    """
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what or condition}")
        time.sleep(_LOOK_EVERY_S)
    return value


class AnyRegistry:
    """Base of the registries for tests: address, URL of the Redis, and reads of the name server."""

    def __init__(self, redis: str) -> None:
        with socket.socket() as free:
            free.bind((HOST, 0))
            self.port: int = free.getsockname()[1]
        self.address = f"{HOST}:{self.port}"
        self.redis = redis

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start it, and wait until it answers. After ``stop`` it has the same address and the same tables again."""
        raise NotImplementedError

    def close(self) -> None:
        """End the registry; it cannot be started again."""
        raise NotImplementedError

    def brokers(self) -> dict[str, dict[int, str]]:
        """BrokerName -> broker id -> address, as a client gets it (106)."""

        async def ask(server: PeerConnection) -> dict[str, dict[int, str]]:
            rows, _ = await ask_clusters(server)
            return {name: row.broker_addrs for name, row in rows.items()}

        return _run(self._asked(ask))

    def route(self, topic: str) -> TopicRoute | None:
        """A topic's route, as a client gets it (105); None: there is no such topic."""
        return _run(self._asked(lambda server: ask_route(server, topic)))

    def clear(self) -> None:
        """Remove all brokers with their topics, and the KV configuration, for the next test."""

        async def work() -> None:
            async with open_existing(self.redis, "default") as store:
                routes, kv = RouteStore(store), KvStore(store)
                _, rows = await read_clusters(store)
                for name, row in rows.items():
                    for broker_id, addr in row.broker_addrs.items():
                        await routes.unregister_broker(row.cluster, addr, name, broker_id)
                for namespace, flat in [part async for part in read_section(store, "kv")]:
                    for key in flat[::2]:
                        await kv.delete(namespace, key.decode())

        _run(work())
        eventually(lambda: not self.brokers(), "no broker is left")

    async def _asked(self, ask: Callable[[PeerConnection], Coroutine[Any, Any, _Value]]) -> _Value:
        server = await PeerConnection.connect(HOST, self.port)
        try:
            return await ask(server)
        finally:
            await server.close()


class LocalRegistry(AnyRegistry):
    """A registry in processes of its own while its ``with`` lasts; several may run at the same time.

    It needs the extra ``embedded``, or redis-server 6.2 or later on PATH.
    :class:`mqregistry.testing.InProcessRegistry` starts faster and needs no redis-server.

    Args:
        options: of ``mqregistry up``, e.g. ``"--compat", "4.8"``.

    Attributes:
        address: ``host:port`` of the name server: for ``RouteClient(...)``, NAMESRV_ADDR, a broker's ``-n``.
        redis: URL of its Redis.

    Raises:
        StartError: it could not start; the message has its log. Raised by ``start`` and the ``with``.
    """

    def __init__(self, *options: str) -> None:
        self._options = options
        self._folder = Path(tempfile.mkdtemp(prefix="mq"))  # short, because the path of a socket has a limit
        super().__init__(f"unix://{self._folder / 'redis.sock'}")
        self._process: subprocess.Popen[str] | None = None

    @property
    def is_running(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, and wait until it answers. After ``stop`` it has the same address and the same tables again."""
        if self.is_running:
            return
        self.stop()
        command = [sys.executable, "-m", "mqregistry", "up", "--host", HOST, "--port", str(self.port),
                   "--http-port", "0", "--data-dir", str(self._folder), *self._options]  # fmt: skip
        with (self._folder / "up.log").open("w") as log:
            self._process = process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
                env=self._environment(), preexec_fn=die_with_parent, start_new_session=True,
            )  # fmt: skip
        assert process.stdout is not None
        if not any(line.startswith(_BOOTED) for line in process.stdout):
            self.stop()
            raise StartError(f"the registry did not start: {self.log().strip()}")

    def stop(self) -> None:
        """Stop all of it, as an outage would; ``start`` brings it back."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def close(self) -> None:
        """End the registry, and remove its folder."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def log(self) -> str:
        """The lines that it has logged since it was started."""
        return (self._folder / "up.log").read_text(errors="replace")

    def _environment(self) -> dict[str, str]:
        """The caller's environment without settings; XDG_RUNTIME_DIR is private, so no command finds this ``up``."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MQREGISTRY_")}
        server = os.environ.get(_SERVER)
        return kept | {"XDG_RUNTIME_DIR": str(self._folder)} | ({_SERVER: server} if server else {})


def _run(work: Coroutine[Any, Any, _Value]) -> _Value:
    """Run a coroutine in another thread, because the caller's thread may have a running event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
