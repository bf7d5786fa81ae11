"""Time travel as users see it: which past, what it says, and what it says when it cannot."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest

pytest.importorskip("pyarrow", reason="no pyarrow: pip install -e '.[spark]'")

from mqregistry.pipeline.lake.lake import Lake, LakeError
from mqregistry.pipeline.past import travel
from mqregistry.store.snapshot import read_head
from tests.cli.conftest import command, env, home  # noqa: F401 - fixtures
from tests.pipeline.plain_lake import PlainSilver, put, put_changes, put_entries
from tests.pipeline.world import entries
from tests.store.bed import Bed

T0 = 1_780_000_000_000


@pytest.fixture
def bed(store):
    return Bed(store)


def iso(ms):
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


def event(seq, ms, kind="kv_put", **fields):
    members = {"seq": seq, "ms": ms, "type": kind, **(fields or {"kv_namespace": "n", "key": "k", "value": str(seq)})}
    return f"{ms}-0", json.dumps(members)


class EpochPast:
    """Silver of a lake, epoch by epoch, without Spark."""

    def __init__(self, lake, epoch, ms, *, namespace="default", compat="5.x"):
        self.lake, self.epoch, self.namespace = lake, epoch, namespace
        self.silver, self.number = PlainSilver(begin_ms=ms, compat=compat), 0
        self.fill([])

    def fill(self, events, observed_ms=None):
        self.silver.take([e for _, e in events])
        self.silver.write(self.lake, self.namespace, self.epoch, number=self.number, observed_ms=observed_ms)
        self.number += 1


def begin(lake, epoch, ms, **more):
    return EpochPast(lake, epoch, ms, **more)


def value(lake, ms, namespace="default"):
    return travel.ask(lake, namespace, ms, lambda past: past.tables(ms)).kv.get("n", {}).get("k")


def test_each_epoch_answers_for_its_own_time(lake):
    begin(lake, "old", T0).fill([event(1, T0), event(2, T0 + 100), event(3, T0 + 200)])
    begin(lake, "new", T0 + 5000).fill([event(1, T0 + 5000), event(2, T0 + 6000)])
    said = [value(lake, T0 + ms) for ms in (0, 99, 100, 200, 5000, 5999, 6000)]
    assert said == ["1", "1", "2", "3", "1", "1", "2"]
    with pytest.raises(LakeError, match=r"the lake knows namespace 'default' only from .* is earlier"):
        value(lake, T0 - 1)
    with pytest.raises(
        LakeError, match=r"only until .* is later: 'mqregistry pipeline run --once' brings it up to date"
    ):
        value(lake, T0 + 6001)
    with pytest.raises(LakeError, match="the namespace was created again later; the lake knows the new one from"):
        value(lake, T0 + 201)


def test_the_newest_heartbeat_tells_how_long_nothing_changed(lake):
    begin(lake, "e", T0).fill([event(1, T0)])
    put_entries(lake, "heartbeats", "default", "e", [(T0 + 900, 0, T0 + 900, "{}")])
    assert value(lake, T0 + 900) == "1"
    with pytest.raises(LakeError, match="is later"):
        value(lake, T0 + 901)


def test_who_read_the_stream_to_its_end_knows_that_nothing_changed(lake):
    past = begin(lake, "e", T0)
    past.fill([event(1, T0)], observed_ms=T0 + 70)
    assert value(lake, T0 + 70) == "1"
    past.fill([event(2, T0 + 75)])
    assert [value(lake, T0 + ms) for ms in (74, 75)] == ["1", "2"]
    with pytest.raises(LakeError, match="is later"):
        value(lake, T0 + 76)


def test_an_empty_lake_and_another_namespace_are_told_apart(lake, tmp_path):
    with pytest.raises(LakeError, match="has nothing of namespace 'default'; it is empty: is --lake right"):
        value(Lake(str(tmp_path / "nothing")), T0)
    begin(lake, "e", T0, namespace="ours").fill([event(1, T0)])
    with pytest.raises(LakeError, match="but has ours: is one of these meant"):
        value(lake, T0)


def test_in_a_gap_nothing_is_known(lake):
    begin(lake, "e", T0).fill([event(1, T0), event(2, T0 + 10), event(6, T0 + 90)])
    put(lake, "silver/gap", "default", "e", [{"stream": "changes", "from_ms": T0 + 10, "to_ms": T0 + 80}])
    assert [value(lake, T0 + ms) for ms in (10, 80, 90)] == ["2", "2", "6"]
    with pytest.raises(LakeError, match=r"what held at .* is not known: changes between .* were lost"):
        value(lake, T0 + 50)


def test_what_a_killed_run_left_of_later_changes_is_not_there(lake):
    past = begin(lake, "e", T0)
    past.fill([event(1, T0), event(2, T0 + 10)])
    past.silver.seq, past.silver.ms = 1, T0
    past.fill([], observed_ms=T0 + 100)
    assert [value(lake, T0 + ms) for ms in (0, 10, 100)] == ["1", "1", "1"]


@pytest.mark.parametrize("quoted", [False, True])
def test_the_commands_show_what_they_showed_live(store, bed, run, lake, command, redis_url, quoted):  # noqa: F811
    run(bed.register(zone_name="z1", filter_servers=["f:1"]))
    run(bed.kv.set_config({"orderMessageEnable": "true"}))
    run(bed.kv.put("ORDER_TOPIC_CONFIG", "t1", "broker-a:8"))
    options = ("--json",) if quoted else ()
    live = ("--redis", redis_url, "--namespace", store.namespace, *options)
    past = ("--lake", lake.root, "--namespace", store.namespace, *options)
    route, brokers, tables = (command(*what, *live).output for what in (("route", "t1"), ("brokers",), ("tables",)))
    head, found = run(read_head(store)), run(entries(store))
    past_of = begin(lake, head.epoch, json.loads(found[0][1])["ms"], namespace=store.namespace)
    past_of.fill(found)
    put_changes(lake, store.namespace, head.epoch, found)
    beats = run(store.client.xrange(bed.key("heartbeats")))
    rows = [(*map(int, i.decode().split("-")), json.loads(f[b"e"])["ms"], f[b"e"].decode()) for i, f in beats]
    put_entries(lake, "heartbeats", store.namespace, head.epoch, rows)
    at = iso(past_of.silver.ms)
    then = command("route", "t1", "--at", at, *past).output
    if quoted:
        assert then == route
    else:
        assert then.startswith(route)
        assert re.fullmatch(
            r"broker-a has these queues since .*, by \w+ \(direct\) on \S+/\d+\n", then.removeprefix(route)
        )
    then = command("brokers", "--at", at, *past).output
    if quoted:
        [was], [now] = json.loads(then), json.loads(brokers)
        assert was.pop("registeredBy") == json.loads(store.by.encoded())
        assert [one["frontEnd"] for one in now.pop("connections")] == ["fe1"]
        for moving in ("heardMsAgo", "expiresInMs"):
            assert was.pop(moving) <= now.pop(moving) + 120_000
        assert was == now
    else:
        assert [line.split()[:4] for line in then.splitlines()] == [line.split()[:4] for line in brokers.splitlines()]
    then = command("tables", "--at", at, *past).output
    if quoted:
        was, now = json.loads(then), json.loads(tables)
        [live_now] = now["brokerLiveTable"].values()
        assert [one.pop("channel") for one in (*was["brokerLiveTable"].values(), live_now)] == [[], ["fe1"]]
        assert was == now
    else:
        assert then.split() == [word if word != "fe1" else "-" for word in tables.split()]
    assert "did you mean t1" in command("route", "t1x", "--at", at, *past, expect=1).output
    error = command("route", "t1", "--at", "2001-01-01", *past, expect=1)
    assert "2001-01-01 00:00:00.000+00:00 is earlier" in str(error.exception)
    assert "give one of them" in command("route", "t1", "--at", at, *live, expect=2).output


def heartbeats(lake, beats):
    """(seconds after T0, front end) of the process c|a:1, as one batch of epoch e."""
    rows = []
    for seconds, front_end in sorted(beats):
        ms = T0 + seconds * 1000
        entry = {"ms": ms, "who": "c|a:1", "front_end": front_end, "kind": "same"}
        rows.append((ms, len(rows), ms, json.dumps(entry)))
    put_entries(lake, "heartbeats", "default", "e", rows)


def test_a_front_end_that_had_ended_is_not_counted(lake):
    of_e = begin(lake, "e", T0)
    live = {"timeout_ms": 120_000, "counter": 1, "timestamp": 1, "state_version": 0}
    row = {"cluster": "c", "addrs": {"0": "a:1"}}
    of_e.fill([event(1, T0, "broker_registered", who="c|a:1", cluster="c", addr="a:1", broker_name="x",
                           broker_id=0, live=live, row=row)])  # fmt: skip
    # fe1 ends after 60 s, fe2 lives on; then the broker itself is silent
    heartbeats(lake, [*((s, "fe1") for s in (0, 30, 60)), *((s, "fe2") for s in (0, 30, 61, 90, 120, 150))])
    past = travel.find_past(lake, "default", T0)

    def front_ends(seconds):
        [broker] = past.brokers(T0 + seconds * 1000)
        return broker.sign.front_ends

    assert [front_ends(seconds) for seconds in (1, 65, 85)] == [2, 2, 2]
    assert [front_ends(seconds) for seconds in (125, 155)] == [1, 1]
    assert front_ends(200) == 1, "a silent broker is still connected to the front end of its last heartbeat"


def test_with_4_8_a_goodbye_under_any_name_ends_a_process_that_stands_nowhere(lake):
    of_e = begin(lake, "e", T0, compat="4.8")
    live = {"timeout_ms": 1, "counter": 1, "timestamp": 1, "state_version": 0}
    of_a = {"who": "|a:1", "cluster": "c", "addr": "a:1"}

    def row(addr):
        return {"cluster": "c", "addrs": {"0": addr}}

    events = [
        event(1, T0, "broker_registered", broker_name="x", broker_id=0, live=live, row=row("a:1"), **of_a),
        event(2, T0 + 1, "broker_registered", broker_name="x", row=row("b:1")),  # another address has taken the id
        event(3, T0 + 2, "broker_unregistered", broker_name="y", **of_a),
    ]
    of_e.fill(events)
    past = travel.find_past(lake, "default", T0)
    assert [list(past.lives(T0 + ms)) for ms in (0, 1, 2)] == [["|a:1"], ["|a:1"], []]
