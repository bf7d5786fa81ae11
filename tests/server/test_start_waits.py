"""A front end that starts while Redis is away: it listens, answers 1 to everything, and serves once Redis is there."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest

from mqregistry.embedded import EmbeddedRedis

from .harness import Broker
from .serving import Serving


@pytest.fixture
def own():
    """A Redis that does not run yet."""
    with tempfile.TemporaryDirectory(prefix="mq") as folder:
        redis = EmbeddedRedis(Path(folder))
        yield redis
        redis.stop()


@pytest.fixture
def serving(tmp_path, own):
    started = []

    def start(**settings):
        started.append(Serving(tmp_path, own.url, booted=False, **settings))
        return started[-1]

    yield start
    for serve in started:
        serve.close()


def waits(serve, workers=1):
    """Wait until every worker says that it waits, which it does after it has tried Redis."""
    expected = 503, [f"worker {index + 1} has not read the tables yet: Redis is away" for index in range(workers)]

    def told():
        with contextlib.suppress(OSError):  # it does not listen yet
            return serve.readyz() == expected

    serve.wait_until(told, "it says what it waits for")


@pytest.mark.parametrize("workers", [1, 2])
def test_it_answers_every_request_with_an_error_and_serves_once_redis_is_there(serving, own, workers):
    serve = serving(workers=workers)
    waits(serve, workers)
    assert serve.metrics()["redis_away"] == workers
    with serve.client() as client:
        assert client.route("topic1").code == 1
        assert client.register(Broker()).code == 1
        for code in (28, 100, 101, 102, 104, 106, 205, 206, 216, 217, 304, 311, 318, 319, 322, 327, 901, 29105, 9999):
            assert client.request(code).code == 1, code
        assert "boot success" not in serve.log
        own.start()
        serve.wait_until(lambda: "boot success" in serve.log, "it serves")
        assert client.route("topic1").code == 17
        assert client.register(Broker()).code == 0
        assert client.route("topic1").code == 0
    serve.wait_until(lambda: serve.readyz() == (200, []), "it is ready")
    assert serve.log.count("Redis is away") <= 1 + workers


def test_what_waiting_does_not_mend_ends_it_with_253(serving, own):
    serve = serving()
    waits(serve)
    with EmbeddedRedis(own.folder, extra=("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")):
        assert serve.process.wait(60) == 253
    assert "maxmemory-policy allkeys-lru" in serve.log
    assert "Traceback" not in serve.log


def test_it_can_be_stopped_while_it_waits(serving):
    serve = serving()
    waits(serve)
    serve.process.terminate()
    assert serve.process.wait(60) == 0
    assert "Traceback" not in serve.log
    assert "boot success" not in serve.log
