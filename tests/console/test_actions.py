"""Actions: a preview first, done only when it was confirmed here, and never where the console only reads."""

from __future__ import annotations

import asyncio
import html
import re

import pytest

from mqregistry.model import QueueData

from .conftest import HERE

ORIGIN = {"origin": HERE}


def form_of(text):
    """The hidden fields of the form that confirms."""
    form = re.search(r'<form class="filter" method="post".*?</form>', text, re.S)[0]
    return {name: html.unescape(value) for name, value in re.findall(r'name="(\w+)" value="([^"]*)"', form)}


async def post(site, form, **headers):
    return await site.http.post("/action", data=form, headers={**ORIGIN, **headers})


async def counted(bed):
    return (await bed.head()).seq


@pytest.mark.parametrize(
    ("asked", "says", "event"),
    [
        ({"do": "wipe", "name": "broker-a"}, "2 topics lose the write bit", "write_perm_set"),
        ({"do": "forget", "name": "broker-a"}, "2 topics lose the route to it", "broker_unregistered"),
        ({"do": "delete-topic", "topic": "orders"}, "removed from all of these broker names", "topic_deleted"),
        ({"do": "set-topic", "topic": "new", "queues": "broker-a=4:2:4"}, "4 read, 2 write, 4 R", "topic_registered"),
        ({"do": "put-kv", "kv_namespace": "ns", "key": "k", "value": "v"}, "it is new", "kv_put"),
        ({"do": "delete-kv", "kv_namespace": "ns", "key": "old"}, "ns/old will be deleted", "kv_deleted"),
    ],
)  # fmt: skip
async def test_each_action_shows_what_it_does_then_does_it_with_its_author(acting, bed, asked, says, event):
    acting.console.state.store.by = type(bed.store.by)("console", "root")
    await bed.register(topics=["orders", "bills"])
    await bed.kv.put("ns", "old", "1")
    before = await counted(bed)
    await acting.until_seen(before)
    text = await acting.get("/action", **asked)
    assert says in text
    assert await counted(bed) == before
    answer = await post(acting, form_of(text))
    assert answer.status_code == 200, answer.text
    assert "<h1>Done</h1>" in answer.text
    last = (await bed.events())[-1]
    assert (last.type, last.by.how) == (event, "console")
    assert (await post(acting, form_of(text))).status_code in (200, 400)  # twice changes nothing more
    assert not await bed.events()


async def test_restore_after_wipe(acting, bed):
    await bed.register(topics=["orders", "bills"])
    await bed.routes.set_write_perm("broker-a", "wipe")
    await acting.until_seen(await counted(bed))
    text = await acting.get("/action", do="restore", name="broker-a")
    assert "2 topics get the write bit back" in text
    await post(acting, form_of(text))
    assert "every topic can be written to" in await acting.get("/action", do="restore", name="broker-a")
    assert "every topic has permission 6 RW" in await acting.get("/action", do="restore-all", name="broker-a")


async def test_into_maintenance_and_back(acting, bed):
    await bed.register(topics={"orders": (8, 8, 6), "log": (1, 1, 4)})
    await acting.until_seen(await counted(bed))
    assert "expected e.g. 500ms" in await acting.get("/action", 400, do="drain", name="broker-a", **{"for": "soon"})
    asked = {"do": "drain", "name": "broker-a", "reason": "new disk", "for": "2h"}
    answer = await post(acting, form_of(await acting.get("/action", **asked)))
    assert "broker-a is in maintenance" in answer.text, answer.text
    await acting.until_seen(await counted(bed))
    page = await acting.get("/broker", name="broker-a")
    assert "in maintenance since" in page
    assert ": new disk" in page
    assert "every client that was heard within the last 3 minutes has the new routes" in page  # there is no front end
    assert ": new disk" in await acting.get("/")
    await post(acting, form_of(await acting.get("/action", do="restore", name="broker-a")))
    await acting.until_seen(await counted(bed))
    assert "maintenance" not in await acting.get("/broker", name="broker-a")
    tables = await bed.tables()
    assert {topic: tables.topics[topic]["broker-a"].perm for topic in ("orders", "log")} == {"orders": 6, "log": 4}


async def test_what_changed_since_the_preview_is_asked_again(acting, bed):
    await bed.register(topics=["orders", "bills"])
    await acting.until_seen(await counted(bed))
    form = form_of(await acting.get("/action", do="wipe", name="broker-a"))
    await bed.register(topics=["orders", "bills", "third"], counter=2)
    before = await counted(bed)
    await acting.until_seen(before)
    answer = await post(acting, form)
    assert "Look again" in answer.text
    assert await counted(bed) == before
    assert "<h1>Done</h1>" in (await post(acting, form_of(answer.text))).text


