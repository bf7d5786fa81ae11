"""Real processes are killed, and the metric that an alert of deploy/monitoring reads moves as its rule needs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mqregistry.embedded import EmbeddedRedis

from .harness import Broker
from .serving import Serving

pytestmark = pytest.mark.timeout(120)
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


def lost(serve):
    found = serve.metrics()
    return sum(found[f"changes_total{{{kind}}}"] for kind in LOST)


def test_mass_expiry(drill):
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
        clients[0].close()
        serve.wait_until(lambda: lost(serve) == 3, "three are lost", 30)
        serve.wait_until(lambda: serve.metrics()["brokers_alive"] == 1, "one is left")


def test_worker_restarting(drill):
    _, serve, _ = drill
    for number in range(1, 4):
        serve.wait_until(lambda: serve.metrics()["workers"] == 1, "a worker answers", 30)
        for worker in serve.workers():
            worker.send_signal(signal.SIGKILL)
        serve.wait_until(
            lambda number=number: serve.metrics()["worker_restarts_total"] == number, "it is started again", 30
        )
    serve.wait_until(lambda: serve.metrics()["workers"] == 1, "a worker answers", 30)


def test_no_sweeper(drill):
    redis, serve, sweeper = drill
    serve.wait_until(lambda: serve.metrics().get("sweepers") == 1, "the sweeper is known", 30)
    sweeper.kill()
    sweeper.wait()
    with contextlib.closing(redis_client(redis)) as client:  # ten seconds pass
        client.hset(f"mq:{{{serve.namespace}}}:meta", "clock_offset_ms", 10_001)
    serve.wait_until(lambda: serve.metrics().get("sweepers") == 0, "no sweeper is left", 30)


def test_redis_away(drill):
    redis, serve, _ = drill
    assert serve.metrics()["redis_away"] == 0
    os.kill(redis_pid(redis), signal.SIGKILL)
    serve.wait_until(lambda: serve.metrics()["redis_away"] == 1, "Redis is away", 30)


def redis_client(redis):
    import redis as library

    return library.Redis.from_url(redis.url)


def redis_pid(redis):
    with contextlib.closing(redis_client(redis)) as client:
        return client.info("server")["process_id"]
