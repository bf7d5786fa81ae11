"""``clusters``, ``brokers``, ``topics``, ``route``, ``watch`` on what brokers registered over the wire."""

from __future__ import annotations

import json
import re
import signal
import time

import pytest

from bench.servers.processes import free_port
from mqregistry.events.by import front_end_name

from ...server.harness import Broker, FrontEnd, wait_until

CLUSTERS = """\
CLUSTER  BROKER NAME  ID  ADDRESS
c1       broker-a      0  192.168.56.1:10000
c1       broker-a      1  192.168.56.2:10000
c1       broker-b      0  192.168.56.3:10000
c1       broker-b      1  192.168.56.4:10000
"""
BROKERS = """\
CLUSTER  BROKER NAME  ID  ADDRESS             HEARD  EXPIRES IN  TIMEOUT  DATA VERSION     FRONT ENDS
c1       broker-a      0  192.168.56.1:10000  ~~~~~  ~~~~~~~~~~    2m00s  2@1700000000000  ~
c1       broker-a      1  192.168.56.2:10000  ~~~~~  ~~~~~~~~~~    2m00s  2@1700000000000  ~
c1       broker-b      0  192.168.56.3:10000  ~~~~~  ~~~~~~~~~~    2m00s  2@1700000000000  ~
c1       broker-b      1  192.168.56.4:10000  ~~~~~  ~~~~~~~~~~    2m00s  2@1700000000000  ~
"""
JAVA_TABLES = """\
topicQueueTable
  TOPIC   BROKER NAME  READ  WRITE  PERM  FLAG
  topic1  broker-a        4      4  6 RW     0
          broker-b        4      4  6 RW     0

brokerAddrTable
  BROKER NAME  CLUSTER  BROKER ID  ADDRESS
  broker-a     c1               0  192.168.56.1:10000
                                1  192.168.56.2:10000
  broker-b     c1               0  192.168.56.3:10000
                                1  192.168.56.4:10000

clusterAddrTable
  CLUSTER  BROKER NAMES
  c1       broker-a, broker-b

brokerLiveTable
  ADDRESS             LAST UPDATE  TIMEOUT  DATA VERSION     HA SERVER           CHANNEL
  192.168.56.1:10000  ~              2m00s  2@1700000000000  192.168.56.1:10000  ~
  192.168.56.2:10000  ~              2m00s  2@1700000000000  192.168.56.2:10000  ~
  192.168.56.3:10000  ~              2m00s  2@1700000000000  192.168.56.3:10000  ~
  192.168.56.4:10000  ~              2m00s  2@1700000000000  192.168.56.4:10000  ~

filterServerTable
  (empty)
"""
TOPICS = """\
TOPIC   READ  WRITE  PERM  BROKER NAMES
topic1     8      8  6 RW  broker-a, broker-b
"""
ROUTE = """\
topic topic1
BROKER NAME  CLUSTER  READ  WRITE  PERM  ID  ADDRESS
broker-a     c1          4      4  6 RW   0  192.168.56.1:10000
                                          1  192.168.56.2:10000
broker-b     c1          4      4  6 RW   0  192.168.56.3:10000
                                          1  192.168.56.4:10000
"""
ADDRS = {
    "broker-a": {"0": "192.168.56.1:10000", "1": "192.168.56.2:10000"},
    "broker-b": {"0": "192.168.56.3:10000", "1": "192.168.56.4:10000"},
}
EVENTS = """\
broker_registered   c1/broker-a id 0 192.168.56.1:10000; new
broker_registered   c1/broker-a id 0 192.168.56.1:10000; 1 topic(s): topic1
broker_registered   c1/broker-a id 1 192.168.56.2:10000; new
broker_registered   c1/broker-a id 1 192.168.56.2:10000
broker_registered   c1/broker-b id 0 192.168.56.3:10000; new
broker_registered   c1/broker-b id 0 192.168.56.3:10000; 1 topic(s): topic1
broker_registered   c1/broker-b id 1 192.168.56.4:10000; new
broker_registered   c1/broker-b id 1 192.168.56.4:10000
"""


def connect(front_end, name, broker_id):
    """A broker that registered: at first without topics (a first registration with exactly one is refused)."""
    client = front_end.client()
    topics = {"topic1": (4, 4, 6)} if broker_id == 0 else {}
    for counter, table in enumerate(({}, topics), 1):
        broker = Broker(name, ADDRS[name][str(broker_id)], broker_id, topics=table, counter=counter)
        assert client.register(broker).code == 0
    return client


@pytest.fixture
def example(redis_url, namespace):
    """The worked example of the specification: its four connections."""
    front_end = FrontEnd(redis_url, namespace)
    clients = {}
    try:
        for name in ADDRS:
            for broker_id in (0, 1):
                clients[name, broker_id] = connect(front_end, name, broker_id)
        yield clients
    finally:
        for client in clients.values():
            client.close()
        front_end.close()


