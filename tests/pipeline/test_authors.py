"""Who caused a change, from the stream through bronze and silver to the commands that ask for the past."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

pytest.importorskip("pyarrow", reason="no pyarrow: pip install -e '.[spark]'")

from mqregistry.events.by import By
from mqregistry.pipeline.past import travel
from mqregistry.store.snapshot import read_head
from tests.cli.conftest import command, env, home  # noqa: F401 - fixtures
from tests.pipeline.plain_lake import put_changes
from tests.pipeline.test_travel import T0, begin, event
from tests.pipeline.world import entries
from tests.store.bed import Bed, registration

BROKER = By("anonymous", peer="10.0.0.1:40001", front_end="ns1:9876")
ALICE = By("signature", "alice", "10.0.0.9:50123", "10.0.0.2:443", "ns1:9876")


def at(ms):
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


@pytest.fixture
def deleted(store, run, lake):
    """A lake in which alice has deleted t1; returns (past, ms before that, ms of it)."""
    bed = Bed(store)

    async def fill_it():
        r = registration()
        prepared = await bed.fe1.prepare(r)
        await bed.routes.register_broker(r, prepared.diff, by=BROKER)
        await bed.let_pass(60_000)
        await bed.routes.delete_topic("t1", by=ALICE)
        first, last = await bed.events()
        epoch, found = (await read_head(store)).epoch, await entries(store)
        begin(lake, epoch, first.ms, namespace=store.namespace).fill(found)
        put_changes(lake, store.namespace, epoch, found)
        return first.ms, last.ms

    first_ms, last_ms = run(fill_it())
    return travel.find_past(lake, store.namespace, last_ms), first_ms, last_ms


def test_the_past_says_since_when_a_route_was_so_and_who_ended_it(deleted):
    past, first_ms, last_ms = deleted
    assert past.origins("t1", last_ms - 1) == {"broker-a": travel.ValueOrigin(first_ms, BROKER)}
    assert past.origins("t1", last_ms) == {}
    assert past.end_of("t1", last_ms) == travel.End(last_ms, "topic_deleted", ALICE, ["broker-a"])
    assert past.end_of("t1", last_ms - 1) is None
    assert past.end_of("never", last_ms) is None
    [broker] = past.brokers(last_ms)
    assert broker.by == BROKER


def test_one_command_says_who_deleted_a_topic_and_another_where_it_was(deleted, store, lake, command):  # noqa: F811
    _, _, last_ms = deleted
    options = ("--lake", lake.root, "--namespace", store.namespace)
    told = command("route", "t1", "--at", at(last_ms), *options, expect=1).output
    assert "it was at broker-a until" in told
    assert "topic_deleted by alice (signature) from 10.0.0.9:50123 via 10.0.0.2:443 at ns1:9876" in told
    told = command("route", "t1", "--at", at(last_ms - 1), *options).output
    assert "by anonymous from 10.0.0.1:40001 at ns1:9876" in told.splitlines()[-1]
    told = command("brokers", "--at", at(last_ms), *options).output
    assert "REGISTERED BY" in told.splitlines()[0]
    assert told.splitlines()[1].endswith("anonymous from 10.0.0.1:40001 at ns1:9876")
    [found] = json.loads(command("brokers", "--at", at(last_ms), *options, "--json").output)
    assert found["registeredBy"] == json.loads(BROKER.encoded())


def test_a_change_that_does_not_say_who_is_not_known(lake):
    queue_data = {"r": 1, "w": 1, "p": 6, "f": 0}
    begin(lake, "e", T0).fill([
        event(1, T0, "topic_registered", topic="t", queue_datas={"a": queue_data}, rev=1),
        event(2, T0 + 10, "topic_deleted", topic="t", broker_names=["a"], rev=2),
    ])  # fmt: skip
    past = travel.find_past(lake, "default", T0)
    assert past.origins("t", T0) == {"a": travel.ValueOrigin(T0, None)}
    assert past.end_of("t", T0 + 10) == travel.End(T0 + 10, "topic_deleted", None, ["a"])
