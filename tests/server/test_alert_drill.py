"""Real processes are killed, and the alerts of deploy/monitoring fire on what the front end shows before and after."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mqregistry.embedded import EmbeddedRedis

from .harness import Broker
from .serving import Serving

pytestmark = pytest.mark.timeout(120)
RULES = Path(__file__).resolve().parents[2] / "deploy" / "monitoring" / "rules.yml"
LOST = ("broker_expired", "broker_reaped", "broker_closed")


@pytest.fixture(scope="module")
def drill(tmp_path_factory):
    """A Redis, a front end without a sweeper, and a sweeper by itself; one drill ends each of them."""
    with tempfile.TemporaryDirectory(prefix="mq") as folder, contextlib.ExitStack() as stack:
        redis = stack.enter_context(EmbeddedRedis(Path(folder)))
        home = tmp_path_factory.mktemp("drill")
        serve = stack.enter_context(contextlib.closing(Serving(home, redis.url, sweep="false", redis_timeout_ms=500)))
        environ = {name: value for name, value in os.environ.items() if not name.startswith("MQREGISTRY_")}
        sweeper = subprocess.Popen(
            [sys.executable, "-m", "mqregistry", "sweep", "--redis", redis.url, "--namespace", serve.namespace],
            env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield redis, serve, sweeper
        finally:
            sweeper.kill()
            sweeper.wait()


class Watched:
    """What Prometheus would have: the page of a front end for some minutes, and then what it is after a drill."""

    def __init__(self, serve, folder):
        self._serve, self._folder, self._rules = serve, folder, RULES.read_text()
        self._before = self._page()

    def _page(self):
        text = self._serve.get("/metrics").body.decode()
        return {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text) for sample in family.samples
            if sample.name in self._rules
        }  # fmt: skip

    def assert_fires(self, alert):
        """Not on what was before, but on what is now; without promtool the metrics alone were compared."""
        promtool = shutil.which("promtool")
        if promtool is None:
            return
        after = self._page()
        labels = {"namespace": self._serve.namespace, "instance": "fe1", "job": "mqregistry"}
        series = []
        for key in {**self._before, **after}:
            shown = ",".join(f"{name}={json.dumps(value)}" for name, value in {**dict(key[1:]), **labels}.items())
            values = " ".join(
                f"{page[key]}x{minutes * 4}" if key in page else f"_x{minutes * 4}"
                for page, minutes in ((self._before, 10), (after, 5))
            )
            series.append({"series": f"{key[0]}{{{shown}}}", "values": values})
        firing = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})'
        asked = [
            {"expr": firing, "eval_time": "10m", "exp_samples": []},
            {"expr": firing, "eval_time": "14m", "exp_samples": [{"labels": "{}", "value": 1}]},
        ]
        test = {"interval": "15s", "input_series": series, "promql_expr_test": asked}
        file = self._folder / f"{alert}.yml"
        file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": [test]}))
        done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def lost(serve):
    found = serve.metrics()
    return sum(found[f"changes_total{{{kind}}}"] for kind in LOST)


def test_mass_expiry(drill, tmp_path):
    """Three of four brokers fall silent, over connections that stay open, or end."""
    _, serve, _ = drill
    serve.wait_until(lambda: "changes_total{broker_expired}" in serve.metrics(), "its worker tells what it counts")
    assert lost(serve) == 0
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(contextlib.closing(serve.client())) for _ in range(4)]
        for number, client in enumerate(clients):
            timeout = {} if number in (0, 3) else {"heartbeatTimeoutMillis": "1000"}
            broker = Broker(f"broker-{number}", f"10.0.0.{number}:10911", topics=["t1", "t2"], **timeout)
            assert client.register(broker).code == 0
        serve.wait_until(lambda: serve.metrics()["brokers_alive"] == 4, "all are there")
        watched = Watched(serve, tmp_path)
        clients[0].close()
        serve.wait_until(lambda: lost(serve) == 3, "three are lost")
        serve.wait_until(lambda: serve.metrics()["brokers_alive"] == 1, "one is left")
        watched.assert_fires("MassExpiry")


def test_worker_restarting(drill, tmp_path):
    _, serve, _ = drill
    watched = Watched(serve, tmp_path)
    for number in range(1, 4):
        serve.wait_until(lambda: serve.metrics()["workers"] == 1, "a worker answers")
        for worker in serve.workers():
            worker.send_signal(signal.SIGKILL)
        serve.wait_until(
            lambda number=number: serve.metrics()["worker_restarts_total"] == number, "it is started again", 30
        )
    serve.wait_until(lambda: serve.metrics()["workers"] == 1, "a worker answers")
    watched.assert_fires("WorkerRestarting")


def test_no_sweeper(drill, tmp_path):
    redis, serve, sweeper = drill
    serve.wait_until(lambda: serve.metrics().get("sweepers") == 1, "the sweeper is known")
    watched = Watched(serve, tmp_path)
    sweeper.kill()
    sweeper.wait()
    with contextlib.closing(redis_client(redis)) as client:  # ten seconds pass
        client.hset(f"mq:{{{serve.namespace}}}:meta", "clock_offset_ms", 10_001)
    serve.wait_until(lambda: serve.metrics().get("sweepers") == 0, "no sweeper is left")
    watched.assert_fires("NoSweeper")


def test_redis_away(drill, tmp_path):
    redis, serve, _ = drill
    assert serve.metrics()["redis_away"] == 0
    watched = Watched(serve, tmp_path)
    os.kill(redis_pid(redis), signal.SIGKILL)
    serve.wait_until(lambda: serve.metrics()["redis_away"] == 1, "Redis is away")
    watched.assert_fires("RedisAway")


def redis_client(redis):
    import redis as library

    return library.Redis.from_url(redis.url)


def redis_pid(redis):
    with contextlib.closing(redis_client(redis)) as client:
        return client.info("server")["process_id"]
