"""``route TOPIC --follow``: what a producer sees, each change with its cause, and Redis that goes and comes back."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from mqregistry.embedded import EmbeddedRedis
from mqregistry.model import QueueData
from mqregistry.store.store import Store
from tests.store.bed import Bed

TOPICS = {"orders": (4, 4, 6), "second": (4, 4, 6)}


@pytest.fixture
def target(redis_url, namespace):
    return {"MQREGISTRY_REDIS": redis_url, "MQREGISTRY_NAMESPACE": namespace}


@pytest.fixture
def follow(start, target):
    """The command, once it has shown the first route."""

    def run(*options, **variables):
        process = start("route", "orders", "--follow", *options, **{**target, **variables})
        process.wait_for("producers:" if "--json" not in options else '"after"')
        return process

    return run


async def broker_a(bed):
    await bed.register("10.0.0.1:10911", topics=TOPICS)
    await bed.register("10.0.0.2:10911", broker_id=1, topics=TOPICS)


async def test_each_change_is_shown_with_old_and_new(bed, follow):
    await broker_a(bed)
    process = follow()
    assert "producers: 4 queues: broker-a 4" in process.out
    await bed.register("10.0.0.9:10911", "broker-z", topics=["elsewhere", "and-there"])
    await bed.register("10.0.0.3:10911", "broker-b", topics=TOPICS)
    process.wait_for("producers: 4 queues: broker-a 4 -> 8 queues: broker-a 4, broker-b 4")
    await bed.routes.set_write_perm("broker-a", "wipe")
    process.wait_for("producers: 8 queues: broker-a 4, broker-b 4 -> 4 queues: broker-b 4")
    assert "before  broker-a  4 read, 4 write, 6 RW; 10.0.0.1:10911 id 0, 10.0.0.2:10911 id 1" in process.out
    assert "after   broker-a  4 read, 4 write, 4 R; 10.0.0.1:10911 id 0" in process.out
    assert "write_perm_set" in process.out
    assert "; by " in process.out
    await bed.routes.unregister_broker("c1", "10.0.0.3:10911", "broker-b")
    process.wait_for("producers: 4 queues: broker-b 4 -> no queue to send to")
    await bed.routes.delete_topic("orders")
    process.wait_for("-> none: a producer gets")
    assert "no route" in process.out
    assert "elsewhere" not in process.out, "it does not concern this topic"
    assert process.end() == 0
    assert process.err == ""


async def test_a_topic_of_a_known_broker_name_and_what_is_not_in_queue_data(bed, follow):
    await bed.register("10.0.0.1:10911", topics=["other", "another"], filter_servers=["f:1"])
    process = follow()
    assert "producers: none" in process.out
    await bed.routes.register_topic("orders", [("broker-a", QueueData(4, 4, 6))])
    process.wait_for("-> 4 queues: broker-a 4")
    assert "10.0.0.1:10911 id 0" in process.out
    assert "+ filter servers of 10.0.0.1:10911: f:1" in process.out
    await bed.kv.put("ORDER_TOPIC_CONFIG", "orders", "broker-a:2")
    await bed.kv.set_config({"orderMessageEnable": "true"})
    process.wait_for("+ order configuration: broker-a:2")
    process.wait_for("producers: 4 queues: broker-a 4 -> 2 queues: broker-a 2")
    assert process.out.count("config_set") == 1


async def test_a_change_in_parts_is_one(bed, follow):
    process = follow("--json")
    topics = {**{f"t{i:04}": (8, 8, 6) for i in range(1200)}, **TOPICS}
    await bed.register("10.0.0.1:10911", topics=topics)
    process.wait_for("broker_registered")
    first, second = map(json.loads, process.out.splitlines())
    assert first == {"change": None, "before": None, "after": None}
    assert second["before"] is None
    assert second["after"]["queueDatas"][0]["brokerName"] == "broker-a"
    assert second["change"]["type"] == "broker_registered"
    assert process.end() == 0


def test_it_goes_on_after_redis_was_away_and_tells_of_a_gap(start, run):
    with tempfile.TemporaryDirectory(prefix="mq") as folder:
        place = Path(folder)

        async def change(url, work):
            async with Store(url, "default") as store:
                await store.connect()
                await work(Bed(store))

        with EmbeddedRedis(place) as server:
            run(change(server.url, broker_a))
            process = start("route", "orders", "--follow", MQREGISTRY_REDIS=server.url)
            process.wait_for("producers: 4 queues")
        process.wait_for("waiting for it")
        with EmbeddedRedis(place) as server:
            process.wait_for("Redis is back")
            run(change(server.url, lambda bed: bed.routes.set_write_perm("broker-a", "wipe")))
            process.wait_for("-> no queue to send to")
            assert "has a gap" not in process.err

            async def lost_everything(bed):
                await bed.redis("FLUSHALL")
                await bed.store.init_namespace()
                await bed.register("10.0.0.7:10911", "broker-n", topics=TOPICS)

            run(change(server.url, lost_everything))
            process.wait_for("has a gap here")
            process.wait_for("producers: no queue to send to -> 4 queues: broker-n 4")
            assert process.end() == 0


@pytest.mark.parametrize("other", [["--namesrv", "127.0.0.1:1"], ["--at", "-1h"]])
def test_only_redis_can_be_followed(command, target, other):
    assert "not with --namesrv or --at" in command("route", "t", "--follow", *other, expect=2, **target).stderr
