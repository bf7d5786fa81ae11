"""Logging in and out: who is let in, what the cookie is, what ends a session, and that nobody learns who is a user."""

from __future__ import annotations

import asyncio
import json
import logging
import re

import msgspec
import pytest

from mqregistry.auth import changes
from mqregistry.auth.rights import Role
from mqregistry.auth.users import Secret
from mqregistry.console.app import PAGES
from mqregistry.console.login import sessions as sessions_module
from mqregistry.console.login.reach import Reach
from mqregistry.console.login.tries import MOST_TRIES, SLOW_S, WITHIN_S, Tries
from mqregistry.errors import StartError, StoreError
from mqregistry.networks import parse_address
from mqregistry.store.auth.policies import PolicyStore
from tests.console.conftest import HERE, open_site
from tests.server.auth_bed import secret_of, user
from tests.waiting import until

from .conftest import as_user, form_of, log_in


async def test_nothing_is_shown_to_who_is_not_logged_in(console, bed):
    await bed.register(topics=["orders", "bills"])
    await console.until_seen((await bed.head()).seq)
    for path in (*PAGES, "/nothing"):
        answer = await console.http.get(path.format(seq=1))
        if path == "/events":
            assert "event: ended" in answer.text
        else:
            assert answer.status_code == (404 if path == "/nothing" else 303), path
            assert path == "/nothing" or answer.headers["location"].startswith("/login?next="), path
        assert "broker-a" not in answer.text
        assert "orders" not in answer.text
    answer = await console.http.post("/action", data={"do": "wipe"}, headers={"origin": HERE})
    assert answer.status_code == 401
    assert (await console.http.get("/kv", headers={"hx-request": "true"})).status_code == 401
    assert (await console.http.get("/healthz")).status_code == 200
    assert (await console.http.get("/static/console.css")).status_code == 200


async def test_who_logs_in_goes_on_where_he_wanted_to_with_a_cookie_that_no_script_reads(console):
    answer = await console.http.get("/changes?kind=kv_put&topic=a%20b")
    wanted = re.search(r'name="next" value="([^"]*)"', (await console.http.get(answer.headers["location"])).text)[1]
    answer = await log_in(console.http, "ops", wanted=wanted.replace("&amp;", "&"))
    assert answer.headers["location"] == "/changes?kind=kv_put&topic=a%20b"
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("mqconsole-9880=")
    assert {part.strip() for part in cookie.lower().split(";")[1:]} == {"httponly", "path=/", "samesite=strict"}
    page = await console.get("/")
    assert ">ops<" in page
    assert secret_of("ops") not in page
    assert (await console.http.get("/login")).status_code == 303  # there is nothing to do there


@pytest.mark.parametrize(
    "wanted", ["//evil.example", "https://evil.example", "/\\evil.example", "/a\nb", "", "x" * 3000]
)
async def test_the_way_on_leads_to_no_other_site(console, wanted):
    assert (await log_in(console.http, "ops", wanted=wanted)).headers["location"] == "/"


@pytest.mark.parametrize(
    ("name", "secret"),
    [("ops", "wrong-secret"), ("nobody", "wrong-secret"), ("ops", ""), ("", ""), ("nameless", ""), ("anonymous", "x"),
     ("off", "wrong-secret"), ("ops", secret_of("boss")), ("\u00e4\udc80".encode("utf-8", "replace").decode(), "x")],
)  # fmt: skip
async def test_whoever_is_wrong_learns_nothing_of_who_is_a_user(console, name, secret):
    answer = await log_in(console.http, name, secret, 401)
    other = await log_in(console.http, "nobody-at-all", "wrong", 401)
    assert answer.text == other.text
    assert "set-cookie" not in answer.headers


async def test_who_is_disabled_or_elsewhere_is_told_once_he_has_shown_who_he_is(console):
    assert "the user is disabled" in (await log_in(console.http, "off", status=401)).text
    assert "may do nothing from 127.0.0.1" in (await log_in(console.http, "near", status=401)).text
    async with console.browser("10.1.2.3") as near:
        await log_in(near, "near")


async def test_an_address_tries_only_so_often_and_others_still_may(console):
    for _ in range(MOST_TRIES):
        await log_in(console.http, "ops", "wrong", 401)
    answer = await log_in(console.http, "ops", status=429)
    assert int(answer.headers["retry-after"]) > 500
    assert "mqconsole" not in answer.headers.get("set-cookie", "")
    async with console.browser("10.9.9.9") as other:
        await log_in(other, "ops")


