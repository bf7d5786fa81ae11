"""One table of metrics: in the code, in the documentation, in what is exported, in what workers count."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mqregistry.server.counting.counters import Counters
from mqregistry.server.process.figures.metrics_table import OF_PIPELINE
from mqregistry.server.process.metrics import METRICS, PREFIX, SILENT_S, FrontEndWorkers, Status, exposition
from mqregistry.server.process.stream_metrics import stream_series
from mqregistry.store.streams import Alarm, ReaderPosition, StreamReader, StreamState, Survey

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def exported(fleet):
    page, _ = exposition(fleet, "text/plain")
    return {family.name: family for family in text_string_to_metric_families(page.decode())}


def test_exported_is_what_the_table_says():
    families = exported(FrontEndWorkers(1))
    shown = {name: metric for name, metric in METRICS.items() if name not in OF_PIPELINE}
    assert {name for name in families} == {PREFIX + name.removesuffix("_total") for name in shown}
    for name, metric in shown.items():
        family = families[PREFIX + name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.kind, metric.help)


def test_document_is_the_table():
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (?:`([\w,]+)`)? ?\| (.*) \|$", DOCUMENT.read_text(), re.M)
    expected = [(PREFIX + name, metric.kind, metric.label, metric.help) for name, metric in METRICS.items()]
    assert [(name, kind, label, text) for name, kind, label, text in rows] == expected


def test_everything_that_a_worker_counts_is_in_the_table():
    for series in Counters().report():
        assert re.findall(r'(\w+)="', series) == METRICS[series.partition("{")[0]].labels


def test_streams_and_their_readers_are_shown_as_long_as_somebody_can_see_them():
    fleet = FrontEndWorkers(1)
    reader = StreamReader(
        seen_ms=1_000,
        positions={"changes": ReaderPosition("5-0", 3, 300, 2500), "lookups": ReaderPosition("1-0", state="lost")},
    )
    streams = {"changes": StreamState(7, 700, "1-0", "9-0"), "heartbeats": StreamState(4, -1, "1-0", "9-0")}
    fleet.show("streams", stream_series(Survey(11_000, streams, {"spark": reader})))
    fleet.sweeps.alarmed(Alarm("lost", "lookups", "spark"))
    fleet.sweeps.alarmed(Alarm("lost", "changes", "other"))
    samples = {
        (sample.name.removeprefix(PREFIX), *sample.labels.values()): sample.value
        for family in exported(fleet).values()
        for sample in family.samples
        if sample.name.startswith(PREFIX + "stream_")
    }
    assert samples == {
        ("stream_entries", "changes"): 7, ("stream_entries", "heartbeats"): 4, ("stream_bytes", "changes"): 700,
        ("stream_reader_behind", "spark", "changes"): 3, ("stream_reader_behind", "spark", "lookups"): 0,
        ("stream_reader_behind_seconds", "spark", "changes"): 2.5,
        ("stream_reader_behind_seconds", "spark", "lookups"): 0,
        ("stream_reader_lost", "spark", "changes"): 0, ("stream_reader_lost", "spark", "lookups"): 1,
        ("stream_reader_silent_seconds", "spark"): 10, ("stream_alarms_total", "lost"): 2,
    }  # fmt: skip
    fleet.show("streams", ())
    assert not any(family.samples for name, family in exported(fleet).items() if "stream_reader" in name)


def test_fleet_sums_counters_over_workers_and_their_lives():
    fleet = FrontEndWorkers(2)
    counters = {'lookups_total{result="found"}': 3, "view_rebuilds_total": 1}
    for index in range(2):
        fleet.told(index, Status(ready=True, counters=counters))
    fleet.gone(0)
    fleet.told(0, Status(ready=True, counters={'lookups_total{result="found"}': 1}))
    values = {(series.name, series.label_value): series.value for series in fleet.series()}
    assert values["lookups_total", "found"] == 7
    assert values["view_rebuilds_total", ""] == 2


def test_fleet_gauges_take_the_worst_or_the_sum():
    fleet = FrontEndWorkers(2)
    first = {"view_seq": 5, "view_lag_seconds": 0.01, "connections": 2, "view_stale": 1, "brokers_alive": 4, "grace": 1}
    second = {"view_seq": 7, "view_lag_seconds": 0.25, "connections": 3, "brokers_alive": 5}
    fleet.told(0, Status(ready=True, gauges=first))
    fleet.told(1, Status(ready=True, gauges=second, redis_away=True))
    values = {series.name: series.value for series in fleet.series()}
    assert values["view_seq"] == 5
    assert values["view_lag_seconds"] == pytest.approx(0.25)
    assert values["connections"] == 5
    assert (values["view_stale"], values["redis_away"], values["leases"], values["grace"]) == (1, 1, 1, 1)
    assert values["brokers_alive"] == 5


def test_fleet_redis_away_is_ready_all_the_same():
    fleet = FrontEndWorkers(1)
    fleet.told(0, Status(ready=True, redis_away=True))
    assert fleet.not_ready() == []


def test_fleet_silent_draining_or_missing_worker_is_not_ready():
    clock = Clock()
    fleet = FrontEndWorkers(3, clock=clock)
    fleet.told(0, Status(ready=True))
    clock.now += SILENT_S + 1
    fleet.told(1, Status(ready=True, draining=True))
    assert fleet.not_ready() == ["worker 1 has been silent for 6 s", "worker 2 is draining", "worker 3 is not up"]
    fleet.draining = True
    assert fleet.not_ready() == ["draining"]
