"""``why``: a topic that is there, that was taken away, that never was; also what ``route`` says of it."""

from __future__ import annotations

import json
import re

import pytest

from mqregistry.events.by import CLI, By
from mqregistry.store.route_writes import RouteStore
from mqregistry.store.store import Store

from .test_operators import BROKERS, register


@pytest.fixture
def target(redis_url, namespace, run):
    """The worked example of the specification, without any front end."""

    async def make():
        async with Store(redis_url, namespace) as store:
            await store.connect()
            for name, broker_id, addr in BROKERS:
                await register(store, name, broker_id, addr, ["topic1", "topic2"] if broker_id == 0 else [])
            await RouteStore(store).delete_topic("topic2")

    run(make())
    return {"MQREGISTRY_REDIS": redis_url, "MQREGISTRY_NAMESPACE": namespace}


def test_a_topic_that_is_there(command, target):
    assert command("why", "topic1", **target).stdout == "topic1 has a route: it is at broker-a, broker-b.\n"


def test_a_topic_that_was_deleted_with_when_by_whom_and_where_it_was(command, target, redis_url, namespace, run):
    async def delete():
        async with Store(redis_url, namespace) as store:
            await store.connect()
            await RouteStore(store).delete_topic("topic1", by=By(CLI, "ann", "laptop/7"))

    run(delete())
    result = command("why", "topic1", expect=1, **target)
    assert re.match(
        r"topic1 has no route since [\d: .-]+: topic_deleted, by ann \(cli\) on laptop/7\.\n", result.stdout
    )
    assert "It was at broker-a: 4 read, 4 write, 6 RW; broker-b: 4 read, 4 write, 6 RW." in result.stdout
    told = json.loads(command("why", "topic1", "--json", expect=1, **target).stdout)
    assert told["lost_by"]["by"]["user"] == "ann"
    assert not told["has_route"]
    error = command("route", "topic1", expect=1, **target).stderr
    assert re.match(r"Error: no topic 'topic1' since [\d: .-]+: topic_deleted, by ann \(cli\) on laptop/7;", error)


def test_a_topic_that_never_was_with_close_names_and_how_often_clients_asked(
    command, target, redis_url, namespace, run
):
    async def ask():
        async with Store(redis_url, namespace) as store:
            await store.connect()
            now_ms = int((await store.read(("TIME",)))[0][0]) * 1000
            entry = {"ms": now_ms, "front_end": "fe", "found": {}, "missing": {"topic11": 3}}
            entry["clients"] = {"topic11": ["10.0.3.7"]}
            await store.read(("XADD", f"mq:{{{namespace}}}:lookups", "*", "e", json.dumps(entry)))
            entry["clients"] = {"topic11": ["10.0.3.8", "10.0.3.7"], "topic1": ["10.0.3.9"]}
            await store.read(("XADD", f"mq:{{{namespace}}}:lookups", "*", "e", json.dumps(entry)))

    run(ask())
    told = command("why", "topic11", expect=1, **target).stdout
    assert "No topic topic11 was ever in this namespace." in told
    assert "Did you mean topic1?" in told
    assert "Clients asked for it 6 times in vain within the last day" in told
    assert "Some of them: 10.0.3.7, 10.0.3.8.\n" in told
    by = json.loads(command("why", "topic11", "--json", expect=1, **target).stdout)["asked_in_vain_by"]
    assert by == ["10.0.3.7", "10.0.3.8"]