def test_tries_of_one_user_from_everywhere_wait_but_from_where_he_was_let_in():
    """1,500 addresses try once each: nobody is locked out, and who guesses waits."""
    now = [0.0]
    tries, honest, new = Tries(lambda: now[0]), parse_address("10.0.0.1"), parse_address("10.9.9.9")
    tries.let_in(honest, "alice")
    for number in range(1500):
        tries.failed(parse_address(f"10.1.{number // 250}.{number % 250}"), "alice")
    assert (tries.slow_s(new, "alice"), tries.slow_s(honest, "alice"), tries.slow_s(new, "bob")) == (SLOW_S, 0, 0)
    assert tries.wait_s(new) == tries.wait_s(honest) == 0
    now[0] += WITHIN_S + 1
    assert tries.slow_s(new, "alice") == 0
    for number in range(20_000):
        tries.failed(None, f"user-{number}")
        tries.let_in(honest, f"user-{number}")
    assert len(tries._of_user) <= 10_000 >= len(tries._let_in)


async def test_many_tries_at_a_time_are_as_many(console):
    answers = await asyncio.gather(*(_try_wrong(console) for _ in range(3 * MOST_TRIES)))
    assert sorted(answers) == [401] * MOST_TRIES + [429] * 2 * MOST_TRIES


async def _try_wrong(console):
    form = {"name": "ops", "secret": "wrong"}
    return (await console.http.post("/login", data=form, headers={"origin": HERE})).status_code


async def test_no_secret_and_no_name_that_may_be_one_is_in_the_log(console, caplog):
    with caplog.at_level(logging.DEBUG):
        await log_in(console.http, "typed-into-the-wrong-field", "wrong-secret", 401)
        await log_in(console.http, "ops", "wrong-secret", 401)
        await log_in(console.http, "off", status=401)
        await log_in(console.http, "ops")
        await console.http.post("/logout", data=form_of(await console.get("/"), "/logout"), headers={"origin": HERE})
    assert "a wrong login as user ops from 127.0.0.1" in caplog.text
    assert "user ops logged in from 127.0.0.1" in caplog.text
    assert "user ops logged out" in caplog.text
    for never in ("typed-into", "wrong-secret", secret_of("ops"), secret_of("off")):
        assert never not in caplog.text


