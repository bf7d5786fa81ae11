"""The pages: what they show, that nothing foreign acts in them, filters, paging, and errors that say what to do."""

from __future__ import annotations

import asyncio
import contextlib
import html
import json
import re
import time

import pytest

from mqregistry.config.settings import Settings
from mqregistry.console.app import PAGES
from mqregistry.console.recent import missing
from mqregistry.console.state import State
from mqregistry.operators.routes import read_route
from mqregistry.protocol.bodies.route import encode_route
from mqregistry.store.store import Store
from mqregistry.store.streams import StreamStore, lookup_entries
from tests.store.test_processes import worker

from .conftest import unlinked

HOSTILE = '<script>alert("1")</script>'
BIDI = "evil\u202etopic"


async def filled(bed):
    await bed.fe1.leases.renew("w1")
    await bed.register(topics=["orders", "bills"])
    await bed.register("10.0.0.2:10911", broker_id=1, topics=["orders", "bills"])
    await bed.register("10.0.0.3:10911", "broker-b", cluster="c2", topics={"orders": (4, 4, 4), "ledger": (4, 4, 6)})
    await bed.kv.put("ORDER_TOPIC_CONFIG", "orders", "broker-a:8")
    return (await bed.head()).seq


NO_PAGES = ("/events", "/actions", "/action", "/report/page", "/dismiss", "/changes/{seq}/undo", "/changes/export")
NAMES = {"/topic": {"name": "orders"}, "/broker": {"name": "broker-a"}, "/cluster": {"name": "c1"}}


async def test_every_page_answers_with_a_policy_that_runs_nothing_of_others(site, bed):
    await site.until_seen(await filled(bed))
    for path in PAGES:
        if path in NO_PAGES:
            continue
        answer = await site.http.get(path.format(seq=1), params=NAMES.get(path))
        assert answer.status_code == 200, (path, answer.text)
        assert answer.headers["content-security-policy"].startswith("default-src 'self'; base-uri 'none'")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert not re.search(r"<script(?! src=)|\sstyle=|\son\w+=|<style", answer.text), path
        assert not re.search(r"(?:src|href|action|hx-get|data-events)=\"(?!/|#)", answer.text), path


@pytest.mark.parametrize("host", ["evil.example:9880", "127.0.0.1.evil.example", "", "[::2]:9880"])
async def test_another_host_is_refused(site, host):
    answer = await site.http.get("/", headers={"host": host})
    assert answer.status_code == 403
    assert "content-security-policy" in answer.headers
    for good in ("localhost", "127.0.0.1:1", "[::1]:9880"):
        assert (await site.http.get("/", headers={"host": good})).status_code == 200


@pytest.mark.parametrize(
    "path", ["/", "/brokers", "/topics", "/changes", "/kv", "/compare", "/front-ends", "/streams", "/missing"]
)
async def test_foreign_names_stay_text(site, bed, path):
    await bed.fe1.leases.renew(HOSTILE)
    await bed.register("<img src=x>:1", HOSTILE, cluster=BIDI, topics=[HOSTILE, BIDI])
    await bed.kv.put(HOSTILE, BIDI, f"{HOSTILE}\n\x1b[2J")
    await site.until_seen((await bed.head()).seq)
    text = await site.get(path)
    assert "<script>alert" not in text
    assert "<img" not in text
    assert "\u202e" not in text
    assert "\x1b" not in text
    page = await site.get("/topic", name=HOSTILE)
    assert f'<h1 class="name">{html.escape(HOSTILE, quote=False)}' in page.replace("&#34;", '"')


async def test_brokers_are_filtered(site, bed):
    await site.until_seen(await filled(bed))
    assert "10.0.0.1:10911" in await site.get("/brokers")
    text = await site.get("/brokers", filter="C2")
    assert "10.0.0.3:10911" in text
    assert "10.0.0.1:10911" not in text
    assert "No broker matches" in await site.get("/brokers", filter="nothing")


async def test_topics_are_filtered_and_paged(site, bed):
    await bed.register(topics=[f"topic-{n:03}" for n in range(250)])
    await site.until_seen((await bed.head()).seq)
    first, third = await site.get("/topics"), await site.get("/topics", page="3")
    assert "250 topics, page 1 of 3" in first
    assert "topic-000" in first
    assert "topic-100" not in first
    assert "topic-249" in third
    assert "1 topic" in await site.get("/topics", filter="TOPIC-017")
    assert "topic-249" in await site.get("/topics", page="99999")  # the last one there is
    assert "expected a number" in await site.get("/topics", 400, page="x")


