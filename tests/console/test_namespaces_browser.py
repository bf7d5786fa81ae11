"""Several namespaces of one console in a real Chromium: one stream for all tabs, links, a later login."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time

import pytest

from mqregistry.auth.rights import Role
from mqregistry.store.store import Store
from tests.server.auth_bed import secret_of, user
from tests.store.bed import Bed

from .chromium import faults_of, needs_chromium
from .conftest import Running
from .login.conftest import add_users
from .test_accessible import findings

pytestmark = needs_chromium
expect = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install -e '.[dev]'").expect


@pytest.fixture(scope="module")
def beds(loop, redis_url):
    """Two namespaces, with a user of the first one, one of the second, and one of both."""

    async def make():
        number = time.monotonic_ns() % 10**9
        beds = []
        for name, users in (("pay", ("anna", "both")), ("stock", ("bert", "both"))):
            bed = Bed(Store(redis_url, f"{name}-{number}"))
            await bed.store.connect()
            await bed.register(topics=["orders", f"only-{name}"])
            await add_users(bed.store, [user(one, Role.ADMIN) for one in users])
            beds.append(bed)
        return beds

    beds = loop(make())
    yield beds
    for bed in beds:
        loop(bed.store.close())


@contextlib.contextmanager
def console(beds, redis_url, folder, *options):
    first, second = (bed.store.namespace for bed in beds)
    process = Running(redis_url, first, folder, "--also", second, *options)
    try:
        yield process
    finally:
        process.end()


@pytest.fixture(scope="module")
def site(beds, redis_url, tmp_path_factory):
    with console(beds, redis_url, tmp_path_factory.mktemp("several")) as process:
        yield process


def log_in(page, name):
    page.locator("#name").fill(name)
    page.locator("#secret").fill(secret_of(name))
    page.locator("#secret").press("Enter")


def test_tabs_of_several_namespaces_share_one_stream_and_all_stay_true(chromium, site, beds, loop):
    context = chromium.new_context(base_url=site.url)
    context.set_default_timeout(60_000)
    streams = []
    context.on("request", lambda one: streams.append(one.url) if "/events?" in one.url else None)
    first, second = (bed.store.namespace for bed in beds)
    try:
        tabs = [(name, context.new_page()) for name in (first, second) * 4]
        listing = context.new_page()
        for name, tab in tabs:
            tab.goto(f"/ns/{name}/changes")
        listing.goto("/")
        asks = []
        for name, tab in tabs:
            tab.on("request", lambda one, name=name: asks.append(name) if one.url.endswith("/changes") else None)
        for bed in beds:
            loop(bed.kv.put("tabs", bed.store.namespace, "1"))
            loop(bed.register("10.0.0.61:10911", "broker-tab", topics=["orders", "bills"]))
        for name, tab in tabs:
            tab.locator("#changes .change", has_text=f"tabs/{name}").wait_for()
            assert tab.get_by_text(f"tabs/{second if name == first else first}").count() == 0
            expect(tab.locator("#status")).to_have_text("up to date")
        listing.locator("tr", has_text=second).locator("[data-label=Brokers]", has_text="2").wait_for()
        assert len(streams) == 1, streams
        asks.clear()
        loop(beds[0].kv.put("tabs", "again", "1"))
        for name, tab in tabs:
            if name == first:
                tab.locator("#changes .change", has_text="tabs/again").wait_for()
        assert first in asks
        tabs[0][1].close()  # the one that read the stream
        loop(beds[1].kv.put("tabs", "third", "1"))
        tabs[1][1].locator("#changes .change", has_text="tabs/third").wait_for()
        assert len(streams) == 2, streams
    finally:
        context.close()


def test_from_the_list_to_a_namespace_and_back(chromium, site, beds):
    context = chromium.new_context(base_url=site.url)
    page = context.new_page()
    page.set_default_timeout(60_000)
    faults = faults_of(page, site.url)
    page.goto("/")
    page.get_by_role("link", name=beds[1].store.namespace).click()
    page.get_by_role("link", name="Topics").first.click()
    page.get_by_text("only-stock").wait_for()
    assert page.url == f"{site.url}/ns/{beds[1].store.namespace}/topics"
    page.get_by_title("All namespaces").click()
    page.get_by_role("link", name=beds[0].store.namespace).wait_for()
    assert page.url == f"{site.url}/"
    assert faults == []
    context.close()


def test_keys_lead_to_the_search_of_all_from_the_list(chromium, site, beds):
    context = chromium.new_context(base_url=site.url)
    page = context.new_page()
    page.set_default_timeout(60_000)
    for key in ("Control+k", "/"):
        page.goto("/")
        page.keyboard.press(key)
        expect(page.locator("#search")).to_be_focused()
        page.keyboard.type("orders")
        page.keyboard.press("Enter")
        for bed in beds:
            page.locator("tr", has_text=bed.store.namespace).get_by_role("link", name="orders").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("only-stock")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{site.url}/ns/{beds[1].store.namespace}/topic?name=only-stock")
    page.goto(f"/ns/{beds[0].store.namespace}/search?q=only-stock")
    page.get_by_role("link", name="Search all namespaces").click()
    page.wait_for_url(f"{site.url}/ns/{beds[1].store.namespace}/topic?name=only-stock")
    context.close()


@pytest.mark.parametrize("path", ["/", "/search?q=orders"])
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_list_fits_and_nothing_stands_between_it_and_a_reader(chromium, site, scheme, width, path):
    context = chromium.new_context(base_url=site.url, color_scheme=scheme, viewport={"width": width, "height": 900})
    page = context.new_page()
    page.goto(path)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert findings(page) == []
    context.close()


def test_a_login_that_comes_later_reaches_the_stream_that_is_open(chromium, beds, redis_url, tmp_path, loop):
    first, second = (bed.store.namespace for bed in beds)
    with console(beds, redis_url, tmp_path, "--login") as process:
        context = chromium.new_context(base_url=process.url)
        context.set_default_timeout(60_000)
        page, other = context.new_page(), context.new_page()
        page.goto("/")
        log_in(page, "anna")
        page.get_by_role("link", name=first).click()
        page.locator("#status .ok").wait_for()
        other.goto(f"/ns/{second}/changes")
        log_in(other, "bert")
        other.locator("#changes .change").first.wait_for()
        loop(beds[1].kv.put("later", second, "1"))
        # without the stream the page would ask after 10 s
        other.locator("#changes .change", has_text=f"later/{second}").wait_for(timeout=8_000)
        other.get_by_role("button", name="Log out").click()
        page.get_by_role("heading", name="Log in").wait_for()
        context.close()


def test_what_cannot_be_is_said_before_it_starts(beds, redis_url, tmp_path):
    first, second = (bed.store.namespace for bed in beds)
    page = tmp_path / "report.html"
    page.write_text("x")
    for options, said in (
        (("--also", "no/name"), "'no/name': expected 1 to 64 letters, digits, _ . or -"),
        (("--also", f"{second}x"), f"no namespace '{second}x'"),
        (("--also", second, "--report", str(page)), "--report FILE is the page of one namespace"),
    ):
        command = [sys.executable, "-m", "mqregistry", "console", "--port", "0", "--redis", redis_url]
        ended = subprocess.run(
            [*command, "--namespace", first, "--checkpoints", tmp_path, *options],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert ended.returncode != 0
        assert said in ended.stderr