async def test_logging_out_ends_the_session_and_not_only_the_cookie(console):
    async with as_user(console, "ops") as browser:
        kept = {"cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items())}
        page = await browser.get("/")
        form = form_of(page.text, "/logout")
        assert (await browser.post("/logout", data={"token": "x"}, headers={"origin": HERE})).headers["location"] == "/"
        assert (await browser.get("/")).status_code == 200
        answer = await browser.post("/logout", data=form, headers={"origin": HERE})
        assert answer.headers["location"] == "/login"
        assert not dict(browser.cookies)
        assert (await console.http.get("/", headers=kept)).status_code == 303
        assert len(console.console.logins.sessions) == 0


async def test_a_new_login_ends_the_one_before_in_the_same_browser(console):
    async with as_user(console, "ops") as browser:
        kept = {"cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items())}
        await log_in(browser, "boss")
        assert ">boss<" in (await browser.get("/")).text
        assert (await console.http.get("/", headers=kept)).status_code == 303


def dropped(policy):
    both = changes.add_secret(policy, "ops", Secret("second", "another-secret"))
    return changes.drop_secret(both, "ops", "id-ops")


ENDINGS = {
    "disabled": lambda policy: changes.edit_user(
        policy, "ops", lambda one: msgspec.structs.replace(one, enabled=False)
    ),
    "removed": lambda policy: changes.remove_user(policy, "ops"),
    "its secret dropped": dropped,
}


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_session_ends_with_its_user_and_so_does_an_open_page(console, users, ending):
    async with as_user(console, "ops") as browser, as_user(console, "boss") as other:
        open_page = asyncio.create_task(browser.get("/events"))
        listeners = console.console.state.listeners
        await until(lambda: listeners, "the page is open")
        await users.change(ENDINGS[ending])
        async with asyncio.timeout(20):
            stream = (await open_page).text
        assert stream.rstrip().endswith("event: ended\ndata:")
        assert (await browser.get("/")).status_code == 303
        polled = await browser.get("/brokers", headers={"hx-request": "true"})
        assert (polled.status_code, polled.headers["hx-refresh"]) == (401, "true")
        assert (await other.get("/")).status_code == 200


async def test_a_page_hears_that_the_rules_are_others_than_those_it_was_made_by(console, users):
    async with as_user(console, "ops") as browser:
        of_page = re.search(r'data-rules="([^"]*)"', (await browser.get("/brokers")).text)[1]
        await users.change(lambda policy: changes.add_user(policy, user("late", Role.CLIENT)))
        await console.console.logins.rules.look()
        open_page = asyncio.create_task(browser.get("/events"))
        await until(lambda: console.console.state.listeners, "the page is open")
        await users.change(ENDINGS["disabled"])
        async with asyncio.timeout(60):
            stream = (await open_page).text
        told = [json.loads(data)["rules"] for data in re.findall(r"event: state\ndata: (.*)\n", stream)]
        assert told
        assert of_page not in told


async def test_a_user_that_comes_back_under_the_same_name_is_another(console, users):
    async with as_user(console, "ops") as browser:
        again = console.console.logins.rules.policy.users["ops"]
        fresh = type(again)("ops", roles=again.roles, secrets=(Secret("new", secret_of("ops")),))
        await users.change(lambda policy: changes.remove_user(policy, "ops"))
        await users.change(lambda policy: changes.add_user(policy, fresh))
        assert (await browser.get("/")).status_code == 303
        await log_in(browser, "ops")


async def test_an_idle_session_ends_and_what_a_page_does_by_itself_does_not_keep_it(console, monkeypatch):
    clock = [0.0]
    sessions = console.console.logins.sessions
    monkeypatch.setattr(sessions, "_clock", lambda: clock[0])
    async with as_user(console, "ops") as browser:
        for _ in range(3):
            clock[0] += sessions_module.IDLE_S * 0.9
            assert (await browser.get("/")).status_code == 200  # somebody is there
        clock[0] += sessions_module.IDLE_S * 0.9
        assert (await browser.get("/", headers={"hx-request": "true"})).status_code == 200
        clock[0] += sessions_module.IDLE_S * 0.2
        assert (await browser.get("/")).status_code == 303


async def test_a_session_ends_after_so_long_however_busy(console, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(console.console.logins.sessions, "_clock", lambda: clock[0])
    async with as_user(console, "ops") as browser:
        step = sessions_module.IDLE_S * 0.9
        while clock[0] + step <= sessions_module.LONGEST_S:
            clock[0] += step
            assert (await browser.get("/")).status_code == 200
        clock[0] += step
        assert (await browser.get("/")).status_code == 303


async def test_a_link_on_another_site_opens_the_page_of_who_is_logged_in(console):
    """The browser sends no cookie with it: the page loads itself again, and then it does."""
    answer = await console.http.get(
        "/changes/1", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    )
    assert answer.status_code == 200
    assert 'http-equiv="refresh" content="0"' in answer.text


@pytest.mark.parametrize(
    "headers", [{"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}, {"origin": ""}]
)
async def test_another_site_logs_nobody_in_or_out(console, headers):
    form = {"name": "ops", "secret": secret_of("ops")}
    assert (await console.http.post("/login", data=form, headers={"origin": HERE, **headers})).status_code == 403
    async with as_user(console, "ops") as browser:
        logout = form_of((await browser.get("/")).text, "/logout")
        assert (await browser.post("/logout", data=logout, headers={"origin": HERE, **headers})).status_code == 403
        assert (await browser.get("/")).status_code == 200


async def test_a_console_without_a_login_has_none(site):
    assert (await site.http.get("/login")).status_code == 404
    assert "Log out" not in await site.get("/")


async def test_known_users_go_on_while_redis_is_away(console, bed, monkeypatch):
    """What was forbidden stays so: older rules than those that are known do not count."""
    rules = console.console.logins.rules
    async with as_user(console, "ops") as browser:
        policy = rules.policy
        older = type(policy)(policy.mode, policy.revision - 1, ())
        answers = {
            "read": staticmethod(lambda: _given(older)),
            "revision": staticmethod(lambda: _given(older.revision)),
        }
        monkeypatch.setattr(rules, "_policies", type("Older", (), answers))
        await rules.look()
        assert rules.policy is policy
        assert (await browser.get("/")).status_code == 200


async def _given(value):
    return value


async def test_a_console_whose_redis_login_may_not_read_users_says_so(store, bed, tmp_path, monkeypatch):
    async def refused(_):
        raise StoreError("NOPERM this user has no permissions")

    monkeypatch.setattr(PolicyStore, "read", refused)
    with pytest.raises(StartError, match=r"mqconsole of deploy/users\.acl"):
        async with open_site(store, tmp_path, reach=Reach(login=True)):
            pass
