"""Runs a whole registry in this process: front end and sweeper in a thread, with fakeredis as its Redis."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import threading
from concurrent.futures import Future
from typing import Any, Final

from ..config.settings import Settings
from ..errors import StartError
from ..server.process.worker import Spec, Worker
from ..store.store import Store
from ..worker.sweeper import Sweeper
from .in_memory_redis import InMemoryRedis
from .local_registry import HOST, AnyRegistry

_START_S: Final = 30.0
_STOP_S: Final = 10.0


class InProcessRegistry(AnyRegistry):
    """A registry in this process while its ``with`` lasts; several may run at a time.

    Clients of any process reach it over its port. Its Redis is fakeredis: neither ``redis-cli`` nor the commands of
    ``mqregistry`` nor other processes can reach it; :class:`mqregistry.testing.LocalRegistry` has a real Redis.

    Args:
        settings: of the front end, e.g. ``compat="4.8"``.

    Attributes:
        address: ``host:port`` of the name server: for ``RouteClient(...)``, NAMESRV_ADDR, a broker's ``-n``.
        redis: URL of its Redis, for ``mqregistry.store`` in this process.

    Raises:
        StartError: it could not start. Raised by ``start`` and the ``with``.
    """

    def __init__(self, **settings: Any) -> None:
        self._redis = InMemoryRedis()
        super().__init__(self._redis.url)
        own: dict[str, Any] = {
            "redis": self.redis, "bind_address": HOST, "listen_port": self.port, "http_port": 0, "workers": 1,
            "shutdown_wait_time_seconds": 0,
        }  # fmt: skip
        self._settings = Settings(**{**own, **settings})
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None

    @property
    def is_running(self) -> bool:
        """Whether the registry answers."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Start it, and wait until it answers. After ``stop`` it has the same address and the same tables again."""
        if self.is_running:
            return
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="mqregistry", daemon=True)
        self._thread.start()
        try:
            ready.result(_START_S)
        except Exception as error:
            self.stop()
            raise StartError(f"the registry did not start: {error}") from error

    def stop(self) -> None:
        """Stop all of it, as an outage would; ``start`` brings it back."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if self._loop is not None and self._end is not None and thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
        thread.join(_STOP_S)

    def close(self) -> None:
        """End the registry; the data in its Redis is lost."""
        self.stop()
        self._redis.close()

    def _run(self, ready: Future[None]) -> None:
        try:
            asyncio.run(self._serve(ready))
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)

    async def _serve(self, ready: Future[None]) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        listener = socket.create_server((HOST, self.port))
        # The pipe through which a worker reports to its supervisor.
        read_fd, write_fd = os.pipe()
        os.set_blocking(write_fd, False)
        os.set_blocking(read_fd, False)
        worker = Worker(Spec(self._settings, secrets.token_hex(8), 0, listener.detach(), write_fd))
        lines = bytearray()

        def read_reports() -> None:
            lines.extend(os.read(read_fd, 1 << 16))
            if b'"ready"' in lines and not ready.done():
                ready.set_result(None)
            if ready.done():
                lines.clear()

        self._loop.add_reader(read_fd, read_reports)
        try:
            async with Store(self.redis, self._settings.namespace, compat=self._settings.compat) as store:
                await store.connect()
                sweeper = Sweeper(store, self._settings)
                async with asyncio.TaskGroup() as group:
                    group.create_task(worker.run(owns_process=False))
                    group.create_task(sweeper.run(self._end))
                    await self._end.wait()
                    worker.stop()
        finally:
            self._loop.remove_reader(read_fd)
            os.close(read_fd)
            os.close(write_fd)
