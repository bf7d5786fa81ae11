"""The KV configuration of a Java NameServer whose properties file a front end is started with."""

from __future__ import annotations

import asyncio
import json

import pytest

from mqregistry.cli.write import take_over_kv as module
from mqregistry.cli.write.take_over_kv import take_over_kv
from mqregistry.config.settings import Settings
from mqregistry.errors import StoreUnavailable
from mqregistry.store.config_writes import KvStore
from mqregistry.store.snapshot import read_kv

KV = {"ORDER_TOPIC_CONFIG": {"orders": "broker-a:4"}, "EMPTY": {}}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "kvConfig.json"
    path.write_text(json.dumps({"configTable": KV}))
    return path


@pytest.fixture
def take_over(store, caplog):
    """Takes over from a file; gives what Redis has then, and what was logged."""

    async def run(file):
        caplog.clear()
        with caplog.at_level("INFO"):
            await take_over_kv(store, Settings(without_effect={"kvConfigPath": f"{file} "}), asyncio.Event())
        return await read_kv(store), caplog.text

    return run


async def test_it_is_imported_once_while_there_is_none(runner, store, file, take_over):
    found, said = await take_over(file.with_name("none.json"))
    assert found == {}
    assert "there is no file" in said
    assert "mqregistry kv import FILE" in said
    found, said = await take_over(file)
    assert found == KV
    assert f"1 key(s) imported from {file}" in said
    assert await take_over(file) == (KV, "")
    assert await take_over(file.with_name("none.json")) == (KV, "")


async def test_nothing_is_imported_over_what_there_is_and_the_command_is_said(runner, store, file, take_over):
    await KvStore(store).put("ORDER_TOPIC_CONFIG", "orders", "broker-b:8")
    found, said = await take_over(file)
    assert found == {"ORDER_TOPIC_CONFIG": {"orders": "broker-b:8"}}
    assert "1 key(s) that are missing or different in Redis" in said
    assert f"mqregistry kv import {file}" in said


async def test_what_was_deleted_does_not_come_back(runner, store, file, take_over):
    await take_over(file)
    await KvStore(store).delete("ORDER_TOPIC_CONFIG", "orders")
    found, _ = await take_over(file)
    assert found == {"ORDER_TOPIC_CONFIG": {}, "EMPTY": {}}


async def test_a_file_that_is_no_kv_configuration_is_said(runner, store, file, take_over):
    file.write_text("{}")
    found, said = await take_over(file)
    assert found == {}
    assert "kvConfigPath: not imported" in said
    assert "is no kvConfig.json of a NameServer" in said


async def test_a_redis_that_is_away_is_waited_for(runner, store, file, take_over, monkeypatch):
    calls = []

    async def away_at_first(store):
        calls.append(store)
        if len(calls) == 1:
            raise StoreUnavailable("away")
        return await read_kv(store)

    monkeypatch.setattr(module, "_RETRY_EVERY_S", 0.01)
    monkeypatch.setattr(module, "read_kv", away_at_first)
    assert (await take_over(file))[0] == KV
