"""What a worker, Redis and a sweeper by itself show at /metrics beside the counters."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from mqregistry.model import BrokerRow, QueueData
from mqregistry.server.process.figures import sweeper_status
from mqregistry.server.process.figures.metrics_table import OF_PIPELINE
from mqregistry.server.process.figures.pipeline_status import PipelineStatus
from mqregistry.server.process.figures.sweeper_status import SweeperStatus
from mqregistry.server.process.figures.worker_figures import UnwritableTopics, process_figures, roles
from mqregistry.server.process.http import HttpServer
from mqregistry.server.process.metrics import exposition
from mqregistry.store.store import CallTimes
from mqregistry.tables.tables import Tables

from .harness import Broker, wait_until
from .serving import Metrics, Serving, free_ports, get


def test_brokers_are_counted_by_cluster_and_role():
    brokers = {
        "a": BrokerRow("c1", {0: "a:1", 1: "a:2"}),
        "b": BrokerRow("c1", {2: "b:1"}),
        "c": BrokerRow("c2", {0: "c"}),
    }
    assert roles(brokers) == (
        [("c1", "master", 1), ("c1", "slave", 2), ("c2", "master", 1), ("c2", "slave", 0)], 1,
    )  # fmt: skip


def test_clusters_beyond_a_hundred_count_as_other():
    found, _ = roles({str(i): BrokerRow(f"c{i:03}", {0: "a:1"}) for i in range(150)})
    clusters = {cluster for cluster, _, _ in found}
    assert len(clusters) == 101
    assert sum(number for cluster, _, number in found if cluster == "other") == 50


@pytest.mark.parametrize(
    ("data", "addrs", "unwritable"),
    [
        (QueueData(4, 4, 6), {0: "a:1"}, 0),
        (QueueData(4, 4, 4), {0: "a:1"}, 1),
        (QueueData(4, 0, 6), {0: "a:1"}, 1),
        (QueueData(4, 4, 6), {1: "a:1"}, 1),
    ],
)
async def test_a_topic_is_unwritable_without_permission_queues_or_master(data, addrs, unwritable):
    tables = Tables()
    tables.brokers["a"] = BrokerRow("c", addrs)
    for number in range(1100):
        tables.set_queue_data(f"t{number}", "a", data)
    counts = UnwritableTopics(lambda: tables)
    await counts.count()
    assert counts.number == unwritable * 1100


def test_a_process_knows_its_time_and_memory():
    figures = process_figures()
    assert figures["cpu_s"] > 0
    assert figures["memory_bytes"] > 1_000_000


def test_a_front_end_shows_changes_brokers_redis_and_the_fleet(tmp_path, redis_url):
    with contextlib.closing(Serving(tmp_path, redis_url, broker_metrics=1, log_format="json")) as serve:
        with contextlib.closing(serve.client()) as client:
            assert client.register(Broker(topics=["t1", "t2"])).code == 0
            wanted = {"changes_total{broker_registered}": 1.0, "sweepers": 1.0, "front_ends{ready}": 1.0}
            serve.wait_until(lambda: serve.metrics().items() >= wanted.items(), "it shows them")
            found = serve.metrics()
            (cluster,) = {key[8:].partition(",")[0] for key in found if key.startswith("brokers{")}
            assert (found[f"brokers{{{cluster},master}}"], found["broker_names_without_master"]) == (1, 0)
            assert found["redis_memory_bytes"] > 100_000
            assert found["process_resident_memory_bytes{1}"] > 1_000_000
            assert found["last_sweep_seconds"] > found["start_time_seconds"] - 1
        told = [json.loads(line) for line in serve.log.splitlines() if line.startswith("{")]
        assert {"supervisor", "worker 1"} <= {line["part"] for line in told}
        assert all(line.keys() >= {"time", "level", "message"} for line in told)
        peers = [line["message"] for line in told if "new broker" in line["message"]]
        assert all("by anonymous from 127.0.0.1:" in line for line in peers)


def test_a_sweeper_by_itself_shows_its_part(redis_url, namespace, store):
    (port,) = free_ports(1)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MQREGISTRY_")}
    command = [sys.executable, "-m", "mqregistry", "sweep", "--redis", redis_url, "--namespace", namespace,
               "--host", "127.0.0.1", "--metrics-port", str(port)]  # fmt: skip
    process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:

        def answers():
            with contextlib.suppress(OSError):
                return get(port, "/readyz").status == 200
            return False

        wait_until(answers, "it has swept")
        page = get(port, "/metrics").body.decode()
        found = Metrics(page)
        assert found["last_sweep_seconds"] > 0
        assert found["brokers_expired_total"] == 0
        assert "mqregistry_topics" not in page
        assert found["sweep_seconds_count"] > 0
        assert found["sweep_failures_total"] == 0
        assert found["script_seconds_count{reap_worker}"] > 0
        assert found["redis_failures_total{away}"] == 0
    finally:
        process.terminate()
        assert process.wait(60) == 0


def test_a_sweeper_counts_the_passes_that_fail():
    status = SweeperStatus(CallTimes())
    status.passed(0.01, True)
    status.passed(2.0, False)
    found = {series.name: series for series in status.series()}
    assert found["sweep_failures_total"].value == 1
    assert (sum(found["sweep_seconds"].counts), found["sweep_seconds"].value) == (2, pytest.approx(2.01))


def test_a_pipeline_shows_its_part_and_no_more():
    status = PipelineStatus()
    assert status.not_ready() == ["no round has gone through yet"]
    status.behind("changes", 12.5, "default")
    status.behind("changes", 2.5, "other")
    status.took("changes", 100, 2)
    status.took("changes", 10, 0)
    status.round_failed("redis_away")
    of_lake = ("availability", "write_availability", "outages", "flaps", "missed_beats", "resilience")
    status.figures(lambda: {f"pipeline_{name}": {"c1": number} for number, name in enumerate(of_lake)}, "default")
    status.round_done(3.5, 40, "default")
    status.round_done(3.5, 2, "other")
    assert status.not_ready() == []
    found = Metrics(exposition(status, "text/plain")[0].decode())
    assert found.items() >= {
        "pipeline_behind_seconds{changes}": 12.5, "pipeline_rows_total{changes}": 110,
        "pipeline_rows_total{lookups}": 0, "pipeline_quarantined_total{changes}": 2, "pipeline_rounds_total{done}": 2,
        "pipeline_rounds_total{redis_away}": 1, "pipeline_rounds_total{failed}": 0,
        "pipeline_round_duration_seconds": 3.5, "pipeline_seq": 42, "ready": 1, "pipeline_flaps{c1}": 3,
    }.items()  # fmt: skip
    assert abs(found["pipeline_last_round_seconds"] - time.time()) < 60
    shown = {series.name for series in status.series()}
    assert shown >= OF_PIPELINE
    assert "topics" not in found


def test_a_sweeper_that_makes_no_pass_any_more_hangs(monkeypatch):
    now_s = time.monotonic()
    monkeypatch.setattr(sweeper_status, "time", SimpleNamespace(monotonic=lambda: now_s, time=time.time))
    status = SweeperStatus(CallTimes())
    (port,) = free_ports(1)
    http = HttpServer("127.0.0.1", port, status, hangs=status.hangs)
    try:
        now_s += 1000  # it waits for Redis at its start
        assert get(port, "/healthz").status == 200
        status.passed(0.1, False)  # a pass that failed is one
        now_s += 59
        assert (status.hangs(), get(port, "/healthz").body) == ("", b"ok\n")
        now_s += 2
        assert get(port, "/healthz")[::2] == (503, b"it has made no pass for 61 s\n")
        status.passed(0.1, True)
        assert get(port, "/healthz").status == 200
    finally:
        http.close()
