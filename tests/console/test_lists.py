"""Lists that are sorted and filtered on the server, with an address for each view; the page of one broker name."""

from __future__ import annotations

import asyncio
import re

import pytest

from mqregistry.model import QueueData
from mqregistry.store.streams import StreamStore, lookup_entries

from .conftest import unlinked
from .test_incidents import shown
from .test_lanes import until_read


def names_of(text, label="Name"):
    return re.findall(rf'data-label="{label}"><a [^>]*>([^<]*)<', text)


async def fleet(bed):
    for number, (name, cluster) in enumerate([("zeta", "c1"), ("alpha", "c2"), ("mid", "c1")]):
        topics = {f"t{one}": (4 + one, 8 - one, 6) for one in range(number + 2)}
        await bed.register(f"10.0.0.{9 - number}:10911", name, cluster=cluster, topics=topics)
        await bed.let_pass(1000)
    return (await bed.head()).seq


async def test_brokers_are_sorted_and_filtered_by_the_address(site, bed):
    await site.until_seen(await fleet(bed))
    assert names_of(await site.get("/brokers")) == ["mid", "zeta", "alpha"]
    assert names_of(await site.get("/brokers", sort="name")) == ["alpha", "mid", "zeta"]
    assert names_of(await site.get("/brokers", sort="-topics")) == ["mid", "alpha", "zeta"]
    text = await site.get("/brokers", sort="left")  # who expires next: the one that was heard first
    assert names_of(text) == ["zeta", "alpha", "mid"]
    assert 'aria-sort="ascending"' in text
    assert "sort=-left" in text, "a second click turns the order around"
    assert names_of(await site.get("/brokers", cluster="c2")) == ["alpha"]
    assert "expected one of" in await site.get("/brokers", 400, sort="colour")
    assert "expected one of" in await site.get("/brokers", 400, state="odd")
    await bed.routes.set_write_perm("mid", "wipe")
    await site.until_seen((await bed.head()).seq)
    assert names_of(await site.get("/brokers", state="read-only")) == ["mid"]
    assert names_of(await site.get("/brokers", state="no-master")) == []
    assert names_of(await site.get("/brokers", state="overdue")) == []
    head = await bed.head()
    assert names_of(await site.get("/brokers", at=str(head.now_ms), sort="-name")) == ["zeta", "mid", "alpha"]


@pytest.mark.parametrize(
    ("sort", "first"), [("topic", "t0"), ("-topic", "t3"), ("-brokers", "t0"), ("read", "t3"), ("-write", "t0")]
)
async def test_topics_are_sorted_by_the_address(site, bed, sort, first):
    await site.until_seen(await fleet(bed))
    assert names_of(await site.get("/topics", sort=sort), "Topic")[0] == first


async def test_topics_of_one_broker(site, bed):
    await site.until_seen(await fleet(bed))
    assert names_of(await site.get("/topics", broker="zeta"), "Topic") == ["t0", "t1"]


async def test_the_page_of_a_broker_name(site, bed):
    await until_read(site, await fleet(bed))
    text = await site.get("/broker", name="alpha")
    for shown_there in ("10.0.0.8:10911", "broker_registered", 'href="/topics?broker=alpha"', "/cluster?name=c2"):
        assert shown_there in text
    assert "10.0.0.9:10911" not in text
    await bed.routes.unregister_broker("c2", "10.0.0.8:10911", "alpha", 0)
    await shown(site, bed, "1 broker went")
    text = await site.get("/broker", name="alpha")
    assert "No process is registered under this name" in text
    assert "Gone within the last day" in text
    assert "No broker name" in await site.get("/broker", 404, name="never")


async def test_the_page_of_a_cluster(site, bed):
    await fleet(bed)
    for broker_id in (0, 1):
        await bed.register(f"10.0.1.{broker_id}:10911", "headless", broker_id, cluster="c1", topics=["only-c1", "t0"])
    await bed.routes.unregister_broker("c1", "10.0.1.0:10911", "headless", 0)
    await bed.routes.set_write_perm("mid", "wipe")
    await until_read(site, (await bed.head()).seq)
    await StreamStore(bed.store).write_lookups("fe1", "w1", 1, 10_000, lookup_entries({"only-c1": 41, "t0": 9}, {}))
    await site.console.missing.read()
    text = await site.get("/cluster", name="c1")
    assert names_of(text) == ["headless", "mid", "zeta"]
    assert names_of(await site.get("/cluster", name="c1", sort="-topics"))[0] == "mid"
    facts = {key: re.sub(r"<[^>]+>", "", value) for key, value in re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", text)}
    assert facts == {
        "Brokers": "3 processes of 3 broker names", "Without a master": "1 broker name: headless",
        "Cannot be written to": "mid", "Topics": "5",
    }  # fmt: skip
    assert names_of(await site.get("/topics", cluster="c1"), "Topic") == ["only-c1", "t0", "t1", "t2", "t3"]
    assert names_of(await site.get("/topics", cluster="c2"), "Topic") == ["t0", "t1", "t2"]
    assert "50 lookups within the last hour" in text, "of only-c1 and of t0, which is at both"
    assert "9 lookups within the last hour" in await site.get("/cluster", name="c2")
    assert "write_perm_set" in text
    assert "10.0.0.8" not in text, "of c2"
    then = await site.get("/cluster", name="c1", at=str((await bed.events())[0].ms))
    assert names_of(then) == ["zeta"]
    assert "there is c1, c2" in unlinked(await site.get("/cluster", 404, name="none"))


async def test_a_cluster_that_has_left_still_has_its_changes(site, bed):
    await bed.register(cluster="gone-c")
    await bed.routes.unregister_broker("gone-c", "10.0.0.1:10911", "broker-a", 0)
    await site.until_seen((await bed.head()).seq)
    text = await site.get("/cluster", name="gone-c")
    assert "No broker of it is registered" in text
    assert "broker_unregistered" in text


async def test_every_cluster_name_leads_to_its_page(site, bed):
    await bed.register(topics=["orders", "bills"])
    seq = (await bed.head()).seq
    await until_read(site, seq)
    link = 'href="/cluster?name=c1'
    for path in ("/", "/brokers", "/broker?name=broker-a", "/topic?name=orders", "/search?q=broker", f"/changes/{seq}"):
        assert link in await site.get(path), path
    assert (await site.http.get("/search?q=c1")).headers["location"] == "/cluster?name=c1"


async def test_differences_are_paged(site, bed):
    await bed.register(topics=[f"t{number:03}" for number in range(250)])
    await site.until_seen((await bed.head()).seq)
    ms = (await bed.events())[0].ms
    await asyncio.sleep(0.01)  # the past is known to the millisecond
    await bed.kv.put("ns", "k", "v")
    await bed.routes.register_topic("last", [("broker-a", QueueData(1, 1, 6, 0))])
    for number in range(250):
        await bed.kv.put("ns", f"k{number:03}", "v")
    await site.until_seen((await bed.head()).seq)
    page = await site.get("/compare", at=str(ms))
    assert "252 differences, page 1 of 3" in page
    assert "ns / k249" not in page
    last = await site.get("/compare", at=str(ms), page="3")
    assert "ns / k249" in last
    assert "ns / k000" not in last
