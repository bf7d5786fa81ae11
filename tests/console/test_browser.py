"""The pages in a real Chromium: nothing breaks the policy, live updates, pause, time travel, actions, stale pages."""

from __future__ import annotations

import contextlib
import re
import tempfile
from datetime import datetime
from pathlib import Path

import pytest

from mqregistry.embedded import EmbeddedRedis
from tests.conftest import NO_FSYNC
from tests.server.harness import FrontEnd

from .chromium import HOSTILE, needs_chromium
from .conftest import Running

pytestmark = needs_chromium
expect = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install -e '.[dev]'").expect

UNLABELLED = """[...document.querySelectorAll('input:not([type=hidden]), select')]
    .filter(one => !one.labels.length && !one.ariaLabel).length"""


@pytest.fixture(scope="module")
def site(filled, redis_url, tmp_path_factory):
    process = Running(redis_url, filled.store.namespace, tmp_path_factory.mktemp("browser"), "--actions")
    yield process
    process.end()


PATHS = ["/", "/brokers", "/topics", "/topic?name=orders", "/changes", "/changes/1", "/kv", "/front-ends", "/streams",
         "/report", "/missing", "/users", "/cluster?name=c1",
         "/changes?since=-1h&until=-1s", "/compare?at=-1s", "/actions", "/?at=-1s", "/brokers?at=-1s", "/topics?at=-1s",
         "/topic?name=orders&at=-1s", "/missing?at=-1s", "/changes?at=-1s", "/kv?at=-1s", "/front-ends?at=-1s",
         "/streams?at=-1s"]  # fmt: skip


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


def test_a_page_and_its_scripts_are_in_the_language_that_is_chosen(page, loop, filled):
    page.goto("/changes")
    page.locator("a.language").click()
    page.wait_for_url("**/changes?lang=zh")
    pause = page.locator("#pause")
    assert pause.inner_text() == "暂停"
    pause.click()
    assert pause.inner_text() == "继续"
    pause.click()
    page.goto("/brokers")
    loop(filled.register("10.0.0.71:10911", "broker-lang", topics=["orders", "bills"]))
    page.locator("#live").get_by_text("10.0.0.71:10911").first.wait_for()  # by a request of the page itself
    assert page.locator("#live th", has_text="剩余时间").count() == 1
    assert page.locator("#status").inner_text() == "已是最新"
    page.locator("a.language").click()
    page.wait_for_url("**/brokers?lang=en")
    assert page.locator("#live th", has_text="Time left").count() == 1


def test_new_changes_stand_out_and_nothing_of_the_page_is_painted_again_and_again(page, loop, filled):
    page.goto("/changes")
    page.locator("#changes .change").first.wait_for()
    loop(filled.kv.put("ns", "stands-out", "1"))
    new = page.locator("#changes .change.new", has_text="ns/stands-out")
    new.wait_for()
    assert page.evaluate("document.getAnimations().length") == 0  # each frame of one costs the main thread
    plain = page.locator("#changes .change:not(.new)").first
    colour = "one => getComputedStyle(one).backgroundColor"
    assert new.evaluate(colour) != plain.evaluate(colour)


def test_ten_tabs_share_one_stream_and_all_stay_true(chromium, site, loop, filled):
    context = chromium.new_context(base_url=site.url)
    context.set_default_timeout(60_000)
    streams = []
    context.on("request", lambda one: streams.append(one.url) if "/events?" in one.url else None)
    try:
        paths = ["/changes", "/", "/brokers", "/kv", "/topics"]
        tabs = [(path, context.new_page()) for path in paths * 2]
        for path, tab in tabs:
            tab.goto(path)
        loop(filled.kv.put("tabs", "first", "1"))
        loop(filled.register("10.0.0.61:10911", "broker-tab", topics=["orders", "bills"]))
        shown = {"/changes": "tabs/first", "/brokers": "10.0.0.61:10911", "/kv": "tabs"}
        for path, tab in tabs:
            if path in shown:
                tab.locator("#live").get_by_text(shown[path]).first.wait_for()
        assert len(streams) == 1, streams
        tabs[0][1].close()  # the one that read the stream
        loop(filled.kv.put("tabs", "second", "2"))
        tabs[5][1].locator("#changes .change", has_text="tabs/second").wait_for()
        assert len(streams) == 2, streams
        for _, tab in tabs[1:]:
            expect(tab.locator("#status")).to_have_text("up to date")
    finally:
        context.close()


