"""The login in a real Chromium: in, out, refused, out of open pages; each action with who may and who may not."""

from __future__ import annotations

import re

import msgspec
import pytest

from mqregistry.auth import changes
from mqregistry.auth.rights import Role
from mqregistry.store.auth.policies import PolicyStore
from tests.console.chromium import needs_chromium
from tests.console.conftest import Running
from tests.server.auth_bed import secret_of, user

from .conftest import add_users

pytestmark = needs_chromium

# What is typed into the form of an action, and what its preview says.
FORMS = {
    "wipe": ({"name": "broker-b"}, "lose the write bit"),
    "restore": ({"name": "broker-wiped"}, "get the write bit back"),
    "forget": ({"name": "broker-gone"}, "lose the route to it"),
    "delete-topic": ({"topic": "bills"}, "removed from all of these"),
    "set-topic": ({"topic": "made", "queues": "broker-b=4:2:4"}, "which is new"),
    "put-kv": ({"kv_namespace": "ns", "key": "typed", "value": "1"}, "ns/typed becomes 1"),
    "delete-kv": ({"kv_namespace": "ns", "key": "old"}, "ns/old will be deleted"),
}
RIGHTS = {"wipe": "perm", "restore": "perm", "forget": "register", "delete-topic": "topic.write",
          "set-topic": "topic.write", "put-kv": "kv.write", "delete-kv": "kv.write"}  # fmt: skip


@pytest.fixture(scope="module")
def site(filled, loop, redis_url, tmp_path_factory):
    async def users():
        await add_users(filled.store)
        await filled.register("10.0.0.3:10911", "broker-wiped", topics=["orders", "bills"])
        await filled.routes.set_write_perm("broker-wiped", "wipe")
        await filled.register("10.0.0.4:10911", "broker-gone", topics=["orders", "bills"])
        await filled.kv.put("ns", "old", "1")

    loop(users())
    folder = tmp_path_factory.mktemp("login")
    process = Running(redis_url, filled.store.namespace, folder, "--login", "--actions")
    yield process
    process.end()
    assert secret_of("ops") not in process.out + process.err


def change(loop, filled, edit):
    loop(PolicyStore(filled.store).change(edit))


def log_in(page, name, secret=None):
    page.locator("#name").fill(name)
    page.locator("#secret").fill(secret or secret_of(name))
    page.locator("#secret").press("Enter")


def test_a_page_asks_who_it_is_and_then_opens(page, site):
    page.goto("/changes?kind=kv_put")
    page.get_by_role("heading", name="Log in").wait_for()
    assert page.evaluate("document.activeElement.id") == "name"
    log_in(page, "ops", "a wrong secret")
    page.get_by_role("alert").wait_for()
    assert "is not right" in page.get_by_role("alert").text_content()
    assert page.locator("#secret").input_value() == ""
    log_in(page, "ops")
    page.get_by_role("heading", name="Changes").wait_for()
    assert page.url == f"{site.url}/changes?kind=kv_put"
    page.locator("#status .ok").wait_for()
    assert page.evaluate("document.cookie") == ""  # no script reads it
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["expires"]) == (True, "Strict", -1)


def test_logging_out_reaches_the_other_pages_of_the_session(page):
    page.goto("/brokers")
    log_in(page, "ops")
    page.get_by_role("heading", name="Brokers").wait_for()
    other = page.context.new_page()
    other.goto("/compare?at=-1s")  # nothing in it refreshes by itself
    other.locator("#status .ok").wait_for()
    page.locator("#status .ok").wait_for()
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("heading", name="Log in").wait_for()
    other.get_by_role("heading", name="Log in").wait_for()
    assert re.search(r"/login\?next=%2Fcompare%3Fat%3D\d{13}$", other.url)  # the instant, which does not move on
    assert page.context.cookies() == []
    page.go_back()
    page.get_by_role("heading", name="Log in").wait_for()


@pytest.mark.parametrize("path", ["/brokers", "/changes", "/compare?at=-1s", "/topic?name=orders"])
def test_who_is_disabled_while_a_page_is_open_is_out_within_seconds(page, loop, filled, path):
    name = f"out{abs(hash(path))}"
    change(loop, filled, lambda policy: changes.add_user(policy, user(name, Role.OPERATOR)))
    page.goto(path)
    log_in(page, name)
    page.locator("#status .ok").wait_for()
    off = lambda one: msgspec.structs.replace(one, enabled=False)  # noqa: E731
    change(loop, filled, lambda policy: changes.edit_user(policy, name, off))
    page.get_by_role("heading", name="Log in").wait_for(timeout=60_000)
    log_in(page, name)
    page.get_by_text("the user is disabled").wait_for()


