"""A cluster's day through the whole pipeline: over the wire, into Redis, onto Spark; every figure is the simulator's.

Two front ends share a Redis whose clock passes midnight in the middle of the day, so that hours and days are cut there.
Then both are killed while most brokers are registered: the tables stand still, and the audit compares them.

A past of 26 hours that ``simulate --past`` writes is compared in the same way.

MQREGISTRY_DAY_SEED=7 plays another day, MQREGISTRY_DAY_MS=60000 a longer one.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import shutil
import time
from datetime import UTC, datetime

import pytest

from mqregistry.config.settings import Settings
from mqregistry.pipeline.lake.lake import Lake
from mqregistry.simulate.day import DayShape
from mqregistry.simulate.past import PastDay
from mqregistry.simulate.plan import make_plan
from mqregistry.simulate.run import Simulation
from mqregistry.store import keys
from mqregistry.store.store import Store
from mqregistry.worker.sweeper import Sweeper
from tests.server.harness import FrontEnd
from tests.simulate_oracle.day import Truth, play

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

pytestmark = [pytest.mark.timeout(900), pytest.mark.spark, pytest.mark.long]

NAMESPACE = "simulated-day"
DAY_MS = 24 * 3_600_000
FLAP_MS = 600  # about half of the absences of this day
SHAPE = DayShape(
    seed=int(os.environ.get("MQREGISTRY_DAY_SEED", "1")), duration_ms=int(os.environ.get("MQREGISTRY_DAY_MS", "14000")),
    servers=2, brokers=8, topics=40, clients=10, goodbye=False,
)  # fmt: skip
KEYS = {
    "broker": ("cluster", "broker_name"),
    "heartbeat": ("who",),
    "topic": ("topic",),
    "cluster": ("cluster",),
    "unused_topic": ("topic",),
    "missing_topic": ("topic",),
}


async def pass_midnight(store: Store, within_ms: int) -> None:
    """Move the registry's clock back, to shortly before a midnight."""
    now_ms = int(time.time() * 1000)
    offset_ms = now_ms // DAY_MS * DAY_MS - within_ms - now_ms
    await store.client.hset(keys.meta(store.namespace), "clock_offset_ms", offset_ms)


