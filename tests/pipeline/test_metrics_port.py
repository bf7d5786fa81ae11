"""``pipeline run --metrics-port``: what it shows before and after a round."""

from __future__ import annotations

import contextlib
import signal

import pytest
from click.testing import CliRunner

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

from bench.servers.processes import free_port
from mqregistry.cli import cli
from mqregistry.pipeline import run as application
from mqregistry.pipeline.spark import session as session_module
from tests.server.serving import Metrics, get


@pytest.fixture
def handlers():
    """The command sets its own."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.spark
@pytest.mark.usefixtures("handlers")
def test_a_pipeline_shows_how_far_it_is(spark, bed, lake, monkeypatch):
    port, shown, ready, run = free_port(), [], [], application.run

    def look():
        shown.append(Metrics(get(port, "/metrics").body.decode()))
        ready.append(get(port, "/readyz").status)

    def run_and_look(*arguments, **more):
        look()
        done = run(*arguments, **more)
        look()
        return done

    monkeypatch.setattr(application, "run", run_and_look)
    monkeypatch.setattr(session_module, "open_session", lambda **asked: spark)
    monkeypatch.setattr(session_module, "ending", contextlib.nullcontext)
    bed.changes(7)
    command = ["pipeline", "run", "--once", "--redis", bed.url, "--namespace", bed.namespace, "--lake", lake.root,
               "--host", "127.0.0.1", "--metrics-port", str(port)]  # fmt: skip
    result = CliRunner(env={"MQREGISTRY_NAMESPACE": None}).invoke(cli, command)
    assert result.exit_code == 0, result.output + repr(result.exception)
    before, after = shown
    assert ready == [503, 200]
    assert (before["pipeline_last_round_seconds"], before["pipeline_rows_total{changes}"]) == (0, 0)
    assert (after["pipeline_seq"], after["pipeline_rows_total{changes}"]) == (7, 7)
    assert after["pipeline_behind_seconds{changes}"] == 0
    assert after["pipeline_rounds_total{done}"] >= 1
    assert after["pipeline_last_round_seconds"] >= after["start_time_seconds"]
    assert after["process_resident_memory_bytes{pipeline}"] > 1_000_000
    with pytest.raises(OSError, match="refused"):
        get(port, "/metrics")
