"""Names in sentences lead to their pages: which names those of a change are, and that they are found as whole words."""

from __future__ import annotations

import html
import re
from urllib.parse import urlencode

import msgspec
import pytest

from mqregistry.console.links import find_name, names_in
from mqregistry.events.changes import BrokerRegistered
from mqregistry.operators.history import whole
from mqregistry.operators.words import what
from mqregistry.store.change_reader import read_back
from tests.waiting import until

from .chromium import HOSTILE


@pytest.mark.parametrize(
    ("text", "name", "begin", "place"),
    [
        ("c1/broker-a id 0", "c1", 0, 0),
        ("c1/broker-a id 0", "broker-a", 0, 3),
        ("c1/broker-a id 0", "broker", 0, -1),
        ("broker-a, broker-ab", "broker-ab", 0, 10),
        ("2 topic(s): topic, s", "topic", 0, 12),
        ("Did you mean a or b?", "b", 0, 18),
        ("At 10.0.0.x: b 10.0.0.1:10911.", "10", 0, -1),
        ("a a", "a", 1, 2),
    ],
)
def test_a_name_is_found_as_a_whole_word(text, name, begin, place):
    assert find_name(text, name, begin) == place


def links(page):
    """Text and address of each link."""
    return [
        (html.unescape(text), html.unescape(to))
        for to, text in re.findall(r'<a [^>]*href="([^"]*)"[^>]*>([^<]*)</a>', page)
    ]


async def filled(site, bed):
    await bed.register(topics=["orders", "c1", HOSTILE])  # a topic with the name of its cluster, as brokers make one
    await bed.register("10.0.0.2:10911", "broker-b", topics=["orders", "bills"])
    await bed.routes.set_write_perm("broker-b", "wipe")
    await bed.routes.delete_topic("bills")
    await bed.kv.put("ns", "broker-a", "c1")
    seq = (await bed.head()).seq
    await site.until_seen(seq)
    return seq


async def test_what_a_change_names_stands_in_its_words(site, bed):
    await filled(site, bed)
    kinds = set()
    async for parts in read_back(bed.store):
        change, place = whole(parts), 0
        for one in names_in(change):
            found = find_name(what(change), one.name, place)
            assert found >= 0, (what(change), one)
            place = found + len(one.name)
            kinds.add((change.type, one.kind))
    assert kinds == {
        ("broker_registered", "cluster"), ("broker_registered", "broker"), ("broker_registered", "topic"),
        ("write_perm_set", "broker"), ("write_perm_set", "topic"), ("topic_deleted", "topic"),
        ("topic_deleted", "broker"),
    }  # fmt: skip


async def test_the_line_of_a_change_leads_to_cluster_broker_and_topics(site, bed):
    await filled(site, bed)
    page = await site.get("/changes")
    line = next(one for one in page.split("<li ") if "10.0.0.1:10911" in one)
    assert links(line)[1:] == [
        ("c1", "/cluster?name=c1"), ("broker-a", "/broker?name=broker-a"), ("orders", "/topic?name=orders"),
        ("c1", "/topic?name=c1"), (HOSTILE, f"/topic?{urlencode({'name': HOSTILE})}"),
    ]  # fmt: skip
    assert "ns/broker-a = c1" in page  # a KV entry names no broker


async def test_words_that_are_kept_are_those_of_all_parts_that_have_come(site, bed):
    await filled(site, bed)
    change = next(one for one in site.console.state.recent if isinstance(one, BrokerRegistered))
    part = msgspec.structs.replace(change, topics=dict(list(change.topics.items())[:1]))
    assert "1 topic(s)" in site.console.words(part)
    assert f"{len(change.topics)} topic(s)" in site.console.words(change)
    for tell in site.console.state.on_load:  # another history may have other changes of the same numbers
        tell()
    other = msgspec.structs.replace(change, broker_name="other")
    assert "other" in site.console.words(other)


async def test_what_is_wrong_leads_to_the_brokers_that_it_names(site, bed):
    await filled(site, bed)
    page = await site.get("/")
    line = next(one for one in page.split("<li ") if "No topic of" in one)
    assert ("broker-b", "/broker?name=broker-b") in links(line)
    assert f"<code>mqregistry broker restore --namespace {bed.store.namespace} broker-b</code>" in line
    findings = (await site.http.get("/now.json")).json()["data"]["findings"]
    assert [one["names"] for one in findings if "No topic of" in one["text"]] == [
        [{"kind": "broker", "name": "broker-b"}]
    ]
    await bed.routes.unregister_broker("c1", "10.0.0.1:10911", "broker-a", 0)
    await until(lambda: "broker-a" not in site.console.state.tables.brokers, "it is gone")
    page = await site.get("/")
    line = next(one for one in page.split("<li ") if "not back" in one)
    assert ("broker-a", "/broker?name=broker-a") in links(line)


async def test_what_there_is_instead_of_a_name_is_a_link(site, bed):
    await filled(site, bed)
    assert ("c1", "/cluster?name=c1") in links(await site.get("/cluster", 404, name="c9"))
    assert ("orders", "/topic?name=orders") in links(await site.get("/topic", 404, name="ordres"))


async def test_compared_cells_lead_to_cluster_broker_and_topic(site, bed):
    await filled(site, bed)
    text = await site.get("/compare.json", at=str(site.console.state.recent[0].ms))
    assert '"names"' in text
    shown = links(await site.get("/compare", at=str(site.console.state.recent[0].ms)))
    assert ("c1", "/cluster?name=c1") in shown
    assert ("broker-b", "/broker?name=broker-b") in shown
