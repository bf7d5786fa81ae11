"""What if: against a replay at every instant at which anything changed, and what the command says."""

from __future__ import annotations

import itertools
import random

import pytest

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

from pyspark.sql import SparkSession

from mqregistry.pipeline.lake.lake import Lake, LakeError
from mqregistry.pipeline.past.travel import all_pasts
from mqregistry.pipeline.what_if.ask import Topic, ask, check, span
from tests.cli.conftest import command, env, home  # noqa: F401 - fixtures
from tests.pipeline.gold_lake import HOUR, NOON, Written, queue

END = NOON + 20 * HOUR
HOLE = NOON + 9 * HOUR, NOON + 10 * HOUR
ZONES = {"a": "z1", "b": "z2", "c": None, "d": "z1"}


def lives(chance, most):
    """Some stretches of time that follow each other."""
    at, found = NOON + chance.randrange(HOUR), []
    for _ in range(most):
        until = at + chance.randrange(1, 6 * HOUR)
        found.append((at, until if until < END else None))
        at = until + chance.choice([0, 1, HOUR])
        if found[-1][1] is None or at >= END:
            break
    return found


def random_past(seed):
    """Rows of four brokers, of which each may have a master and a slave, and of three topics; and lookups."""
    chance, addrs, rows, queues, lookups = random.Random(seed), [], [], [], []
    for name, zone in ZONES.items():
        rows.append(
            {"broker_name": name, "cluster": f"c{'ab'.find(name) + 2}", "zone": zone, "from_ms": NOON, "to_ms": None}
        )
        for broker_id in (0, 1):
            for start, end in lives(chance, 4):
                host = chance.choice(["h1", "h2", "h3"])
                addrs.append({"broker_name": name, "broker_id": broker_id, "cluster": rows[-1]["cluster"],
                              "addr": f"{host}:{broker_id}", "from_ms": start, "to_ms": end})  # fmt: skip
        for topic in ("t1", "t2", "t3"):
            for start, end in lives(chance, 3):
                perm, nums = chance.choice([6, 6, 4]), chance.choice([0, 8, 8])
                queues.append(queue(topic, name, start, end, perm=perm, nums=nums))
    for _ in range(200):
        found = {topic: chance.randrange(1, 9) for topic in ("t1", "t2", "t3")}
        lookups.append(
            {"ms": chance.randrange(NOON, END), "front_end": "f1", "since_ms": NOON, "found": found, "missing": {}}
        )
    return addrs, rows, queues, sorted(lookups, key=lambda entry: entry["ms"])


def holds(row, ms):
    return row["from_ms"] <= ms and (row["to_ms"] is None or ms < row["to_ms"])


def at_instant(past, ms, is_lost):
    """Topic -> (has a route, a master, a queue, keeps a route, a master, a queue)."""
    addrs, _, queues, _ = past
    found = {}
    for row in queues:
        if not holds(row, ms):
            continue
        here = [addr for addr in addrs if addr["broker_name"] == row["broker_name"] and holds(addr, ms)]
        takes = bool(row["perm"] & 2) and row["write_queue_nums"] > 0
        flags = []
        for kept in (here, [addr for addr in here if not is_lost(addr)]):
            has_master = any(addr["broker_id"] == 0 for addr in kept)
            flags += [bool(kept), has_master, has_master and takes]
        before = found.get(row["topic"], [False] * 6)
        found[row["topic"]] = [one or other for one, other in zip(before, flags, strict=True)]
    return {topic: flags for topic, flags in found.items() if flags[0]}


def replayed(past, since, until, is_lost):
    """What the answer must be."""
    marks = {since, until, *HOLE}
    for rows in past[:3]:
        marks |= {row[name] for row in rows for name in ("from_ms", "to_ms") if row[name] is not None}
    topics = {}
    for start, end in itertools.pairwise(sorted(mark for mark in marks if since <= mark <= until)):
        if HOLE[0] <= start < HOLE[1]:
            continue
        for topic, (route, master, queues, keeps_route, keeps_master, keeps_queue) in at_instant(
            past, start, is_lost
        ).items():
            of = topics.setdefault(topic, [0, 0, 0, 0, None, 0, 0])
            of[0] += end - start
            of[1] += (end - start) * (queues and not keeps_queue)
            of[2] += (end - start) * (master and not keeps_master)
            of[3] += (end - start) * (route and not keeps_route)
            if queues and not keeps_queue and of[4] is None:
                of[4] = start
            for entry in past[3]:
                if start <= entry["ms"] < end:
                    of[5] += entry["found"][topic]
                    of[6] += entry["found"][topic] * (not keeps_route)
    return {Topic(topic, *of) for topic, of in topics.items()}


@pytest.fixture
def written(tmp_path):
    def write(past):
        written = Written(Lake(str(tmp_path)))
        addrs, rows, queues, lookups = past
        written.silver(
            0, seq=1000, ms=END, begin_ms=NOON, gaps=[("changes", *HOLE)], broker_addr=addrs, broker_row=rows,
            queue_data=queues,
        )  # fmt: skip
        written.bronze("lookups", lookups)
        [found] = all_pasts(written.lake, "default")
        return found

    return write


LOSSES = {
    "broker": (["a", "c"], lambda addr: addr["broker_name"] in ("a", "c")),
    "host": (["h1"], lambda addr: addr["addr"].startswith("h1:")),
    "zone": (["z1"], lambda addr: ZONES[addr["broker_name"]] == "z1"),
    "cluster": (["c1"], lambda addr: addr["cluster"] == "c1"),
}


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_answer_is_that_of_a_replay_at_every_instant(written):
    past = random_past(5)
    known, spark = written(past), SparkSession.builder.getOrCreate()
    for (kind, (names, is_lost)), (since, until) in zip(
        LOSSES.items(), [(NOON, END), (NOON, END), (NOON + 3 * HOUR, NOON + 15 * HOUR), (NOON, END)], strict=True
    ):
        answer = ask(spark, known.lake, known, kind, names, (since, until))
        assert {*answer.topics} == replayed(past, since, until, is_lost), kind
        assert answer.lost, kind
    # at instants, of which some are those of changes
    chance, [*edges] = random.Random(5), sorted({row["from_ms"] for row in past[0]})
    for ms in (chance.choice(edges), chance.randrange(NOON + HOUR, HOLE[0])):
        answer = ask(spark, known.lake, known, "zone", ["z1"], span(known, ms, None, None))
        expected = at_instant(past, ms, LOSSES["zone"][1])
        assert {topic.topic for topic in answer.topics} == {*expected}
        assert {topic.topic for topic in answer.topics if topic.no_queue_ms} == {
            topic for topic, flags in expected.items() if flags[2] and not flags[5]
        }


def test_what_the_lake_does_not_know_is_refused_before_spark_starts(written, command):  # noqa: F811
    known = written(random_past(1))
    with pytest.raises(LakeError, match="knows no zone 'z9' of namespace 'default'; it knows z1, z2"):
        check(known, "zone", ["z9"])
    for kind, (names, _) in LOSSES.items():
        check(known, kind, names)
    done = command("pipeline", "what-if", "--lose", "rack=1", "--lake", known.lake.root, expect=2)
    assert "expected zone=NAME, cluster=NAME, host=HOST or broker=NAME,NAME" in done.output
    done = command("pipeline", "what-if", "--lose", "broker=nobody", "--lake", known.lake.root, expect=1)
    assert "the lake knows no broker 'nobody'" in str(done.exception)
