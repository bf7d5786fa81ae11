"""A console on the test's own namespace: its application in the test's event loop, or the command as a process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import threading
import time

import httpx
import pytest

from mqregistry.config.settings import Settings
from mqregistry.console.app import make_app, make_app_of_several
from mqregistry.console.context import Console
from mqregistry.console.login.logins import Logins
from mqregistry.console.login.reach import Reach
from mqregistry.console.past import Past
from mqregistry.console.state import BLOCK_MS, State
from mqregistry.store.store import Store
from tests.cli.processes import Process
from tests.store.bed import Bed
from tests.store.test_processes import SWEEPER, worker
from tests.waiting import until

from .chromium import CHROMIUM, HOSTILE, faults_of

HERE = "http://127.0.0.1:9880"


def unlinked(page):
    """A page whose links are plain text: what a sentence says, wherever its names lead."""
    return re.sub(r"</?a\b[^>]*>", "", page)


class Site:
    """The application, and a browser without a window."""

    def __init__(self, console, app, base=HERE):
        self.console, self.app, self.base = console, app, base
        self.http = self.browser()

    def browser(self, peer="127.0.0.1", base=""):
        """One with cookies of its own, at another address."""
        transport = httpx.ASGITransport(app=self.app, client=(peer, 51234))
        return httpx.AsyncClient(transport=transport, base_url=base or self.base)

    async def get(self, path, status=200, **params):
        answer = await self.http.get(path, params=params or None)
        assert answer.status_code == status, (path, answer.status_code, answer.text[-2000:])
        return answer.text

    async def until_seen(self, seq):
        """The console has this change."""
        await until(lambda: self.console.state.seq >= seq, f"the change {seq} is seen")

    async def until_epoch(self, old):
        """The console noticed that the namespace is another one."""
        await until(lambda: self.console.state.epoch != old, "another epoch is seen")


@contextlib.asynccontextmanager
async def open_site(store, folder, *, lake=None, reach=None, base=HERE, **options):
    async with Store(
        store.url, store.namespace, timeout_ms=store.timeout_ms + BLOCK_MS, compat=store.compat
    ) as tail_store:
        state = State(store, tail_store)
        settings = Settings(redis=store.url, namespace=store.namespace)
        if reach is not None and reach.login:
            options["logins"] = Logins(store, state, root_path=options.get("root_path", ""), port=9880)
            await options["logins"].rules.start()
        console = Console(state, Past(state, folder, lake), settings, **options)
        app = make_app(console, reach or Reach())
        async with app.router.lifespan_context(app):
            site = Site(console, app, base)
            async with site.http:
                yield site


@contextlib.asynccontextmanager
async def open_several(stores, folder, *, login=False, root_path="", **options):
    """A console with these namespaces."""
    async with contextlib.AsyncExitStack() as stack:
        consoles = []
        for store in stores:
            tail_store = await stack.enter_async_context(
                Store(store.url, store.namespace, timeout_ms=store.timeout_ms + BLOCK_MS, compat=store.compat)
            )
            state = State(store, tail_store)
            logins = Logins(store, state, root_path=root_path, port=9880) if login else None
            consoles.append(Console(
                state, Past(state, folder), Settings(redis=store.url, namespace=store.namespace), logins=logins,
                root_path=f"{root_path}/ns/{store.namespace}", home_path=root_path, **options,
            ))  # fmt: skip
        if login:
            Logins.join([console.logins for console in consoles])
            for console in consoles:
                await console.logins.rules.start()
        app = make_app_of_several(consoles, Reach(login=login))
        async with app.router.lifespan_context(app):
            site = Site(consoles[0], app)
            site.consoles = consoles
            async with site.http:
                yield site


@pytest.fixture
def site(runner, store, tmp_path):
    """A console that only reads."""
    opened = open_site(store, tmp_path / "checkpoints")
    yield runner.run(opened.__aenter__())
    runner.run(opened.__aexit__(None, None, None))


@pytest.fixture
def acting(runner, store, tmp_path):
    """A console that may change something."""
    opened = open_site(store, tmp_path / "checkpoints", actions=True)
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
        self.url = re.search(r"at (https?://\S+)", self.out)[1].rstrip("/")


@pytest.fixture(scope="module")
def chromium():
    """One Chromium for all tests, in a thread of its own: Playwright's loop and that of the tests do not mix."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install -e '.[dev]'")
    sync_api.expect.set_options(timeout=60_000)
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(chromium, site):
    """A page of the module's ``site`` that fails the test when anything breaks the policy, or asks elsewhere."""
    context = chromium.new_context(base_url=site.url)
    page = context.new_page()
    page.set_default_timeout(60_000)
    faults = faults_of(page, site.url)
    yield page
    assert faults == []
    context.close()


@pytest.fixture(scope="module")
def loop():
    """Runs coroutines in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture(scope="module")
def filled(loop, redis_url):
    """A namespace with a few brokers, one of them with a hostile name, and what a front end tells."""

    async def fill():
        store = Store(redis_url, f"browser{time.monotonic_ns() % 10**9}")
        await store.connect()
        bed = Bed(store)
        await bed.leases.renew("w1", process=worker(), lease_ms=600_000)
        await bed.leases.reap(10, sweeper="s1", process=SWEEPER)
        await bed.register(topics=["orders", HOSTILE])
        await bed.register("10.0.0.2:10911", "broker-b", cluster="c2", topics=["orders", "bills"])
        await bed.kv.put("ns", HOSTILE, "v")
        return bed

    bed = loop(fill())
    yield bed
    loop(bed.store.close())


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