def test_a_page_that_cannot_be_read_again_says_how_old_it_is_and_stops_counting(page):
    page.clock.install()
    page.goto("/brokers")
    page.locator(".clock").first.wait_for()
    page.route("**/brokers*", lambda route: None)  # no answer, as when a browser has no connection left
    page.clock.run_for(16_000)
    page.get_by_text("the console does not answer").wait_for()
    before = page.locator(".clock").first.text_content()
    page.clock.run_for(5_000)
    assert page.locator(".clock").first.text_content() == before


def test_a_refresh_keeps_what_is_selected(page, loop, filled):
    page.goto("/changes")
    page.evaluate("getSelection().selectAllChildren(document.querySelector('#changes .change .what'))")
    selected = page.evaluate("String(getSelection())")
    loop(filled.kv.put("ns", "while-selected", "1"))
    page.locator("#changes .change.new", has_text="ns/while-selected").wait_for()
    assert page.evaluate("String(getSelection())") == selected != ""


def test_one_zone_is_chosen_for_what_is_written_and_what_is_read(chromium, site, filled):
    context = chromium.new_context(base_url=site.url, timezone_id="Asia/Shanghai")
    context.set_default_timeout(60_000)
    page = context.new_page()
    try:
        page.goto("/brokers")
        slider, field = page.locator("[data-slider]"), page.locator("#at")
        for name, offset in (("", None), ("UTC", "+00:00"), ("Asia/Shanghai", "+08:00")):
            if name:
                with page.expect_navigation():
                    page.locator("#zone").select_option(name)
            page.locator("details.travel summary").click()
            slider.focus()
            slider.evaluate("one => one.dispatchEvent(new Event('input'))")
            text = field.input_value()
            assert offset is None or text.endswith(offset)
            with page.expect_navigation():
                field.press("Enter")
            page.locator(".then").first.wait_for()  # the instant has come, and is known
            assert field.input_value()[:19] == text[:19]
            page.get_by_role("link", name="Back to now").click()
    finally:
        context.close()


def test_an_address_that_is_passed_on_means_the_same_instant(page):
    page.goto("/brokers?at=-1s&sort=name")
    page.wait_for_function("() => /[?&]at=\\d{13}/.test(location.search)")
    assert "sort=name" in page.url


def test_the_search_is_reached_by_the_keyboard(page):
    page.goto("/streams")
    page.keyboard.press("Control+k")
    page.keyboard.type("bills")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="bills").wait_for()


def test_time_left_counts_down_and_tables_refresh(page, loop, filled):
    page.goto("/brokers")
    clock = page.locator(".clock").first
    before = clock.text_content()
    api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install -e '.[dev]'")
    api.expect(clock).not_to_have_text(before)
    loop(filled.register("10.0.0.7:10911", "broker-new", topics=["orders", "bills"]))
    page.get_by_text("10.0.0.7:10911").wait_for()


def test_the_slider_shows_an_instant_and_leads_back(page, loop, filled):
    loop(filled.register("10.0.0.8:10911", "broker-late", topics=["orders", "bills"]))
    page.goto("/brokers")
    page.get_by_text("10.0.0.8:10911").wait_for()
    slider = page.locator("[data-slider]")
    assert not slider.is_visible(), "it is folded into the header"
    page.locator("details.travel summary").press("Enter")
    slider.focus()
    with page.expect_navigation():
        slider.press("Home")
    page.locator(".then").first.wait_for()
    assert page.get_by_text("10.0.0.8:10911").count() == 0
    assert "at=" in page.url
    for name in ("Now", "Changes", "Front ends", "Streams", "Brokers"):  # the way on stays there
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
        page.locator(f"nav [aria-current]:text-is('{name}')").wait_for()
        page.locator(".then").first.wait_for()
    assert page.get_by_text("10.0.0.8:10911").count() == 0
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
        page.get_by_text("the console does not answer").wait_for(timeout=60_000)
        process = Running(redis_url, filled.store.namespace, tmp_path, "--port", port)
        page.locator("#status .ok").wait_for(timeout=60_000)
    finally:
        process.end()
        with contextlib.suppress(Exception):
            context.close()


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """A Redis of its own, a front end and a console: each may be ended, and started again."""
    with tempfile.TemporaryDirectory(prefix="mq") as folder, EmbeddedRedis(Path(folder), extra=NO_FSYNC) as redis:
        front_end = FrontEnd(redis.url, "ended")
        with contextlib.closing(front_end):
            process = Running(redis.url, "ended", tmp_path_factory.mktemp("ended"))
            yield redis, front_end, process
            process.end()


