"""A snapshot read page by page, while writes go on."""

from __future__ import annotations

import asyncio
import random

import pytest

from mqregistry.errors import StoreError
from mqregistry.events.changes import Parts
from mqregistry.model import BrokerRow, QueueData
from mqregistry.store import snapshot
from mqregistry.store.change_reader import ChangeReader
from mqregistry.store.snapshot import read_head, read_section, read_tables
from mqregistry.store.store import Store

from .bed import Following, follow, registration


@pytest.fixture
def small_pages(monkeypatch):
    monkeypatch.setattr(snapshot, "_PAGE", dict.fromkeys(snapshot._PAGE, 2))
    monkeypatch.setattr(snapshot, "_FIRST_TOPICS", 2)
    monkeypatch.setattr(snapshot, "_MOST_TOPICS", 2)


async def test_head_of_a_new_namespace(store):
    head = await read_head(store)
    assert (head.seq, head.config_rev, head.last_id, head.up_since_ms) == (0, 0, "0-0", 0)
    assert len(head.epoch) == 16
    assert head.now_ms > 1_600_000_000_000


async def test_snapshot_of_nothing(bed):
    assert not any((await bed.contents()).values())


async def test_snapshot_holds_every_table(bed, small_pages):
    for i in range(30):
        await bed.register(
            f"10.0.0.{i}:1", f"broker-{i}", cluster=f"c{i % 7}", topics=[f"t{i}", f"t{i + 1}"],
            filter_servers=[f"f{i}"], mappings={f"t{i}": (f"broker-{i}", "{}")},
        )  # fmt: skip
        await bed.kv.put(f"ns{i}", "k", "v")
    await bed.kv.put("empty", "k", None)
    await bed.kv.set_config({"deleteTopicWithBrokerRegistration": "true"})
    head, tables = await read_tables(bed.store)
    assert head.seq == 62
    assert tables.contents() == await bed.replay()
    assert tables.topics["t5"] == {"broker-4": QueueData(8, 8, 6), "broker-5": QueueData(8, 8, 6)}
    assert tables.brokers["broker-5"] == BrokerRow("c5", {0: "10.0.0.5:1"}, None, False, 11)
    assert tables.kv["empty"] == {}
    assert tables.config_rev == 1


