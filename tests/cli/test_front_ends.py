"""``front-ends`` as people and programs read it, and what ``brokers`` says of a real front end."""

from __future__ import annotations

import json
import socket

import msgspec
import pytest

from mqregistry.store.leases import LeaseStore
from mqregistry.store.processes import SweeperFacts, WorkerFacts
from tests.server.harness import wait_until


@pytest.fixture
def target(redis_url, namespace):
    return {"MQREGISTRY_REDIS": redis_url, "MQREGISTRY_NAMESPACE": namespace}


async def two_front_ends_and_a_sweeper(store):
    leases = LeaseStore(store)
    common = {"host": "h", "pid": 7, "release": "1.2", "started_ms": 1, "workers": 1}
    one = WorkerFacts(**common, front_end="a", name="ns1:9876", address="10.0.0.1:9876", ready=True, connections=12,
                      brokers=4, view="fresh", http_address="10.0.0.1:10876")  # fmt: skip
    two = WorkerFacts(**common, front_end="b", name="ns2:9876", address="10.0.0.2:9876", ready=True, draining=True,
                      view="stale")  # fmt: skip
    await leases.renew("w1", process=msgspec.json.encode(one))
    await leases.renew("w2", process=msgspec.json.encode(two))
    sweeper = SweeperFacts(host="h", pid=8, release="1.2", started_ms=1, front_end="ns1:9876", expired=2)
    await leases.reap(1, sweeper="s", process=msgspec.json.encode(sweeper))


def test_front_ends_prints_both_tables(command, target, in_store):
    in_store(two_front_ends_and_a_sweeper)
    lines = command("front-ends", **target).stdout.splitlines()
    assert lines[0].split()[:7] == ["FRONT", "END", "ADDRESS", "HTTP", "STATE", "WORKERS", "RELEASE"]
    assert lines[1].split()[:6] == ["ns1:9876", "10.0.0.1:9876", "10.0.0.1:10876", "ready", "1/1", "1.2"]
    assert lines[1].split()[-4:] == ["0", "12", "4", "7"]
    assert lines[2].split()[:6] == ["ns2:9876", "10.0.0.2:9876", "-", "draining", "1/1", "stale"]
    assert lines[4].split()[:2] == ["SWEEPER", "STATE"]
    assert lines[5].split()[:4] == ["in", "ns1:9876", "sweeps", "1.2"]
    assert lines[5].split()[-3:] == ["2", "0", "8"]


def test_front_ends_as_json(command, target, in_store):
    in_store(two_front_ends_and_a_sweeper)
    told = json.loads(command("front-ends", "--json", **target).stdout)
    states = {one["name"]: one["state"] for one in told["front_ends"]}
    assert states == {"ns1:9876": "ready", "ns2:9876": "draining"}
    assert told["sweepers"][0]["facts"]["expired"] == 2


def test_nobody_there_is_said(command, target, in_store):
    in_store(lambda store: store.exists())
    result = command("front-ends", **target)
    assert result.stdout == ""
    assert "no front end has reported its state" in result.stderr
    assert "no sweeper has reported its state" in result.stderr


def test_a_real_front_end_is_named_with_the_peer_of_each_broker(start_up, start, command, redis_url):
    process, port = start_up("--host", "127.0.0.1")
    broker = start("broker", "run", "--name", "broker-a", "-n", f"127.0.0.1:{port}")
    broker.wait_for("registered")
    name = f"{socket.gethostname()}:{port}"

    def of_broker():
        infos = json.loads(command("brokers", "--json").stdout)
        return infos[0]["connections"][0] if infos else {}

    wait_until(lambda: of_broker().get("peer"), "the front end has told of its peers")
    found = of_broker()
    assert (found["frontEnd"], found["address"]) == (name, f"127.0.0.1:{port}")
    assert found["peer"].startswith("127.0.0.1:")
    text = " ".join(command("front-ends").stdout.split())
    assert f"{name} 127.0.0.1:{port} - ready 1/1" in text
    assert f"in {name} sweeps" in text
    assert f"{name} from {found['peer']}" in command("brokers").stdout
    assert process.popen.poll() is None


def test_a_front_end_tells_what_it_was_started_with_and_no_secret(start_up, command, tmp_path):
    file = tmp_path / "its.properties"
    file.write_text("tlsServerKeyPassword=geheim\nlookupCountsIntervalMs=5000\n")
    _, port = start_up("--host", "127.0.0.1", "--set", "orderMessageEnable=true", "-c", str(file))

    def told():
        fleet = json.loads(command("front-ends", "--json").stdout)
        return fleet["front_ends"][0]["settings"] if fleet["front_ends"] else {}

    wait_until(told, "the front end has told of itself")
    settings = told()
    assert settings["orderMessageEnable"] == ["true", "flag --set orderMessageEnable"]
    assert settings["listenPort"] == [str(port), "flag --port"]
    assert settings["lookupCountsIntervalMs"] == ["5000", f"file {file}:2"]
    assert "redis" not in settings
    assert "geheim" not in json.dumps(settings)
    assert "tlsServerKeyPassword" not in settings
    assert not [key for key, (_, source) in settings.items() if source == "default"]