async def test_a_console_that_only_reads_changes_nothing(site, bed):
    await bed.register(topics=["orders", "bills"])
    before = await counted(bed)
    await site.until_seen(before)
    assert "only reads" in await site.get("/actions", 403)
    assert "only reads" in await site.get("/action", 403, do="wipe", name="broker-a")
    form = {"token": site.console.operator.token, "do": "wipe", "name": "broker-a", "seen": ""}
    assert (await post(site, form)).status_code == 403
    assert await counted(bed) == before
    assert "Actions</a>" not in await site.get("/")


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"}, {"origin": "null"}, {"origin": ""}, {"sec-fetch-site": "cross-site"},
        {"host": "evil.example"}, {"origin": "http://127.0.0.1:1"},
    ],
)  # fmt: skip
async def test_a_request_of_another_site_changes_nothing(acting, bed, headers):
    await bed.register(topics=["orders", "bills"])
    before = await counted(bed)
    await acting.until_seen(before)
    form = form_of(await acting.get("/action", do="wipe", name="broker-a"))
    assert (await post(acting, form, **headers)).status_code == 403
    assert await counted(bed) == before


async def test_without_the_token_nothing_is_changed(acting, bed):
    await bed.register(topics=["orders", "bills"])
    before = await counted(bed)
    await acting.until_seen(before)
    form = form_of(await acting.get("/action", do="wipe", name="broker-a"))
    for token in ("", "x", "\u00e4"):
        assert (await post(acting, {**form, "token": token})).status_code == 403
    assert (await acting.http.post("/action", content=b"\xff=1", headers=ORIGIN)).status_code == 400
    assert (await acting.http.post("/action", content=b"a" * 300_000, headers=ORIGIN)).status_code == 400
    assert await counted(bed) == before


async def test_what_makes_no_sense_says_what_there_is(acting, bed):
    await bed.register(topics=["orders", "bills"])
    await acting.until_seen(await counted(bed))
    assert "did you mean broker-a?" in await acting.get("/action", 400, do="wipe", name="broker-b")
    assert "did you mean orders?" in await acting.get("/action", 400, do="delete-topic", topic="order")
    assert "expected BROKER_NAME=READ:WRITE" in await acting.get("/action", 400, do="set-topic", topic="t", queues="x")
    assert "expected one of" in await acting.get("/action", 400, do="nonsense")
    assert "is empty" in await acting.get("/action", 400, do="put-kv", kv_namespace="", key="k", value="v")


UNDONE = {
    "a key that was set": (lambda bed: bed.kv.put("ns", "k", "new"), "kv"),
    "a key that was deleted": (lambda bed: bed.kv.delete("ns", "k"), "kv"),
    "a key that is new": (lambda bed: bed.kv.put("ns", "another", "x"), "kv"),
    "a topic that was deleted": (lambda bed: bed.routes.delete_topic("orders"), "topics"),
    "a topic that was set": (
        lambda bed: bed.routes.register_topic("orders", [("broker-a", QueueData(1, 2, 4, 0))]), "topics",
    ),
    "a topic that is new": (
        lambda bed: bed.routes.register_topic("fresh", [("broker-a", QueueData(1, 2, 4, 0))]), "topics",
    ),
    "a wipe": (lambda bed: bed.routes.set_write_perm("broker-a", "wipe"), "topics"),
}  # fmt: skip


def plain(tables, what):
    if what == "kv":
        return {name: dict(values) for name, values in tables.kv.items()}
    return {
        topic: {name: (data.read_queue_nums, data.write_queue_nums, data.perm) for name, data in cells.items()}
        for topic, cells in tables.topics.items()
    }  # fmt: skip


@pytest.mark.parametrize("case", UNDONE)
async def test_each_change_can_be_put_back_as_it_was(acting, bed, case):
    change, what = UNDONE[case]
    await bed.register(topics={"orders": (8, 8, 6), "log": (1, 1, 4)})
    await bed.register("10.0.0.2:10911", "broker-b", topics={"orders": (4, 4, 7), "own": (1, 1, 6)})
    await bed.kv.put("ns", "k", "old")
    before = plain(await bed.tables(), what)
    await asyncio.sleep(0.01)  # the past is known to the millisecond
    await change(bed)
    seq = await counted(bed)
    await acting.until_seen(seq)
    assert plain(await bed.tables(), what) != before
    page = await acting.get(f"/changes/{seq}")
    assert f'href="/changes/{seq}/undo"' in page
    assert f'href="/changes/{seq}/undo"' in await acting.get("/changes")
    led = await acting.http.get(f"/changes/{seq}/undo")
    assert led.status_code == 303, led.text
    preview = await acting.get(led.headers["location"])
    done = await post(acting, form_of(preview))
    assert "<h1>Done</h1>" in done.text, done.text
    assert plain(await bed.tables(), what) == before


async def test_what_brokers_do_is_not_undone(acting, bed):
    await bed.register()
    seq = await counted(bed)
    await acting.until_seen(seq)
    assert "/undo" not in await acting.get(f"/changes/{seq}")
    assert "no action puts it back" in await acting.get(f"/changes/{seq}/undo", 400)
    assert "is not in the stream" in await acting.get("/changes/999/undo", 404)


async def test_a_console_that_only_reads_offers_no_undo(site, bed):
    await bed.kv.put("ns", "k", "v")
    seq = await counted(bed)
    await site.until_seen(seq)
    assert "/undo" not in await site.get(f"/changes/{seq}")
    assert "only reads" in await site.get(f"/changes/{seq}/undo", 403)