@pytest.fixture
def opened(chromium, registry):
    """Its pages Now and Front ends, open, and nothing is wrong."""
    context = chromium.new_context(base_url=registry[2].url)
    context.set_default_timeout(60_000)
    now, front_ends = context.new_page(), context.new_page()
    now.goto("/")
    front_ends.goto("/front-ends")
    all_is_well(now, front_ends)
    yield now, front_ends
    context.close()


def all_is_well(now, front_ends):
    now.get_by_role("heading", name="Nothing is wrong").wait_for()
    expect(state_of(front_ends)).to_have_text("ready")
    for page in (now, front_ends):
        expect(page.locator("#status")).to_contain_text("up to date")


def state_of(front_ends):
    return front_ends.locator("tbody tr").first.locator("[data-label=State]")


def assert_since(text, moment):
    """A text says since when, and that is when it happened; it is known by a sign that each second has one of."""
    clocks = re.findall(r"(?:since|state of) (\d\d:\d\d:\d\d)", text)
    assert clocks, text
    for clock in clocks:
        since = datetime.combine(moment, datetime.strptime(clock, "%H:%M:%S").time())
        # on a busy machine something may have been silent before, or be noticed later
        assert -6 <= (since - moment).total_seconds() <= 4, (text, moment)


def test_a_front_end_that_is_killed_is_said_with_since_when_and_open_pages_come_back(registry, opened):
    _, front_end, _ = registry
    now, front_ends = opened
    killed = datetime.now()
    front_end.kill()
    now.get_by_text("No front end hears brokers since").wait_for()
    state_of(front_ends).get_by_text("gone").wait_for()
    assert_since(now.locator(".findings").text_content(), killed)
    assert_since(state_of(front_ends).text_content(), killed)
    for page in opened:
        expect(page.locator("#status")).to_have_text("up to date")  # what is shown is current all the same
    front_end.start()
    all_is_well(*opened)


def test_redis_away_is_said_with_since_when_and_open_pages_come_back(registry, opened):
    redis, _, _ = registry
    now, front_ends = opened
    away = datetime.now()
    redis.stop()
    for page in opened:
        page.locator("#status .bad").wait_for()
        assert_since(page.locator("#status").text_content(), away)
    now.get_by_text("This page shows the state of").wait_for()
    assert_since(now.locator(".findings").text_content(), away)
    assert front_ends.locator("tbody tr").count() >= 1, "what was known stays there"
    redis.start()
    all_is_well(*opened)


def test_a_range_that_is_drawn_in_a_chart_leads_to_its_changes(page):
    page.goto("/")
    chart = page.locator("svg[data-range]").last
    chart.scroll_into_view_if_needed()
    last = int(chart.get_attribute("data-last-minute"))
    box = chart.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.755, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.505, middle)
    assert page.locator("svg .drawn").get_attribute("width") == "160"
    page.mouse.up()
    page.wait_for_url("**/changes?*")
    query = dict(re.findall(r"(\w+)=(\d+)", page.url))
    assert (int(query["since"]), int(query["until"])) == ((last - 59 + 30) * 60_000, (last - 59 + 46) * 60_000 - 1)


def test_addresses_and_commands_are_copied(chromium, site, filled):
    context = chromium.new_context(base_url=site.url, permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto("/brokers")
    for path, name in (("/brokers", "Copy 10.0.0.1:10911"), ("/broker?name=broker-a", "Copy 10.0.0.1:10911")):
        page.goto(path)
        page.get_by_text("10.0.0.1:10911").first.hover()
        page.get_by_role("button", name=name).click()
        page.locator(".copy.done").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == name.removeprefix("Copy ")
    context.close()
    plain = chromium.new_context(base_url=site.url, java_script_enabled=False).new_page()
    plain.goto("/brokers")
    assert plain.get_by_text("10.0.0.1:10911").is_visible()
    assert not plain.locator(".copy").first.is_visible(), "without scripts it would do nothing"
    plain.context.close()


def test_a_broker_is_one_line_on_a_phone(page):
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto("/brokers")
    for row in page.locator("table.lines tbody tr").all():
        assert row.bounding_box()["height"] <= 40
        assert row.locator("td.name a").is_visible()
        assert row.locator(".clock").is_visible()