def test_who_loses_a_right_while_a_page_is_open_is_told(page, loop, filled):
    change(loop, filled, lambda policy: changes.add_user(policy, user("loser", Role.CLIENT)))
    page.goto("/brokers")
    log_in(page, "loser")
    page.locator("#status .ok").wait_for()
    page.get_by_text("10.0.0.2:10911").wait_for()
    blind = next(one for one in _users(loop, filled) if one.name == "blind")
    change(loop, filled, lambda policy: changes.add_rules(policy, "loser", blind.rules))
    page.get_by_role("heading", name="You do not have the right").wait_for(timeout=60_000)
    assert page.get_by_text("10.0.0.2:10911").count() == 0
    page.get_by_text(f"mqregistry auth deny --namespace {filled.store.namespace} loser list '*' --remove").wait_for()


def _users(loop, filled):
    return loop(PolicyStore(filled.store).read()).users.values()


def preview(page, action):
    fields, _ = FORMS[action]
    page.goto("/actions")
    for name, value in fields.items():
        page.locator(f"#{action}-{name}").fill(value)
    page.locator(f"#{action}-{name}").press("Enter")


@pytest.mark.parametrize("action", FORMS)
def test_each_action_is_refused_to_who_may_not_and_done_by_who_may(page, chromium, site, filled, action):
    page.goto("/actions")
    log_in(page, "reader")
    page.get_by_role("heading", name="Actions").wait_for()
    preview(page, action)
    page.get_by_role("heading", name="You do not have the right").wait_for()
    page.get_by_text(re.compile(rf"user reader has no right {re.escape(RIGHTS[action])} on ")).wait_for()
    page.get_by_text(f"mqregistry auth allow --namespace {filled.store.namespace} reader").wait_for()
    assert page.locator("#do-it").count() == 0
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("heading", name="Log in").wait_for()
    page.goto("/actions")
    name = "boss" if action == "forget" else "ops"
    log_in(page, name)
    page.get_by_role("heading", name="Actions").wait_for()
    preview(page, action)
    page.get_by_text(FORMS[action][1]).first.wait_for()
    page.get_by_text(f"The author will be {name} (console").wait_for()
    page.locator("#do-it").click()
    page.get_by_role("heading", name="Done").wait_for()
    page.get_by_role("link", name="The change").click()
    page.locator("#changes .change .by", has_text=f"{name} (console) from 127.0.0.1:").first.wait_for()


def test_a_link_of_another_site_opens_a_page_for_who_is_logged_in(page, site, tmp_path):
    page.goto("/")
    log_in(page, "ops")
    page.locator("#status .ok").wait_for()
    other = page.context.new_page()
    elsewhere = site.url.replace("127.0.0.1", "localhost")  # another site of the same console, without a cookie
    other.goto(f"{elsewhere}/login")
    other.evaluate("url => { const a = document.createElement('a'); a.href = url; a.id = 'x'; a.text = 'x';"
                   " document.body.append(a); }", f"{site.url}/changes/1")  # fmt: skip
    other.locator("#x").click()
    other.get_by_role("heading", name="Change 1").wait_for()


def test_a_page_of_a_console_that_was_started_again_asks_who_it_is(chromium, filled, redis_url, tmp_path, site):
    process = Running(redis_url, filled.store.namespace, tmp_path, "--login")
    port = process.url.rpartition(":")[2]
    page = chromium.new_page(base_url=process.url)
    try:
        page.goto("/changes")
        log_in(page, "ops")
        page.locator("#status .ok").wait_for()
        process.end()
        page.get_by_text("the console does not answer").wait_for(timeout=60_000)
        process = Running(redis_url, filled.store.namespace, tmp_path, "--login", "--port", port)
        page.get_by_role("heading", name="Log in").wait_for(timeout=60_000)
        log_in(page, "ops")
        page.locator("#status .ok").wait_for()
    finally:
        process.end()
        page.close()
