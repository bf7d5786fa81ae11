"""What a user sees and does: as its rights say, which are those of the requests that do the same at a name server."""

from __future__ import annotations

import msgspec
import pytest

from mqregistry.auth import changes
from mqregistry.auth.rights import Kind, Right, Role
from mqregistry.auth.users import Effect, Rule
from mqregistry.console.app import PAGES, twin_path
from mqregistry.console.login.needs import STRICTEST, needs_of_change, needs_of_page
from mqregistry.events.changes import EVENTS, LaterChange
from tests.console.conftest import HERE

from .conftest import as_user, form_of

ORIGIN = {"origin": HERE}
ACTIONS = {
    "wipe": ({"do": "wipe", "name": "broker-a"}, "perm", "broker:broker-a", "write_perm_set"),
    "drain": ({"do": "drain", "name": "broker-a"}, "perm", "broker:broker-a", "kv_put write_perm_set"),
    "restore-all": ({"do": "restore-all", "name": "broker-wiped"}, "perm", "broker:broker-wiped", "write_perm_set"),
    "restore": ({"do": "restore", "name": "broker-wiped"}, "perm", "broker:broker-wiped", "write_perm_set"),
    "forget": ({"do": "forget", "name": "broker-a"}, "register", "cluster:c1 broker:broker-a", "broker_unregistered"),
    "delete-topic": ({"do": "delete-topic", "topic": "orders"}, "topic.write", "topic:orders", "topic_deleted"),
    "set-topic": ({"do": "set-topic", "topic": "new", "queues": "broker-a=4:2:4"}, "topic.write", "topic:new",
                  "topic_registered"),
    "put-kv": ({"do": "put-kv", "kv_namespace": "ns", "key": "k", "value": "v"}, "kv.write", "kv:ns", "kv_put"),
    "delete-kv": ({"do": "delete-kv", "kv_namespace": "ns", "key": "old"}, "kv.write", "kv:ns", "kv_deleted"),
}  # fmt: skip
MAY = {"ops": set(ACTIONS) - {"forget"}, "boss": set(ACTIONS), "reader": set(), "narrow": {"wipe", "drain"}}


async def filled(bed, console):
    await bed.register(topics=["orders", "pay-cards"])
    await bed.register("10.0.0.2:10911", "broker-wiped", topics=["orders", "bills"])
    await bed.routes.set_write_perm("broker-wiped", "wipe")
    await bed.kv.put("ns", "old", "visible")
    await bed.kv.put("private", "key", "hidden-value")
    await bed.kv.set_config({"orderMessageEnable": "true"})
    seq = (await bed.head()).seq
    await bed.events()
    await console.until_seen(seq)
    return seq


def allowing(bed, asked, right, on):
    """The command that the page must name."""
    return f"mqregistry auth allow --namespace {bed.store.namespace} {asked} {right} {on}"


@pytest.mark.parametrize("name", MAY)
@pytest.mark.parametrize("action", ACTIONS)
async def test_each_action_is_done_by_who_may_and_by_nobody_else(console, bed, name, action):
    asked, right, on, event = ACTIONS[action]
    before = await filled(bed, console)
    async with as_user(console, "boss") as boss, as_user(console, name, peer="10.1.2.3") as browser:
        seen = form_of((await boss.get("/action", params=asked)).text)
        preview = await browser.get("/action", params=asked)
        token = form_of((await browser.get("/")).text, "/logout")["token"]
        done = await browser.post("/action", data={**seen, "token": token}, headers=ORIGIN)
    events = await bed.events()
    if action in MAY[name]:
        assert preview.status_code == done.status_code == 200, done.text
        assert [one.type for one in events] == event.split()
        by = events[0].by
        assert (by.how, by.user, by.peer) == ("console", name, "10.1.2.3:51234")
        assert f"{name} (console" in preview.text
        return
    assert preview.status_code == done.status_code == 403
    assert (await bed.head()).seq == before
    assert not events
    for page in (preview.text, done.text):
        assert f"user {name} has no right {right} on {on} from 10.1.2.3: no rule allows it" in page
        assert allowing(bed, name, right, on) in page
        assert "visible" not in page