@pytest.fixture
def show(world, redis_url, namespace, example):
    def run(*arguments, expect=0):
        return world.run(*arguments, "--redis", redis_url, "--namespace", namespace, expect=expect)

    return run


def masked(text):
    """The brokers table without what depends on the clock."""
    lines = text.splitlines(keepends=True)
    begin, end = lines[0].index("  HEARD") + 2, lines[0].index("EXPIRES IN") + len("EXPIRES IN")
    shown = "".join(f"{line[:begin]}~~~~~  ~~~~~~~~~~{line[end:]}" for line in lines[1:])
    return lines[0] + re.sub(rf"{front_end_name(9876)}.*", "~", shown)


@pytest.mark.usefixtures("new_interpreters")
def test_for_people(show):
    assert show("clusters").stdout == CLUSTERS
    assert masked(show("brokers").stdout) == BROKERS
    assert show("topics").stdout == TOPICS
    assert show("topics", "other*").stderr == "no topic matches other*\n"
    assert show("route", "topic1").stdout == ROUTE


def masked_live(text):
    """The tables without times and connections."""
    text = re.sub(r"\d{4}-\d\d-\d\d [\d:.]{12}", "~", text).replace("LAST UPDATE            ", "LAST UPDATE")
    return re.sub(rf"{front_end_name(9876)}.*", "~", text)