async def test_a_route_is_shown_as_clients_get_it(site, bed):
    await site.until_seen(await filled(bed))
    text = await site.get("/topic", name="orders")
    shown = html.unescape(re.search(r'request 105">(.*?)</pre>', text, re.S)[1])
    route = await read_route(bed.store, Settings(), "orders")
    assert json.loads(shown) == json.loads(encode_route(route, quoted_keys=True))
    assert "broker_registered" in text


async def test_a_deleted_topic_says_who_deleted_it_and_what_its_route_was(site, bed):
    await filled(bed)
    await bed.routes.delete_topic("orders", "")
    await site.until_seen((await bed.head()).seq)
    text = await site.get("/topic", name="orders")
    assert "code 17" in text
    deleted = text[text.index("topic_deleted") :]
    assert "direct" in deleted[: deleted.index("</p>")]
    assert "8 read, 8 write, 6 RW" in deleted


async def test_an_unknown_topic_names_close_ones(site, bed):
    await site.until_seen(await filled(bed))
    assert "Did you mean orders?" in unlinked(await site.get("/topic", 404, name="order"))


async def test_topics_with_nowhere_to_write_to_are_found(site, bed):
    await bed.register(topics={"writable": (4, 4, 6), "readable": (4, 4, 4)})
    await site.until_seen((await bed.head()).seq)
    assert "1 topic has nowhere to write to" in await site.get("/")
    text = await site.get("/topics", state="unwritable")
    assert "readable" in text
    assert "writable</a>" not in text


async def test_changes_are_filtered_and_each_has_an_address(site, bed):
    seq = await filled(bed)
    await site.until_seen(seq)
    assert (await site.get("/changes")).count('class="change"') == seq
    assert (await site.get("/changes", kind="kv_put")).count('class="change"') == 1
    assert (await site.get("/changes", topic="bills")).count('class="change"') == 1
    assert (await site.get("/changes", broker="broker-b")).count('class="change"') == 1
    assert (await site.get("/changes", author="nobody at all")).count('class="change"') == 0
    assert (await site.get("/changes", before="3")).count('class="change"') == 2
    one = await site.get(f"/changes/{seq}")
    assert "kv_put" in one
    assert "ORDER_TOPIC_CONFIG" in one
    assert "is not in the stream" in await site.get(f"/changes/{seq + 1}", 404)
    assert "expected one of" in await site.get("/changes", 400, kind="nonsense")


async def test_a_change_in_parts_is_one_change(site, bed):
    await bed.register(topics=[f"t{n}" for n in range(1200)])
    head = await bed.head()
    await site.until_seen(head.seq)
    assert head.seq > 1
    for seq in range(1, head.seq + 1):
        assert f"in {head.seq} parts" in await site.get(f"/changes/{seq}")
    assert (await site.get("/changes")).count('class="change"') == 1


async def test_what_front_ends_were_started_with_is_shown_and_whether_it_counts(site, bed):
    own = {"orderMessageEnable": ("true", "flag --set"), "supportActingMaster": ("true", "file /etc/x.properties")}
    one = {"listenPort": ("9876", "flag --port"), HOSTILE: (BIDI, "flag --set")}
    await bed.leases.renew("w1", process=worker(settings=own | one))
    await bed.leases.renew("w2", process=worker(front_end="fe2", name="ns2:9876", settings=own))
    await bed.leases.renew("w3", process=worker(front_end="fe3", name="ns3:9876"))  # an older release tells nothing
    await bed.kv.set_config({"orderMessageEnable": "false", "supportActingMaster": "false"})
    await site.until_seen((await bed.head()).seq)
    text = await site.get("/kv")
    text = text[text.index("What front ends were started with") :]
    rows = {re.search(r"<td.*?>(.*?)</td>", row)[1]: row for row in re.findall(r"<tr><td.*?</tr>", text)}
    assert len(rows) == 4
    assert "ns1:9876, ns2:9876" in rows["orderMessageEnable"]
    assert "counts, not false of all front ends" in rows["orderMessageEnable"]
    assert "does not count: false is set for all front ends" in rows["supportActingMaster"]
    assert "ns2:9876" not in rows["listenPort"]
    assert any("&lt;script" in key for key in rows)
    assert BIDI not in text


async def until_counted(site, name):
    async with asyncio.timeout(20):
        while name not in {one.name for one in site.console.missing.names()}:
            await site.console.missing.read()


