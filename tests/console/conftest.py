"""A console on the test's own namespace: its application in the test's event loop, or the command as a process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time

import httpx
import pytest

from mqregistry.config.settings import Settings
from mqregistry.console.app import make_app
from mqregistry.console.context import Console
from mqregistry.console.past import Past
from mqregistry.console.state import BLOCK_MS, State
from mqregistry.store.store import Store
from tests.cli.processes import Process
from tests.store.bed import Bed

HERE = "http://127.0.0.1:9880"


class Site:
    """The application, and a browser without a window."""

    def __init__(self, console, app):
        self.console, self.app = console, app
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=HERE)

    async def get(self, path, status=200, **params):
        answer = await self.http.get(path, params=params or None)
        assert answer.status_code == status, (path, answer.status_code, answer.text[-2000:])
        return answer.text

    async def until_seen(self, seq):
        """The console has this change."""
        async with asyncio.timeout(10):
            while self.console.state.seq < seq:  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    async def until_epoch(self, old):
        """The console noticed that the namespace is another one."""
        async with asyncio.timeout(10):
            while self.console.state.epoch == old:  # noqa: ASYNC110
                await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def open_site(store, folder, **options):
    async with Store(store.url, store.namespace, timeout_ms=2000 + BLOCK_MS, compat=store.compat) as tail_store:
        state = State(store, tail_store)
        settings = Settings(redis=store.url, namespace=store.namespace)
        console = Console(state, Past(state, folder), settings, **options)
        app = make_app(console)
        async with app.router.lifespan_context(app):
            site = Site(console, app)
            async with site.http:
                yield site


@pytest.fixture
def site(runner, store, tmp_path):
    """A console that only reads."""
    opened = open_site(store, tmp_path / "checkpoints")
    yield runner.run(opened.__aenter__())
    runner.run(opened.__aexit__(None, None, None))


class Running(Process):
    """``mqregistry console`` as a process."""

    def __init__(self, redis_url, namespace, folder, *options):
        env = {**os.environ, "HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}
        super().__init__(
            "console", "--redis", redis_url, "--namespace", namespace, "--port", "0",
            "--checkpoints", str(folder / "checkpoints"), *options, env=env,
        )  # fmt: skip
        self.wait_for("The console is at")
        self.url = re.search(r"at (http://\S+)", self.out)[1].rstrip("/")


@pytest.fixture(scope="module")
def module_runner():
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def module_bed(module_runner, redis_url):
    """A namespace for all tests of a module."""
    store = Store(redis_url, f"console{time.monotonic_ns() % 10**9}")
    module_runner.run(store.connect())
    yield Bed(store)
    module_runner.run(store.close())


@pytest.fixture(scope="module")
def running(module_bed, redis_url, tmp_path_factory):
    """The command on it."""
    process = Running(redis_url, module_bed.store.namespace, tmp_path_factory.mktemp("console"))
    yield process
    process.end()
