"""The pages in a real Chromium: nothing breaks the policy, live updates, pause, time travel, actions, stale pages."""

from __future__ import annotations

import contextlib

import pytest

from .chromium import HOSTILE, faults_of, needs_chromium
from .conftest import Running

pytestmark = needs_chromium

UNLABELLED = """[...document.querySelectorAll('input:not([type=hidden]), select')]
    .filter(one => !one.labels.length && !one.ariaLabel).length"""


@pytest.fixture(scope="module")
def site(filled, redis_url, tmp_path_factory):
    process = Running(redis_url, filled.store.namespace, tmp_path_factory.mktemp("browser"), "--actions")
    yield process
    process.end()


PATHS = ["/", "/brokers", "/topics", "/topic?name=orders", "/changes", "/changes/1", "/kv", "/front-ends", "/streams",
         "/report", "/missing", "/compare?at=-1s", "/actions", "/brokers?at=-1s"]  # fmt: skip


@pytest.mark.parametrize("width", [1280, 400])
def test_every_page_fits_and_names_of_others_stay_text(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    for path in PATHS:
        page.goto(path, wait_until="domcontentloaded")
        assert page.title() != "taken", path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} is wider than {width} px"
        assert page.evaluate(UNLABELLED) == 0, path
    page.goto("/topics")
    assert page.get_by_text(HOSTILE, exact=True).is_visible()


def test_a_change_appears_by_itself_and_a_pause_holds_it_back(page, loop, filled):
    page.goto("/changes")
    page.locator("#changes .change").first.wait_for()
    loop(filled.kv.put("ns", "live-one", "1"))
    page.locator("#changes .change", has_text="ns/live-one").wait_for()
    page.keyboard.press("p")
    assert page.locator("#pause").get_attribute("aria-pressed") == "true"
    loop(filled.kv.put("ns", "live-two", "2"))
    other = page.context.new_page()
    other.goto("/changes")
    other.locator("#changes .change", has_text="ns/live-two").wait_for()
    assert page.locator("#changes .change", has_text="ns/live-two").count() == 0
    page.locator("#pause").click()
    page.locator("#changes .change", has_text="ns/live-two").wait_for()


def test_time_left_counts_down_and_tables_refresh(page, loop, filled):
    page.goto("/brokers")
    clock = page.locator(".clock").first
    before = clock.text_content()
    api = pytest.importorskip("playwright.sync_api")
    api.expect(clock).not_to_have_text(before)
    loop(filled.register("10.0.0.7:10911", "broker-new", topics=["orders", "bills"]))
    page.get_by_text("10.0.0.7:10911").wait_for()


def test_the_slider_shows_an_instant_and_leads_back(page, loop, filled):
    loop(filled.register("10.0.0.8:10911", "broker-late", topics=["orders", "bills"]))
    page.goto("/brokers")
    page.get_by_text("10.0.0.8:10911").wait_for()
    slider = page.locator("[data-slider]")
    slider.focus()
    with page.expect_navigation():
        slider.press("Home")
    page.locator(".then").first.wait_for()
    assert page.get_by_text("10.0.0.8:10911").count() == 0
    assert "at=" in page.url
    page.get_by_role("link", name="Back to now").click()
    page.get_by_text("10.0.0.8:10911").wait_for()


def test_the_keyboard_reaches_the_content_and_the_filter(page):
    page.goto("/topics")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "filter"
    page.keyboard.type("bil")
    page.keyboard.press("Enter")
    page.get_by_text("1 topic", exact=True).wait_for()


def test_an_action_is_previewed_and_done(page, loop, filled):
    page.goto("/actions")
    page.locator("#put-kv-kv_namespace").fill("ns")
    page.locator("#put-kv-key").fill("by-hand")
    page.locator("#put-kv-value").fill("1")
    page.locator("#put-kv-value").press("Enter")
    page.get_by_text("ns/by-hand becomes 1").wait_for()
    page.locator("#do-it").click()
    page.get_by_role("heading", name="Done").wait_for()
    page.get_by_role("link", name="The change").click()
    row = page.locator(".change", has_text="ns/by-hand")
    row.wait_for()
    assert "(console)" in row.text_content()


def test_a_console_that_ends_is_said_and_its_pages_come_back(chromium, filled, redis_url, tmp_path):
    process = Running(redis_url, filled.store.namespace, tmp_path)
    port = process.url.rpartition(":")[2]
    context = chromium.new_context()
    page = context.new_page()
    try:
        page.goto(process.url + "/changes")
        page.locator("#status .ok").wait_for()
        process.end()
        page.get_by_text("the console does not answer").wait_for(timeout=15_000)
        process = Running(redis_url, filled.store.namespace, tmp_path, "--port", port)
        page.locator("#status .ok").wait_for(timeout=15_000)
    finally:
        process.end()
        with contextlib.suppress(Exception):
            context.close()


def test_the_report_draws_its_charts_in_a_frame_that_reaches_nothing(chromium, filled, redis_url, tmp_path):
    pytest.importorskip("altair", reason="needs the extra spark")
    from mqregistry.pipeline.report import write
    from tests.pipeline.test_report import a_lake

    write(a_lake(tmp_path / "lake"), "default", tmp_path / "report.html")
    process = Running(redis_url, filled.store.namespace, tmp_path, "--report", str(tmp_path / "report.html"))
    try:
        page = chromium.new_page(base_url=process.url, viewport={"width": 1280, "height": 900})
        page.set_default_timeout(60_000)
        faults = faults_of(page, process.url)
        page.goto("/report", wait_until="domcontentloaded")
        page.frame_locator("iframe").locator("body[data-charts=done]").wait_for()
        frame = next(one for one in page.frames if one.url.endswith("/report/page"))
        assert frame.locator(".chart svg").count() >= 5
        assert frame.evaluate("() => self.origin") == "null"
        assert frame.evaluate("() => { try { return parent.document.title } catch (error) { return error.name } }") == (
            "SecurityError"
        )
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert faults == []
        page.close()
    finally:
        process.end()