async def test_names_in_vain_are_read_until_cancelled_also_when_a_read_swallows_that(site, monkeypatch):
    """As redis-py's timeouts can: it cost the rest of a pause, and the console ended so much later."""
    monkeypatch.setattr(missing, "_EVERY_S", 600)
    reading = asyncio.Event()

    async def read():
        reading.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    monkeypatch.setattr(site.console.missing, "read", read)
    task = asyncio.create_task(site.console.missing.keep())
    await site.until_seen(0)
    await reading.wait()
    task.cancel()
    async with asyncio.timeout(20):
        await task


async def test_names_that_clients_ask_for_in_vain_are_shown_with_when_and_where(site, bed):
    told = json.loads(worker())
    await bed.leases.renew("w1", process=worker())
    streams = StreamStore(bed.store)
    await bed.register(topics=["orders", "bills"])

    async def asked(number, found, missing, front_end="fe2", clients=None):
        await streams.write_lookups(front_end, "w1", number, 10_000, lookup_entries(found, missing, clients))

    await site.console.missing.read()
    assert "Nobody asked for a topic" in await site.get("/missing")
    await asked(1, {"orders": 5}, {"order": 3, HOSTILE: 1}, clients={"order": ["10.0.3.7", "10.0.3.8"]})
    await bed.let_pass(3_600_000)
    await asked(2, {}, {"order": 1, "bills": 2, "(others)": 7}, told["front_end"], {"order": ["10.0.3.9", "10.0.3.7"]})
    await until_counted(site, "bills")
    assert [(one.name, one.times) for one in site.console.missing.names()] == [
        ("(others)", 7), ("order", 4), ("bills", 2), (HOSTILE, 1),
    ]  # fmt: skip
    order = site.console.missing.names()[1]
    assert 3_600_000 <= order.last_ms - order.first_ms < 3_660_000
    text = await site.get("/missing")
    row = text[text.index(">order<") :]
    row = row[: row.index("</tr>")]
    assert ">4<" in row
    assert f"{told['name']}, a front end that is gone (id fe2)" in row or f"(id fe2), {told['name']}" in row
    assert "no topic" in row
    assert "10.0.3.9, 10.0.3.7, 10.0.3.8" in row
    assert "Some of them: 10.0.3.9, 10.0.3.7, 10.0.3.8." in unlinked(await site.get("/topic", 404, name="order"))
    assert "there is a route" in text[text.index(">bills<") :][:600]
    assert "other names, which are not counted one by one" in text
    assert html.escape(HOSTILE, quote=False) in text.replace("&#34;", '"')
    assert "<script>alert" not in text
    assert ">orders<" not in text
    assert ">order<" not in await site.get("/missing", filter="bill")
    assert 'href="/missing"' in await site.get("/topics")
    # after a day nothing is left of it
    await bed.let_pass(25 * 3_600_000)
    await site.console.missing.read()
    assert site.console.missing.names() == []


async def test_settings_say_where_their_value_is_from(site, bed):
    await bed.kv.set_config({"orderMessageEnable": "true"})
    await site.until_seen((await bed.head()).seq)
    text = await site.get("/kv")
    row = text[text.index("orderMessageEnable") :]
    assert "set for all front ends" in row[: row.index("</tr>")]
    assert ">default<" in text


async def test_nothing_is_wrong_with_a_registry_that_works(site, bed):
    await site.until_seen(await filled(bed))
    await bed.register("10.0.0.3:10911", "broker-b", cluster="c2", topics=["orders", "ledger"], counter=2)
    await site.until_seen((await bed.head()).seq)
    assert "Nothing is wrong" in await site.get("/")


async def test_an_address_that_makes_no_sense_says_what_was_expected(site):
    assert "is no time: expected" in await site.get("/brokers", 400, at="yesterday")
    assert "There is no such page" in await site.get("/nothing", 404)
    assert (await site.http.post("/", headers={"origin": "http://127.0.0.1:9880"})).status_code == 405


async def test_a_console_that_was_held_does_not_say_that_redis_was_away(bed, monkeypatch):
    monkeypatch.setattr("mqregistry.console.state.BLOCK_MS", 500)
    async with Store(bed.store.url, bed.store.namespace, timeout_ms=1500) as tail_store:
        state = State(bed.store, tail_store)
        following = asyncio.create_task(state.follow())
        try:
            async with asyncio.timeout(60):
                while state.stale_since_ms is not None:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                told = []
                monkeypatch.setattr(state, "_unheard", told.append)
                for _ in range(2):
                    time.sleep(2.0)  # noqa: ASYNC251 - nothing else runs meanwhile
                    await bed.register(f"10.0.0.{len(state.tables.brokers) + 1}:10911", f"b{state.seq}")
                    while state.seq < (await bed.head()).seq:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
            assert told == []
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