def queue_data(name):
    return {"brokerName": name, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicSysFlag": 0}


@pytest.mark.usefixtures("new_interpreters")
def test_the_worked_example_as_a_java_name_server_holds_it(show):
    """Two masters with a slave each (2m-2s), one topic at both: the five tables under RocketMQ's names."""
    assert re.sub("  +", "  ", masked_live(show("tables").stdout)) == re.sub("  +", "  ", JAVA_TABLES)
    told = json.loads(show("tables", "--json").stdout)
    live = told.pop("brokerLiveTable")
    assert told == {
        "topicQueueTable": {"topic1": [queue_data("broker-a"), queue_data("broker-b")]},
        "brokerAddrTable": {
            name: {"cluster": "c1", "brokerName": name, "brokerAddrs": addrs, "enableActingMaster": False}
            for name, addrs in ADDRS.items()
        },
        "clusterAddrTable": {"c1": ["broker-a", "broker-b"]},
        "filterServerTable": {},
    }
    assert list(live) == [addr for addrs in ADDRS.values() for addr in addrs.values()]
    for addr, info in live.items():
        assert info["dataVersion"] == {"counter": 2, "stateVersion": 0, "timestamp": 1700000000000}
        assert (info["clusterName"], info["brokerAddr"]) == ("c1", addr)
        assert len(info["channel"]) == 1
        assert abs(info["lastUpdateTimestamp"] - time.time() * 1000) < 60_000
    assert list(json.loads(show("tables", "clusterAddrTable", "--json").stdout)) == ["clusterAddrTable"]


def test_tables_of_a_name_server_are_what_its_answers_tell(world, show, example):
    port = example["broker-a", 0].socket.getpeername()[1]
    asked = world.run("tables", "--namesrv", f"127.0.0.1:{port}", "--json")
    told = json.loads(show("tables", "--json").stdout)
    del told["brokerLiveTable"]
    assert json.loads(asked.stdout) == told
    text = world.run("tables", "--namesrv", f"127.0.0.1:{port}", "brokerLiveTable").stdout
    assert text == "brokerLiveTable\n  (no request reads it)\n"


def test_for_programs(show):
    tables = json.loads(show("clusters", "--json").stdout)
    assert tables["clusterAddrTable"] == {"c1": ["broker-a", "broker-b"]}
    assert {name: row["brokerAddrs"] for name, row in tables["brokerAddrTable"].items()} == ADDRS
    infos = json.loads(show("brokers", "--json").stdout)
    assert [(b["cluster"], b["brokerName"], b["brokerId"], b["brokerAddr"]) for b in infos] == [
        ("c1", name, broker_id, ADDRS[name][str(broker_id)]) for name in ADDRS for broker_id in (0, 1)
    ]
    for info in infos:
        assert info["dataVersion"] == {"counter": 2, "timestamp": 1700000000000, "stateVersion": 0}
        assert info["heartbeatTimeoutMillis"] == 120_000
        assert 0 < info["expiresInMs"] <= 120_000
        assert 0 <= info["heardMsAgo"] == 120_000 - info["expiresInMs"]
        assert info["frontEnds"] == 1
    assert json.loads(show("topics", "--json").stdout) == [
        {"topic": "topic1", "brokerNames": ["broker-a", "broker-b"], "readQueueNums": 8, "writeQueueNums": 8,
         "perms": [6]}
    ]  # fmt: skip
    assert json.loads(show("topics", "other*", "--json").stdout) == []


def test_route_json_is_what_clients_are_told(show, example):
    printed = json.loads(show("route", "topic1", "--json").stdout)
    assert printed == json.loads(
        example["broker-a", 0].request(105, {"topic": "topic1", "acceptStandardJsonOnly": "true"}).body
    )
    assert {data["brokerName"]: data["brokerAddrs"] for data in printed["brokerDatas"]} == ADDRS


def test_route_after_the_master_went(show, example):
    example["broker-a", 0].close()
    gone = ROUTE.replace("  0  192.168.56.1:10000\n" + " " * 42 + "1", "  1")
    assert "192.168.56.1" not in gone
    wait_until(lambda: show("route", "topic1").stdout == gone, "its address has left the route")


def test_unknown_topic_names_the_closest(show):
    assert (
        show("route", "topic", expect=1).stderr
        == "Error: no topic 'topic'; did you mean topic1?\nSee: mqregistry help no-route\n"
    )
    assert (
        show("route", "Topic1", expect=1).stderr
        == "Error: no topic 'Topic1'; did you mean topic1?\nSee: mqregistry help no-route\n"
    )
    assert "'mqregistry topics' lists them" in show("route", "nothing-like-it", expect=1).stderr


@pytest.mark.usefixtures("new_interpreters")
def test_watch_shows_what_was_and_what_comes(world, show, example, redis_url, namespace):
    lines = show("watch", "--from-start", "-n", 8).stdout.splitlines()
    seqs = [int(line.split()[2]) for line in lines]
    assert seqs == list(range(seqs[0], seqs[0] + 8))
    told = [line[line.index("broker_registered") :].partition("; by anonymous from 127.0.0.1:") for line in lines]
    assert "".join(what + "\n" for what, _, _ in told) == EVENTS
    assert len({by for _, _, by in told}) == 4, "each broker has a connection of its own"
    watch = world.start("watch", "--from-start", "--json", "--redis", redis_url, "--namespace", namespace)
    wait_until(lambda: len(watch.out.splitlines()) == 8, "it has shown what was")
    assert example["broker-b", 1].request(100, {"namespace": "n", "key": "k", "value": "ä"}).code == 0
    wait_until(lambda: len(watch.out.splitlines()) == 9, "it shows what comes")
    event = json.loads(watch.out.splitlines()[-1])
    assert (event["type"], event["kv_namespace"], event["key"], event["value"]) == ("kv_put", "n", "k", "ä")
    assert event["by"]["peer"] == "{}:{}".format(*example["broker-b", 1].socket.getsockname())
    watch.process.send_signal(signal.SIGINT)
    assert watch.process.wait(60) == 0
    assert watch.err == ""


COMMANDS = [["clusters"], ["brokers"], ["topics"], ["route", "topic1"], ["watch", "-n", "1"], ["audit"], ["kv", "list"]]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_what_keeps_a_command_from_looking_is_said_with_the_next_step(world, command, redis_url):
    none = world.run(*command, expect=1)
    assert none.stderr.startswith("Error: no 'mqregistry up' runs here")
    assert "--redis redis://HOST:PORT (or MQREGISTRY_REDIS)" in none.stderr
    away = world.run(*command, "--redis", f"redis://127.0.0.1:{free_port()}", expect=1)
    assert "Redis is away" in away.stderr
    assert "--redis URL names another" in away.stderr
    wrong = world.run(*command, "--redis", redis_url, "--namespace", "nobody-made-it", expect=1)
    assert "no namespace 'nobody-made-it'" in wrong.stderr
    assert "another --namespace, or another --redis?" in wrong.stderr
    assert [none.stdout, away.stdout, wrong.stdout] == ["", "", ""]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["route"], "Missing argument 'TOPIC'"),
        (["nothing"], "No such command 'nothing'"),
        (["clusters", "--jsn"], "No such option"),
        (["clusters", "--redis", "http://host"], "redis://"),
        (["watch", "-n", "0"], "x>=1"),
        (["clusters", "--namespace", "a{b}"], "1 to 64 letters"),
        (["completion", "tcsh"], "is not one of"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage(world, arguments, said):
    assert said in world.run(*arguments, expect=2).stderr


def test_of_several_running_ones_one_has_to_be_named(world):
    one, other = world.up("--data-dir", world.folder / "d"), world.up("--data-dir", world.folder / "e")
    error = world.run("clusters", expect=1).stderr
    assert "say which" in error
    for up, name in ((one, "d"), (other, "e")):
        assert f"--redis unix://{world.folder}/{name}/redis.sock   (up on 127.0.0.1:{up.port})" in error
    named = world.run("clusters", "--redis", f"unix://{world.folder}/e/redis.sock")
    assert named.stderr == "no broker is registered\n"
    assert one.interrupt() == 0
    assert world.run("clusters").stderr == "no broker is registered\n"