async def test_the_command_that_a_refusal_names_allows_it(console, bed, users):
    await filled(bed, console)
    async with as_user(console, "reader") as browser:
        asked = ACTIONS["forget"][0]
        assert (
            allowing(bed, "reader", "register", "cluster:c1 broker:broker-a")
            in (await browser.get("/action", params=asked)).text
        )
        rules = [Rule(Effect.ALLOW, (Right.REGISTER,), Kind.CLUSTER, "c1"),
                 Rule(Effect.ALLOW, (Right.REGISTER,), Kind.BROKER, "broker-a")]  # fmt: skip
        await users.change(lambda policy: changes.add_rules(policy, "reader", rules))
        await bed.events()
        page = await browser.get("/action", params=asked)
        assert (await browser.post("/action", data=form_of(page.text), headers=ORIGIN)).status_code == 200
        assert [one.type for one in await bed.events()] == ["broker_unregistered"]


async def test_a_right_that_is_taken_before_the_confirmation_counts(console, bed, users):
    await filled(bed, console)
    async with as_user(console, "ops") as browser:
        form = form_of((await browser.get("/action", params=ACTIONS["wipe"][0])).text)
        await users.edit("ops", lambda one: msgspec.structs.replace(one, roles=(Role.CLIENT,)))
        assert (await browser.post("/action", data=form, headers=ORIGIN)).status_code == 403
    assert [one.type for one in await bed.events()] == ["auth_changed"]


async def test_a_form_of_another_session_changes_nothing(console, bed):
    before = await filled(bed, console)
    async with as_user(console, "boss") as boss, as_user(console, "ops") as browser:
        form = form_of((await boss.get("/action", params=ACTIONS["wipe"][0])).text)
        answer = await browser.post("/action", data=form, headers=ORIGIN)
    assert answer.status_code == 403
    assert "from another login" in answer.text
    assert (await bed.head()).seq == before


BY_PART = ("/kv", "/action", "/report/page", "/topic", "/dismiss", "/users")


@pytest.mark.parametrize("path", [path for path in PAGES if path not in BY_PART])
async def test_pages_of_all_tables_need_the_right_to_list_them(console, bed, path):
    wiped = await filled(bed, console) - 3
    name = "c1" if path == "/cluster" else "broker-a"
    async with as_user(console, "blind") as blind, as_user(console, "reader") as reader:
        answer = await blind.get(path.format(seq=1), params={"name": name})
        assert answer.status_code == 403, path
        assert "user blind has no right list on * from 127.0.0.1: a rule denies it" in answer.text
        assert f"mqregistry auth deny --namespace {bed.store.namespace} blind list &#39;*&#39; --remove" in answer.text
        assert "10.0.0.1:10911" not in answer.text
        if path != "/events":
            allowed = await reader.get(path.format(seq=wiped), params={"name": name})
            assert allowed.status_code == (303 if path.endswith("/undo") else 200)


def test_a_page_that_nobody_thought_of_needs_the_right_to_list():
    class Asked:
        scope = {"path": "/a-later-page"}  # noqa: RUF012
        query_params = {}  # noqa: RUF012

    assert [need.right for need in needs_of_page(Asked)] == [Right.LIST]


async def test_what_somebody_may_not_see_is_on_no_page(console, bed):
    start_ms = (await bed.head()).now_ms - 1
    await filled(bed, console)
    await bed.register(topics={"orders": (8, 8, 6), "pay-cards": (6143, 6143, 4)}, counter=2)
    last = (await bed.head()).seq
    await console.until_seen(last)
    hidden = ("6143", "6,143", "hidden-value", "orderMessageEnable")
    paths = [
        "/",
        "/topics",
        "/topics?state=unwritable",
        "/changes",
        f"/compare?at={start_ms}",
        "/kv",
        "/topic?name=pay-cards",
    ]
    paths += [f"/changes/{number}" for number in range(1, last + 1)]
    at = (await bed.head()).now_ms
    paths += [f"{path}?at={at}" for path in ("/", "/topics", "/changes", "/kv")]
    async with as_user(console, "narrow") as narrow, as_user(console, "reader") as reader:
        seen = {}
        for path in paths:
            answer = await narrow.get(path)
            assert [one for one in hidden if one in answer.text] == [], path
            found = {one for one in hidden if one in (await reader.get(path)).text}
            if found:
                seen[path] = found, answer.status_code
        # who may, sees them there; and of these only what shows nothing else is refused as a whole
        assert set.union(*(found for found, _ in seen.values())) == set(hidden)
        refused = {path for path, (_, status) in seen.items() if status == 403}
        assert refused == {path for path in seen if path.startswith(("/changes/", "/topic?"))}
        assert set(seen) >= {"/topics", "/changes", f"/compare?at={start_ms}", "/kv", "/topic?name=pay-cards"}
        assert (await narrow.get("/topic?name=orders")).status_code == 200
        assert "not shown: you do not have the right route on it" in (await narrow.get("/topics")).text
        kv = (await narrow.get("/kv")).text
        assert "visible" in kv
        assert "1 namespace on which you do not have the right kv.read" in kv
        assert "you do not have the right config.read" in kv