@pytest.mark.parametrize("width", [3, 60, 700])
async def test_a_page_of_topics_is_bounded_however_many_brokers_have_them(bed, width):
    row = {f"broker-{number}": '{"perm":6,"readQueueNums":1,"writeQueueNums":1}' for number in range(width)}
    topics = [f"t{number}" for number in range(40 + 30_000 // width)]
    pipeline = bed.store.client.pipeline(transaction=False)
    pipeline.sadd(f"mq:{{{bed.store.namespace}}}:topics", *topics)
    for topic in topics:
        pipeline.hset(f"mq:{{{bed.store.namespace}}}:topic:{topic}", mapping=row)
    await pipeline.execute()
    pages = [page async for page in snapshot.read_topic_rows(bed.store)]
    assert {topic for page in pages for topic, _ in page} == set(topics)
    cells = [sum(len(row) // 2 for _, row in page) for page in pages]
    # SSCAN gives the names of whole buckets: some more than it is asked for. Some servers give a small set whole.
    assert max(cells) <= max(1.5 * snapshot._CELLS, 3 * snapshot._FIRST_TOPICS * width, 5000 + width)
    assert len(pages) < 100 + 1.5 * sum(cells) / min(snapshot._CELLS, snapshot._MOST_TOPICS * width)


async def test_live_section_tells_who_is_alive(bed, small_pages):
    for i in range(9):
        await bed.register(f"10.0.0.{i}:1", f"broker-{i}")
    found = {name: dict(snapshot.pairs(flat)) async for name, flat in read_section(bed.store, "live")}
    assert set(found) == {f"c1|10.0.0.{i}:1" for i in range(9)}
    assert found["c1|10.0.0.3:1"][b"counter"] == b"1"


async def test_unknown_section_is_an_error(bed):
    with pytest.raises(StoreError, match="MQSECTION no section nonsense"):
        [_ async for _ in read_section(bed.store, "nonsense")]


async def test_a_name_that_is_no_text_is_an_error_that_names_the_key(bed):
    await bed.register(topics=["t1", "t2"])
    await bed.store.client.hset(f"mq:{{{bed.store.namespace}}}:topic:t1", b"\xff", "{}")
    with pytest.raises(StoreError, match=r"a topic or brokerName in mq:\{.*\}:topics: .*utf-8"):
        await read_tables(bed.store)


async def test_topics_whose_hash_is_gone_are_left_out(bed, small_pages):
    """As between the two reads of a page; also when nothing is left on it."""
    await bed.register(topics=["t1", "t2"])
    assert set((await bed.tables()).topics) == {"t1", "t2"}
    for topic in ("t1", "t2"):
        await bed.store.client.delete(f"mq:{{{bed.store.namespace}}}:topic:{topic}")
    assert (await bed.tables()).topics == {}


async def test_snapshot_is_read_only(bed):
    await bed.register()
    before = await bed.dump()
    await bed.tables()
    assert await bed.dump() == before


async def random_writes(front_end, random_, names, count):
    """Everything that changes a table, at random; small enough for names to come and go all the time."""
    for i in range(count):
        name, cluster = random_.choice(names), random_.choice(["c1", "c2"])
        addr = f"10.0.0.{random_.randrange(4)}:1"
        topics = [f"t{random_.randrange(25)}" for _ in range(random_.randrange(2, 12))]
        match random_.randrange(12):
            case 0 | 1 | 2 | 3 | 4:
                await front_end.register(
                    registration(
                        addr, name, random_.randrange(2), cluster, topics=topics, counter=i,
                        enable_acting_master=random_.choice([None, True, False]),
                        filter_servers=random_.choice([None, [], ["f1"], ["f2", "f1"]]),
                        mappings={topics[0]: (name, str(i % 3))} if i % 4 == 0 else {},
                    ),
                    connection=addr,
                    delete_missing_topics=random_.random() < 0.3,
                )  # fmt: skip
            case 5 | 6:
                await front_end.routes.unregister_broker(cluster, addr, name)
            case 7:
                await front_end.routes.channel_destroyed(f"{cluster}|{addr}", front_end.channel(addr))
            case 8:
                await front_end.routes.delete_topic(topics[0], random_.choice(["", cluster]))
            case 9:
                await front_end.routes.set_write_perm(name, random_.choice(["wipe", "add"]))
            case 10:
                await front_end.routes.register_topic(topics[0], [(name, QueueData(i, i, 6))])
            case 11:
                if i % 2:
                    await front_end.kv.put(f"ns{i % 5}", topics[0], random_.choice([None, str(i)]))
                else:
                    await front_end.kv.set_config({topics[0]: str(i)})


@pytest.mark.parametrize("seed", range(12))
async def test_snapshot_during_writes_and_the_changes_since_give_the_final_tables(
    bed, redis_url, namespace, small_pages, seed
):
    random_ = random.Random(seed)
    names = [f"broker-{i}" for i in range(6)]
    await random_writes(Following(bed.store), random_, names, 40)
    async with Store(redis_url, namespace) as other:
        writer = asyncio.create_task(random_writes(Following(other, "fe2", "w2"), random_, names, 120))
        taken = []
        while not writer.done():
            taken.append(await read_tables(bed.store))
        await writer
    assert len(taken) > 2
    final = (await read_tables(bed.store))[1]
    for head, tables in taken:
        await follow(ChangeReader(bed.store, head.last_id), Parts(), tables)
        assert tables.contents() == final.contents()
        assert tables.config_rev == final.config_rev
    assert await bed.replay() == final.contents()


@pytest.mark.parametrize("seed", range(12))
async def test_writes_between_any_two_pages_are_made_good_by_the_changes(
    bed, redis_url, namespace, small_pages, monkeypatch, seed
):
    """As above, but with writes forced in between each page and the next."""
    random_ = random.Random(1000 + seed)
    names = [f"broker-{i}" for i in range(6)]
    await random_writes(Following(bed.store), random_, names, 40)
    async with Store(redis_url, namespace) as other:
        writer = Following(other, "fe2", "w2")
        call = bed.store.call

        async def call_amid_writes(*arguments):
            reply = await call(*arguments)
            await random_writes(writer, random_, names, random_.randrange(4))
            return reply

        monkeypatch.setattr(bed.store, "call", call_amid_writes)
        head, tables = await read_tables(bed.store)
        monkeypatch.undo()
    await follow(ChangeReader(bed.store, head.last_id), Parts(), tables)
    assert tables.contents() == (await read_tables(bed.store))[1].contents()


@pytest.mark.parametrize(
    ("key", "field", "others"),
    [
        ("kv:ns", b"bad", {"good": "1"}),
        ("kv:ns", b"b\xff", {"good": "1"}),
    ],
)
async def test_a_kv_value_or_key_that_is_not_utf8_is_named_in_the_log_and_left_out(bed, caplog, key, field, others):
    await bed.kv.put("ns", "good", "1")
    await bed.redis("HSET", bed.key(key), field, b"\xff\xfe")
    _, tables = await read_tables(bed.store)
    assert tables.kv == {"ns": others}
    assert f"{bed.key(key)}, field {field!r}, is left out" in caplog.text


async def test_other_texts_that_are_not_utf8_are_named_in_the_log_and_left_out(bed, caplog):
    await bed.register(topics=["t1", "t2"])
    await bed.redis("HSET", bed.key("config"), "productEnvName", b"\xff")
    await bed.redis("RPUSH", bed.key("filter:c1|10.0.0.1:10911"), b"\xff")
    await bed.redis("SADD", bed.key("kv"), b"ns\xff")
    _, tables = await read_tables(bed.store)
    assert sorted(tables.topics) == ["t1", "t2"]
    assert (tables.kv, tables.config) == ({}, {})
    for place in ("config, field b'productEnvName',", "filter:c1|10.0.0.1:10911", r"name b'ns\xff' in kv"):
        assert f"{bed.key(place)} is left out" in caplog.text
