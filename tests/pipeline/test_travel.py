"""Time travel as users see it: which past, what it says, and what it says when it cannot."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest

pytest.importorskip("pyarrow", reason="no pyarrow: pip install -e '.[spark]'")

import pyarrow as pa

from mqregistry.pipeline import silver
from mqregistry.pipeline.lake import snapshot
from mqregistry.pipeline.lake.files import write_file
from mqregistry.pipeline.lake.lake import Lake, LakeError, State, owner
from mqregistry.pipeline.lake.maintain import maintain
from mqregistry.pipeline.lake.schema import BRONZE
from mqregistry.pipeline.past import travel
from mqregistry.pipeline.silver.tables import load
from tests.cli.conftest import command, env, home  # noqa: F401 - fixtures
from tests.pipeline.world import entries, write_bronze, write_rows
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


def begin(lake, epoch, ms, *, namespace="default", seq=0, rows=0, compat="5.x"):
    before = lake.state("snapshot", namespace, epoch)
    taken = [*(before.content["taken"] if before else []), [epoch, seq, ms, "0-0", rows, compat]]
    lake.set_state("snapshot", namespace, epoch, State(before.number + 1 if before else 0, {"taken": taken}))


def fill(lake, epoch, events, *, namespace="default", number=0):
    write_bronze(lake, namespace, epoch, number, events)
    silver.advance(None, lake, namespace, epoch)


def value(lake, ms, namespace="default"):
    return travel.ask(lake, namespace, ms, lambda past: past.tables(ms)).kv.get("n", {}).get("k")


def test_each_epoch_answers_for_its_own_time(lake):
    begin(lake, "old", T0)
    fill(lake, "old", [event(1, T0), event(2, T0 + 100), event(3, T0 + 200)])
    begin(lake, "new", T0 + 5000)
    fill(lake, "new", [event(1, T0 + 5000), event(2, T0 + 6000)])
    said = [value(lake, T0 + ms) for ms in (0, 99, 100, 200, 5000, 5999, 6000)]
    assert said == ["1", "1", "2", "3", "1", "1", "2"]
    with pytest.raises(LakeError, match="before the past that the lake knows of namespace 'default': it begins with"):
        value(lake, T0 - 1)
    with pytest.raises(LakeError, match=r"it ends at .*; 'mqregistry pipeline run --once' brings it up to date"):
        value(lake, T0 + 6001)
    with pytest.raises(LakeError, match="the namespace was created again then, and its next past begins at"):
        value(lake, T0 + 201)


def test_the_newest_heartbeat_tells_how_long_nothing_changed(lake):
    begin(lake, "e", T0)
    fill(lake, "e", [event(1, T0)])
    write_rows(lake, "heartbeats", "default", "e", 0, [(T0 + 900, 0, T0 + 900, "{}")])
    assert value(lake, T0 + 900) == "1"
    with pytest.raises(LakeError, match="after the end"):
        value(lake, T0 + 901)


def test_who_read_the_stream_to_its_end_knows_that_nothing_changed(lake):
    begin(lake, "e", T0)
    fill(lake, "e", [event(1, T0)])
    silver.observe(lake, "default", "e", 1, T0 + 60)
    silver.observe(lake, "default", "e", 1, T0 + 70)
    assert value(lake, T0 + 70) == "1"
    fill(lake, "e", [event(2, T0 + 75)], number=1)
    assert [value(lake, T0 + ms) for ms in (74, 75)] == ["1", "2"]
    with pytest.raises(LakeError, match="after the end"):
        value(lake, T0 + 76)


def test_an_empty_lake_and_another_namespace_are_told_apart(lake, tmp_path):
    with pytest.raises(LakeError, match="holds no past of namespace 'default'; it is empty: is it another --lake"):
        value(Lake(str(tmp_path / "nothing")), T0)
    begin(lake, "e", T0, namespace="ours")
    fill(lake, "e", [event(1, T0)], namespace="ours")
    with pytest.raises(LakeError, match="it holds ours: is it another --namespace"):
        value(lake, T0)


def test_moments_never_run_backwards(lake):
    begin(lake, "e", T0)
    moments = [0, 500, 100, 499, 500, 501, 50, 502]  # the clock is set back twice
    fill(lake, "e", [event(seq, T0 + ms) for seq, ms in enumerate(moments, 1)])
    fill(lake, "e", [event(9, T0 + 10), event(10, T0 + 600)], number=1)
    said = [value(lake, T0 + ms) for ms in (0, 499, 500, 501, 502, 599, 600)]
    assert said == ["1", "1", "5", "7", "9", "9", "10"]
    rows = travel.find_past(lake, "default", T0).rows("kv", T0 + 500)
    assert [row[5] for row in rows] == [5]


def test_a_hole_is_an_error_that_names_both_seqs_and_a_snapshot_goes_on(lake):
    begin(lake, "e", T0)
    write_bronze(lake, "default", "e", 0, [event(1, T0), event(2, T0 + 10)])
    write_bronze(lake, "default", "e", 1, [event(6, T0 + 90), event(7, T0 + 100)])
    with pytest.raises(LakeError, match="holds change 2 and then change 6: changes 3 to 5 are missing"):
        silver.advance(None, lake, "default", "e")
    assert value(lake, T0 + 10) == "2"
    with pytest.raises(LakeError, match="after the end"):
        value(lake, T0 + 11)
    events = [
        event(5, T0 + 80, kv_namespace="n", key="k", value="5", part=1, parts=2),
        event(5, T0 + 80, kv_namespace="n", key="other", value="x", part=2, parts=2),
    ]
    rows = [(0, part, 5, T0 + 80, "kv_put", part, 2, e) for part, (_, e) in enumerate(events, 1)]
    schema = BRONZE["changes"]
    arrays = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
    file = write_file(lake, "snapshot", pa.Table.from_arrays(arrays, schema=schema), owner("default", "e"))
    lake.table("snapshot").commit([file], "snapshot/default/e", 5, repeat=True)
    begin(lake, "e", T0 + 80, seq=5, rows=2)
    assert silver.advance(None, lake, "default", "e")
    assert [value(lake, T0 + ms) for ms in (10, 80, 90, 100)] == ["2", "5", "6", "7"]
    with pytest.raises(LakeError, match=r"what held at .* is not known: changes between .* were lost"):
        value(lake, T0 + 50)
    ended = travel.find_past(lake, "default", T0).rows("kv", T0)
    assert [(row[2], row[-3]) for row in ended] == [("1", "kv_put")]
    ended = travel.find_past(lake, "default", T0 + 10).rows("kv", T0 + 10)
    assert [(row[2], row[-3]) for row in ended] == [("2", "snapshot")]


def test_half_a_set_of_parts_waits_for_the_rest(lake):
    begin(lake, "e", T0)
    first, second = (event(seq, T0, kv_namespace="n", key=str(seq), value="v", part=seq, parts=2) for seq in (1, 2))
    write_bronze(lake, "default", "e", 0, [first])
    silver.advance(None, lake, "default", "e")
    assert value(lake, T0) is None
    assert not silver.advance(None, lake, "default", "e")
    write_bronze(lake, "default", "e", 1, [second])
    assert silver.advance(None, lake, "default", "e")
    assert travel.find_past(lake, "default", T0).tables(T0).kv == {"n": {"1": "v", "2": "v"}}


def test_an_event_of_an_unknown_type_is_passed_over_only_if_it_says_so(lake):
    begin(lake, "e", T0)
    fill(lake, "e", [event(1, T0), event(2, T0, "broker_graded", ignorable=True), event(3, T0)])
    assert value(lake, T0) == "3"
    write_bronze(lake, "default", "e", 1, [event(4, T0, "broker_moved")])
    with pytest.raises(LakeError, match=r"event 4 is a 'broker_moved'.*a newer release wrote it"):
        silver.advance(None, lake, "default", "e")


def test_many_small_batches_become_few_files(lake):
    begin(lake, "e", T0)
    for number in range(70):
        fill(lake, "e", [event(number + 1, T0 + number)], number=number)
    assert [value(lake, T0 + ms) for ms in range(70)] == [str(ms + 1) for ms in range(70)]
    assert len(load(lake, "default", "e").of("kv")) == 70
    maintain(lake)
    assert len(load(lake, "default", "e").of("kv")) == 2, "of rows that ended, and of the one that holds"
    assert len(lake.table("bronze/changes").files()) == 1
    assert [value(lake, T0 + ms) for ms in range(70)] == [str(ms + 1) for ms in range(70)]
    fill(lake, "e", [event(71, T0 + 70)], number=70)
    assert [value(lake, T0 + ms) for ms in range(71)] == [str(ms + 1) for ms in range(71)]


@pytest.mark.parametrize("quoted", [False, True])
def test_the_commands_show_what_they_showed_live(store, bed, run, lake, command, redis_url, quoted):  # noqa: F811
    run(bed.register(zone_name="z1", filter_servers=["f:1"]))
    run(bed.kv.set_config({"orderMessageEnable": "true"}))
    run(bed.kv.put("ORDER_TOPIC_CONFIG", "t1", "broker-a:8"))
    options = ("--json",) if quoted else ()
    live = ("--redis", redis_url, "--namespace", store.namespace, *options)
    past = ("--lake", lake.root, "--namespace", store.namespace, *options)
    route, brokers, tables = (command(*what, *live).output for what in (("route", "t1"), ("brokers",), ("tables",)))
    epoch = run(snapshot.take_async(redis_url, store.namespace, lake)).epoch
    found = run(entries(store))
    write_bronze(lake, store.namespace, epoch, 0, found)
    beats = run(store.client.xrange(bed.key("heartbeats")))
    rows = [(*map(int, i.decode().split("-")), json.loads(f[b"e"])["ms"], f[b"e"].decode()) for i, f in beats]
    write_rows(lake, "heartbeats", store.namespace, epoch, 0, rows)
    silver.advance(None, lake, store.namespace, epoch)
    at = iso(load(lake, store.namespace, epoch).content.ms)
    then = command("route", "t1", "--at", at, *past).output
    if quoted:
        assert then == route
    else:
        assert then.startswith(route)
        assert re.fullmatch(r"broker-a is so since .*, by \w+ \(direct\) on \S+/\d+\n", then.removeprefix(route))
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
    assert "before the past that the lake knows" in str(error.exception)
    assert "give one of them" in command("route", "t1", "--at", at, *live, expect=2).output


def heartbeats(lake, beats):
    """(seconds after T0, front end) of the process c|a:1, as one batch of epoch e."""
    rows = []
    for seconds, front_end in sorted(beats):
        ms = T0 + seconds * 1000
        entry = {"ms": ms, "who": "c|a:1", "front_end": front_end, "kind": "same"}
        rows.append((ms, len(rows), ms, json.dumps(entry)))
    write_rows(lake, "heartbeats", "default", "e", 0, rows)


def test_a_front_end_that_had_ended_is_not_counted(lake):
    begin(lake, "e", T0)
    live = {"timeout_ms": 120_000, "counter": 1, "timestamp": 1, "state_version": 0}
    row = {"cluster": "c", "addrs": {"0": "a:1"}}
    fill(lake, "e", [event(1, T0, "broker_registered", who="c|a:1", cluster="c", addr="a:1", broker_name="x",
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
    begin(lake, "e", T0, compat="4.8")
    live = {"timeout_ms": 1, "counter": 1, "timestamp": 1, "state_version": 0}
    of_a = {"who": "|a:1", "cluster": "c", "addr": "a:1"}

    def row(addr):
        return {"cluster": "c", "addrs": {"0": addr}}

    events = [
        event(1, T0, "broker_registered", broker_name="x", broker_id=0, live=live, row=row("a:1"), **of_a),
        event(2, T0 + 1, "broker_registered", broker_name="x", row=row("b:1")),  # another address has taken the id
        event(3, T0 + 2, "broker_unregistered", broker_name="y", **of_a),
    ]
    fill(lake, "e", events)
    past = travel.find_past(lake, "default", T0)
    assert [list(past.lives(T0 + ms)) for ms in (0, 1, 2)] == [["|a:1"], ["|a:1"], []]