async def a_day(redis_url: str) -> Truth:
    """Play one; at its end the front ends are killed."""
    with contextlib.ExitStack() as running:
        async with Store(redis_url, NAMESPACE) as store:
            await store.init_namespace()
            await pass_midnight(store, SHAPE.duration_ms // 2 + 60_000)
            front_ends = [FrontEnd(redis_url, NAMESPACE, lookup_counts_interval_ms=500) for _ in range(2)]
            for front_end in front_ends:
                running.callback(front_end.close)
            await pass_midnight(store, SHAPE.duration_ms // 2)
            stop = asyncio.Event()
            sweeping = asyncio.create_task(Sweeper(store, Settings()).run(stop))

            async def stand_still() -> None:
                stop.set()
                await sweeping
                running.close()

            simulation = Simulation(make_plan(SHAPE), [("127.0.0.1", front_end.port) for front_end in front_ends])
            day = await play(
                simulation, asyncio.Event(), redis=(redis_url, NAMESPACE), flap_ms=FLAP_MS, before_leaving=stand_still
            )
    assert day.outcome.faults == []
    assert day.truth is not None
    assert day.truth.differences == []
    return day.truth


@pytest.fixture(scope="module")
def truth(redis_url):
    return asyncio.run(a_day(redis_url))


@pytest.fixture(scope="module")
def recorded(spark, redis_url, truth, tmp_path_factory):
    """A lake with bronze and silver."""
    from mqregistry.pipeline import namespace
    from mqregistry.pipeline.namespace import RunSettings as Wanted
    from mqregistry.pipeline.run import run

    lake = Lake(str(tmp_path_factory.mktemp("lake")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(namespace, "refresh", lambda *_, **__: False)
        run(spark, lake, Wanted(redis_url, [NAMESPACE]), once=True)
    return lake


@pytest.fixture
def lake(recorded, tmp_path):
    """A copy of it."""
    shutil.copytree(recorded.root, tmp_path / "lake")
    return Lake(str(tmp_path / "lake"))


def plain(row: dict) -> dict:
    """Moments as milliseconds."""
    return {
        name: round(value.astimezone(UTC).timestamp() * 1000) if isinstance(value, datetime) else value
        for name, value in row.items()
    }


def differences(lake: Lake, truth: Truth) -> list[str]:
    """Between gold and the simulator's figures, in all tables."""
    from mqregistry.pipeline.gold import read

    wrong = []
    for table, names in KEYS.items():
        key = ("grain", "period_start", *names)
        expected = {tuple(row[name] for name in key): row for row in truth.figures[table]}
        rows = [plain(row) for row in read(lake, table, truth.namespace, truth.epoch).to_pylist()]
        found = {tuple(row[name] for name in key): row for row in rows}
        assert len(rows) == len(found)
        wrong += [f"{table}: {place} is only the simulator's" for place in expected.keys() - found.keys()]
        wrong += [f"{table}: {place} is only gold's" for place in found.keys() - expected.keys()]
        for place in expected.keys() & found.keys():
            assert expected[place].keys() == found[place].keys()
            wrong += [
                f"{table}: {place} {name} is {found[place][name]}, expected {value}"
                for name, value in expected[place].items()
                if not same(found[place][name], value)
            ]
    return wrong


def same(here: object, there: object) -> bool:
    """Whole numbers exactly; quotients as far as floating point goes."""
    if isinstance(here, float) and isinstance(there, float):
        return math.isclose(here, there, rel_tol=1e-12)
    return here == there


def test_the_day_has_something_of_everything(truth):
    """Or the comparison would be one of empty tables."""
    figures = truth.figures
    for table in KEYS:
        assert len({(row["grain"], row["period_start"]) for row in figures[table]}) == 4, table
    days = [row for row in figures["broker"] if row["grain"] == "day"]
    for column in ("outages", "recoveries", "flaps", "unwritable_spells", "write_recoveries", "registrations", "closes",
                   "expiries", "unregistrations"):  # fmt: skip
        assert sum(row[column] for row in days) > 0, column
    assert sum(row["flaps"] for row in days) < sum(row["recoveries"] for row in days)
    assert any(0 < row["writable_ms"] < row["present_ms"] < row["observed_ms"] for row in days)
    assert any(row["missed_beats"] for row in figures["heartbeat"])
    assert any(row["queue_cv"] for row in figures["topic"])
    assert any(row["queue_cv"] for row in figures["cluster"])
    assert any(0 < row["writable_ms"] < row["routable_ms"] for row in figures["topic"])


def test_gold_figures_are_those_of_the_simulator(spark, truth, lake):
    from mqregistry.pipeline.gold.refresh import refresh

    assert refresh(spark, lake, truth.namespace, truth.epoch, flap_ms=FLAP_MS)
    assert differences(lake, truth) == []


def test_gold_that_is_refreshed_often_is_the_same(spark, truth, lake):
    from mqregistry.pipeline.gold.refresh import refresh

    since_ms = None
    for now_ms in (truth.end_ms - SHAPE.duration_ms * 2 // 3, truth.end_ms - SHAPE.duration_ms // 3, truth.end_ms):
        refresh(spark, lake, truth.namespace, truth.epoch, flap_ms=FLAP_MS, now_ms=now_ms, since_ms=since_ms)
        since_ms = now_ms
    assert differences(lake, truth) == []


def test_audit_finds_no_difference(spark, truth, lake, redis_url):
    from mqregistry.pipeline.past.audit import audit

    found = audit(spark, redis_url, truth.namespace, lake)
    assert found.ok, found
    assert found.cells > 50


async def write_past(redis_url: str, namespace: str) -> tuple[Truth, int]:
    """The truth, and when it was asked for."""
    shape = DayShape.past(
        26 * 3_600_000, seed=SHAPE.seed, brokers=4, topics=12, beat_ms=600_000, timeout_ms=2_400_000,
        lookups_per_s=0.005, incidents=8.0,
    )  # fmt: skip
    async with Store(redis_url, namespace) as store:
        await store.connect()
        seconds, us = await store.client.time()
        day = await play(PastDay(make_plan(shape), store), asyncio.Event(), redis=(redis_url, namespace))
    assert day.outcome.faults == []
    assert day.truth is not None
    assert day.truth.differences == []
    return day.truth, seconds * 1000 + us // 1000


@pytest.fixture(scope="module")
def past(spark, redis_url, tmp_path_factory):
    """A lake of it, the truth, and when it was asked for."""
    from mqregistry.pipeline.namespace import RunSettings as Wanted
    from mqregistry.pipeline.run import run

    truth, asked_ms = asyncio.run(write_past(redis_url, "simulated-past"))
    lake = Lake(str(tmp_path_factory.mktemp("past")))
    run(spark, lake, Wanted(redis_url, ["simulated-past"]), once=True)
    return lake, truth, asked_ms


def test_a_past_that_is_written_has_the_stamps_of_its_hours(spark, past, redis_url):
    from mqregistry.pipeline.past.audit import audit

    lake, truth, asked_ms = past
    assert 0 <= asked_ms - truth.end_ms < 1_200_000
    hours = {row["period_start"] for row in truth.figures["broker"] if row["grain"] == "hour"}
    assert len(hours) in (26, 27)
    assert asked_ms - min(hours) < 27 * 3_600_000
    assert differences(lake, truth) == []
    found = audit(spark, redis_url, truth.namespace, lake)
    assert found.ok, found
    assert found.cells > 20
    assert found.figures > 26 * 4
    assert found.entries["heartbeats"] > 26 * 4


@pytest.mark.parametrize(
    ("table", "name", "columns"),
    [
        ("broker", "broker_name", ("observed_ms", "present_ms", "writable_ms")),
        ("heartbeat", "who", ("beats", "refused")),
        ("topic", "topic", ("lookups",)),
    ],
)
def test_minutes_make_up_the_hours_of_a_past(past, table, name, columns):
    pytest.importorskip("duckdb")
    from mqregistry.pipeline.sql.door import Door

    lake, truth, _ = past
    sums = ", ".join(f"sum({column})::BIGINT" for column in columns)
    kept = f" WHERE {columns[0]} > 0"  # minutes have only rows in which there was something
    minutes = "lookups_by_minute" if table == "topic" else f"{table}_by_minute"
    by_minute, by_hour = (
        Door(lake, truth.namespace).answer(query).to_pylist() for query in (
            f"SELECT epoch_ms(time_bucket(INTERVAL 1 HOUR, period_start)) AS h, {name}, {sums} FROM {minutes} "
            f"WHERE period_start < make_timestamptz({truth.end_ms} * 1000) GROUP BY ALL ORDER BY ALL",
            f"SELECT epoch_ms(period_start) AS h, {name}, {', '.join(columns)} FROM {table}_by_hour{kept} ORDER BY ALL",
        )
    )  # fmt: skip
    by_minute, by_hour = ([tuple(row.values()) for row in rows if row] for rows in (by_minute, by_hour))
    assert [row for row in by_minute if row[2]] == by_hour
    assert len(by_hour) > 26


def test_figures_of_the_last_hour_are_metrics(past):
    from mqregistry.pipeline.gold import last_hour

    lake, truth, _ = past
    hour_ms = truth.end_ms // 3_600_000 * 3_600_000 - 3_600_000
    rows, beats = ([row for row in truth.figures[table] if (row["grain"], row["period_start"]) == ("hour", hour_ms)]
                   for table in ("broker", "heartbeat"))  # fmt: skip
    found = last_hour(lake, truth.namespace, truth.epoch)
    assert {*found["pipeline_availability"]} == {row["cluster"] for row in rows} == {"sim-a", "sim-b"}
    for cluster, share in found["pipeline_write_availability"].items():
        of_it = [row for row in rows if row["cluster"] == cluster]
        assert share == sum(row["writable_ms"] for row in of_it) / sum(row["observed_ms"] for row in of_it)
        assert found["pipeline_outages"][cluster] == sum(row["outages"] for row in of_it)
        missed = sum(row["missed_beats"] for row in beats if row["who"].startswith(f"{cluster}|"))
        assert found["pipeline_missed_beats"][cluster] == missed