async def test_a_preview_shows_nothing_that_may_not_be_read(console, bed, users):
    """Who may write a value, and not read it, is not told what it is."""
    await filled(bed, console)
    await users.change(
        lambda policy: changes.add_rules(
            policy, "narrow", [Rule(Effect.ALLOW, (Right.KV_WRITE,), Kind.KV, "private"),
                               Rule(Effect.ALLOW, (Right.TOPIC_WRITE,), Kind.TOPIC, "pay-cards")]
        )
    )  # fmt: skip
    async with as_user(console, "narrow") as narrow:
        for asked, right in (
            ({"do": "put-kv", "kv_namespace": "private", "key": "key", "value": "v"}, "kv.read"),
            ({"do": "delete-kv", "kv_namespace": "private", "key": "key"}, "kv.read"),
            ({"do": "delete-topic", "topic": "pay-cards"}, "route"),
        ):
            answer = await narrow.get("/action", params=asked)
            assert answer.status_code == 403
            assert f"no right {right} on" in answer.text
            assert "hidden-value" not in answer.text


async def test_changes_are_those_that_may_be_seen_also_after_the_rules_changed(console, bed, users):
    await filled(bed, console)
    async with as_user(console, "narrow") as narrow, as_user(console, "reader") as reader:
        await bed.kv.put("private", "live", "hidden-live")
        await bed.kv.put("ns", "live", "open-live")
        await console.until_seen((await bed.head()).seq)
        await users.change(
            lambda policy: changes.add_rules(
                policy, "reader", [Rule(Effect.DENY, (Right.KV_READ,), Kind.KV, "ns")])
        )  # fmt: skip
        await console.console.logins.rules.look()
        of_narrow, of_reader = [(await one.get("/changes")).text for one in (narrow, reader)]
    assert "hidden-live" not in of_narrow
    assert "open-live" in of_narrow
    assert "hidden-live" in of_reader
    assert "open-live" not in of_reader


async def test_the_mode_of_front_ends_does_not_matter_here(console, bed):
    """Namespaces begin with observe, and then nothing is refused at a name server's port."""
    await filled(bed, console)
    assert console.console.logins.rules.policy.mode == "observe"
    async with as_user(console, "reader") as browser:
        assert (await browser.get("/action", params=ACTIONS["wipe"][0])).status_code == 403


@pytest.mark.parametrize("name", ["ops", "boss", "reader", "narrow"])
async def test_a_twin_needs_the_rights_of_its_page_and_shows_no_more(console, bed, name):
    await filled(bed, console)
    addresses = [
        *("/", "/brokers", "/topics", "/changes", "/changes/1", "/kv", "/front-ends", "/streams", "/missing"),
        "/actions",
        *(f"/topic?name={topic}" for topic in ("orders", "pay-cards")), "/broker?name=broker-a", "/search?q=hidden",
        "/action?do=forget&name=broker-a",
    ]  # fmt: skip
    async with as_user(console, name) as browser:
        for address in addresses:
            path, mark, query = address.partition("?")
            page, twin = await browser.get(address), await browser.get(f"{twin_path(path)}{mark}{query}")
            assert (twin.status_code, address) == (page.status_code, address)
            assert twin.headers["content-type"] == "application/json"
            for secret in ("hidden-value", "pay-cards", "visible"):
                assert secret not in twin.text or secret in page.text or "pay-cards" in address


async def test_a_twin_for_nobody_says_how_to_log_in(console, bed):
    await filled(bed, console)
    for answer in (
        await console.http.get("/brokers.json"), await console.http.get("/", headers={"accept": "application/json"}),
        await console.http.get("/openapi.json", headers={"accept": "application/json"}),
    ):  # fmt: skip
        assert answer.status_code == 401
        assert answer.json()["error"]["title"] == "Log in"
        assert "broker" not in answer.text


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_each_event_has_a_right_of_its_own_and_an_unknown_one_needs_the_strictest(event):
    """An event that is added needs a line in needs_of_change: until then only an admin sees it."""
    required = {"broker_name": "broker-a", "topic": "orders", "kv_namespace": "ns"}
    fields = {field.name: required[field.name] for field in msgspec.structs.fields(event)
              if field.required and field.name in required}  # fmt: skip
    assert STRICTEST not in needs_of_change(event(seq=1, ms=1, **fields))
    assert needs_of_change(LaterChange(seq=1, ms=1, unknown_type="later", ignorable=True)) == [STRICTEST]
