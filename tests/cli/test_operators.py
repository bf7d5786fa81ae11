"""``clusters``, ``brokers``, ``topics``, ``route``, ``watch``: what they print about the worked example."""

from __future__ import annotations

import json
import os
import re
import signal
import socket

import pytest
from redis import exceptions

from mqregistry.model import DataVersion, QueueData, Registration
from mqregistry.store.config_writes import KvStore
from mqregistry.store.connection.errors import mapped_errors
from mqregistry.store.route_writes import Channel, RouteStore
from mqregistry.store.snapshot import read_tables
from mqregistry.store.store import Store
from mqregistry.tables.registration import compare

from ..store.bed import Bed

BROKERS = [("broker-a", 0, "10.0.0.1:10911"), ("broker-a", 1, "10.0.0.2:10911"), ("broker-b", 0, "10.0.0.3:10911"),
           ("broker-b", 1, "10.0.0.4:10911")]  # fmt: skip


async def register(store, name, broker_id, addr, topics):
    registration = Registration(
        "c1", name, broker_id, addr, ha_server_addr="10.0.0.9:10912", data_version=DataVersion(3, 1700000000000),
        topics={topic: QueueData(4, 4, 6) for topic in topics},
    )  # fmt: skip
    head, tables = await read_tables(store)
    diff = compare(registration, None, tables, epoch=head.epoch)
    done = await RouteStore(store).register_broker(registration, diff, channel=Channel("fe", f"w/{addr}"))
    assert done.status == "OK", done


@pytest.fixture
def example(redis_url, namespace, run):
    """The worked example of the specification, without any front end."""

    async def make():
        async with Store(redis_url, namespace) as store:
            await store.connect()
            for name, broker_id, addr in BROKERS:
                await register(store, name, broker_id, addr, ["topic1", "topic2"] if broker_id == 0 else [])
            await RouteStore(store).delete_topic("topic2")

    run(make())


@pytest.fixture
def target(redis_url, namespace, example):
    return {"MQREGISTRY_REDIS": redis_url, "MQREGISTRY_NAMESPACE": namespace}


def test_clusters_prints_every_address(command, target):
    assert command("clusters", **target).stdout.splitlines() == [
        "CLUSTER  BROKER NAME  ID  ADDRESS",
        "c1       broker-a      0  10.0.0.1:10911",
        "c1       broker-a      1  10.0.0.2:10911",
        "c1       broker-b      0  10.0.0.3:10911",
        "c1       broker-b      1  10.0.0.4:10911",
    ]


def test_clusters_json_is_the_answer_of_106(command, target):
    found = json.loads(command("clusters", "--json", **target).stdout)
    assert found["clusterAddrTable"] == {"c1": ["broker-a", "broker-b"]}
    assert found["brokerAddrTable"]["broker-b"] == {
        "brokerAddrs": {"0": "10.0.0.3:10911", "1": "10.0.0.4:10911"},
        "brokerName": "broker-b",
        "cluster": "c1",
        "enableActingMaster": False,
    }


def test_route_prints_queues_and_addresses(command, target):
    assert command("route", "topic1", **target).stdout.splitlines() == [
        "topic topic1",
        "BROKER NAME  CLUSTER  READ  WRITE  PERM  ID  ADDRESS",
        "broker-a     c1          4      4  6 RW   0  10.0.0.1:10911",
        "                                          1  10.0.0.2:10911",
        "broker-b     c1          4      4  6 RW   0  10.0.0.3:10911",
        "                                          1  10.0.0.4:10911",
    ]


def test_route_json_is_the_answer_of_105(command, target):
    route = json.loads(command("route", "topic1", "--json", **target).stdout)
    assert [data["brokerName"] for data in route["queueDatas"]] == ["broker-a", "broker-b"]
    assert {data["readQueueNums"] for data in route["queueDatas"]} == {4}
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": "10.0.0.1:10911", "1": "10.0.0.2:10911"}


@pytest.mark.parametrize("arguments", [["clusters"], ["brokers"], ["topics"], ["route", "topic1"]])
def test_json_of_what_rocketmq_has_too_is_in_camel_case(command, target, arguments):
    keys = keys_of([json.loads(command(*arguments, "--json", **target).stdout)])
    assert any(key != key.lower() for key in keys)
    assert [key for key in keys if "_" in key] == []


@pytest.mark.parametrize("arguments", [["watch", "--from-start", "-n", "2"], ["audit"], ["streams"]])
def test_json_of_what_is_our_own_is_in_snake_case(command, target, arguments):
    text = command(*arguments, "--json", **target).stdout
    keys = keys_of([json.loads(text)] if arguments == ["streams"] else [json.loads(line) for line in text.splitlines()])
    assert any("_" in key for key in keys)
    assert [key for key in keys if key != key.lower()] == []


def keys_of(values):
    """Of every object in these values, and in what they hold; also names of brokers and topics."""
    found = set()
    for value in values:
        if isinstance(value, dict):
            found |= value.keys() | keys_of(value.values())
        elif isinstance(value, list):
            found |= keys_of(value)
    return found


def test_route_shows_what_else_belongs_to_the_topic(command, target, redis_url, namespace, run):
    async def more():
        async with Store(redis_url, namespace) as store:
            await KvStore(store).put("ORDER_TOPIC_CONFIG", "topic1", "broker-a:4")
            await KvStore(store).set_config({"orderMessageEnable": "true"})
            await store.client.rpush(f"mq:{{{namespace}}}:filter:c1|10.0.0.1:10911", "f1:1", "f2:2")

    run(more())
    lines = command("route", "topic1", **target).stdout.splitlines()
    assert lines[-2:] == ["filter servers of 10.0.0.1:10911: f1:1, f2:2", "order configuration: broker-a:4"]


@pytest.mark.parametrize(("compat", "acting"), [("5.x", True), ("4.8", False)])
def test_route_applies_a_shared_setting_only_where_front_ends_do(command, redis_url, namespace, run, compat, acting):
    """In a 4.8 namespace supportActingMaster has no effect, whoever wrote it into the shared configuration."""

    async def make():
        async with Store(redis_url, namespace, compat=compat) as store:
            await store.connect()
            await KvStore(store).set_config({"supportActingMaster": "true"})
            await register(store, "broker-a", 0, "10.0.0.1:10911", ["topic1", "topic2"])
            await RouteStore(store).set_write_perm("broker-a", "wipe")
            row = f"mq:{{{namespace}}}:broker:broker-a"  # as if its master had gone: only a slave is left
            await store.client.hset(row, mapping={"acting": 1, "1": "10.0.0.2:10911"})
            await store.client.hdel(row, "0")

    run(make())
    found = json.loads(
        command("route", "topic1", "--json", MQREGISTRY_REDIS=redis_url, MQREGISTRY_NAMESPACE=namespace).stdout
    )
    assert found["brokerDatas"][0]["brokerAddrs"] == {"0" if acting else "1": "10.0.0.2:10911"}


def test_route_unknown_topic_names_close_ones(command, target):
    result = command("route", "Topic", expect=1, **target)
    assert result.stderr == "Error: no topic 'Topic'; did you mean topic1?\n"


def test_route_topic_like_nothing_names_the_next_step(command, target):
    assert "'mqregistry topics' lists them" in command("route", "xyzzy", expect=1, **target).stderr


def test_route_reads_no_more_than_it_shows(command, target, redis_url, namespace, run):
    async def calls():
        async with Store(redis_url, namespace) as store:
            found = await store.client.info("commandstats")
            return {name.removeprefix("cmdstat_"): value["calls"] for name, value in found.items()}

    before = run(calls())
    command("route", "topic1", **target)
    after = run(calls())
    made = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}
    # each broker name is asked for this topic, some hundreds at a time, and for nothing else that it has
    assert not made.keys() & {"scan", "hscan", "zscan", "smembers", "hkeys"}, made
    assert made["sscan"] == 1, made
    assert made["hget"] <= 4, made


def test_topics_prints_queues_of_each(command, target):
    assert command("topics", **target).stdout.splitlines() == [
        "TOPIC   READ  WRITE  PERM  BROKER NAMES",
        "topic1     8      8  6 RW  broker-a, broker-b",
    ]
    assert json.loads(command("topics", "--json", "to*", **target).stdout) == [
        {"topic": "topic1", "brokerNames": ["broker-a", "broker-b"], "readQueueNums": 8, "writeQueueNums": 8,
         "perms": [6]}
    ]  # fmt: skip
    assert command("topics", "x*", **target).stderr == "no topic matches x*\n"


def test_brokers_prints_who_lives_and_how_long(command, target):
    lines = command("brokers", **target).stdout.splitlines()
    assert lines[0].split("  ")[0] == "CLUSTER"
    assert len(lines) == 5
    first = lines[1].split()
    assert first[:4] == ["c1", "broker-a", "0", "10.0.0.1:10911"]
    assert first[-3:] == ["2m00s", "3@1700000000000", "fe"]
    infos = json.loads(command("brokers", "--json", **target).stdout)
    assert infos[2]["haServerAddr"] == "10.0.0.9:10912"
    assert (infos[2]["dataVersion"]["counter"], infos[2]["dataVersion"]["timestamp"]) == (3, 1700000000000)
    assert 0 < infos[2]["expiresInMs"] <= 120_000
    assert infos[2]["frontEnds"] == 1


def test_watch_from_start_prints_every_change(command, target):
    lines = command("watch", "--from-start", "-n", "5", **target).stdout.splitlines()
    assert "broker_registered" in lines[0]
    assert "c1/broker-a id 0 10.0.0.1:10911; new; 2 topic(s): topic1, topic2" in lines[0]
    assert "topic_deleted       topic2 at broker-a, broker-b; by " in lines[4]
    assert lines[4].endswith(f"(direct) on {socket.gethostname()}/{os.getpid()}")
    events = [json.loads(line) for line in command("watch", "--from-start", "-n", "5", "--json", **target)
              .stdout.splitlines()]  # fmt: skip
    assert [event["seq"] for event in events] == [1, 2, 3, 4, 5]


def test_watch_shows_what_happens_from_now_on(start, target, redis_url, namespace, run):
    process = start("watch", "-n", "1", **target)

    async def put(number):
        async with Store(redis_url, namespace) as store:
            await KvStore(store).put("ns", f"key{number}", "v")

    # it says nothing until the first change, so changes are made until it has seen one
    for number in range(1000):
        if process.popen.poll() is not None:
            break
        run(put(number))
    assert process.wait() == 0
    assert "kv_put" in process.out
    assert "topic" not in process.out


def test_watch_says_which_changes_it_could_not_show(start, target, redis_url, namespace, run):
    """Trimmed while it was held; then the namespace is made anew. What comes behind a gap is shown."""
    process = start("watch", "--from-start", **target)
    process.wait_for("topic_deleted")

    async def change(*steps):
        async with Store(redis_url, namespace) as store:
            bed = Bed(store)
            for step in steps:
                await step(bed)
            return (await bed.head()).seq

    def put(key):
        return lambda bed: bed.kv.put("ns", key, "v")

    process.popen.send_signal(signal.SIGSTOP)
    last = run(change(*(put(f"key{number}") for number in range(5)),
                      lambda bed: bed.redis("XTRIM", bed.key("changes"), "MAXLEN", 1)))  # fmt: skip
    process.popen.send_signal(signal.SIGCONT)
    process.wait_for("key4")
    # the first of them may have come before it was held
    assert re.fullmatch(rf"mqregistry: changes ({last - 4}|{last - 3}) to {last - 1} are missing: .*\n", process.err)

    async def made_anew(bed):
        await bed.redis("DEL", *await bed.redis("KEYS", bed.key("*")))
        await bed.store.init_namespace()

    run(change(made_anew, put("first")))
    process.wait_for("the namespace was made anew")
    process.wait_for("first")
    assert process.end() == 0


def test_watch_ctrl_c_is_no_error(start, target):
    process = start("watch", "--from-start", **target)
    process.wait_for("topic_deleted")
    assert process.end() == 0
    assert process.err == ""


@pytest.mark.parametrize(
    "name", [["clusters"], ["brokers"], ["topics"], ["route", "t"], ["watch", "-n", "1"], ["audit"]]
)
def test_unknown_namespace_is_not_made(command, redis_url, namespace, name, run):
    result = command(*name, "--redis", redis_url, "--namespace", namespace, expect=1)
    assert f"no namespace '{namespace}'" in str(result.exception)

    async def exists():
        async with Store(redis_url, namespace) as store:
            return await store.client.exists(f"mq:{{{namespace}}}:meta")

    assert run(exists()) == 0


def test_no_up_running_says_how_to_name_a_redis(command):
    assert "--redis redis://HOST:PORT" in command("clusters", expect=1).stderr


def test_redis_away_fails_with_the_next_step(finished, home):
    result = finished("clusters", "--redis", f"unix://{home}/nobody.sock")
    assert result.returncode == 1
    assert "Is Redis up, and is this its address?" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_redis_that_cannot_write_is_not_taken_for_one_that_is_away(
    command, redis_url, namespace, target, monkeypatch
):
    async def refuse(self, *arguments):
        with mapped_errors("put_kv in namespace 'x'"):
            raise exceptions.ResponseError(
                "MISCONF Errors writing to the AOF file: No space left on device script: "
                "25a3b2ec3a3b1fbb8a83b85dcd0a73d6e4cbbb0d, on @user_script:14."
            )

    monkeypatch.setattr(KvStore, "put", refuse)
    error = command("kv", "put", "n", "k", "v", "--yes", expect=1, **target)
    text = error.stderr + str(error.exception)
    assert "Redis cannot write now: it cannot save its data: is its disk full, or not writable?" in text
    assert "Errors writing to the AOF file: No space left on device" in text
    assert "Is Redis up" not in text
    assert "user_script" not in text


def test_empty_registry_says_so(command, redis_url, namespace, run):
    async def make():
        async with Store(redis_url, namespace) as store:
            await store.connect()

    run(make())
    target = {"MQREGISTRY_REDIS": redis_url, "MQREGISTRY_NAMESPACE": namespace}
    assert command("clusters", **target).stderr == "no broker is registered\n"
    assert command("brokers", **target).stderr == "no broker is registered\n"
    assert command("topics", **target).stderr == "no topic is registered\n"


def test_commands_find_the_up_that_runs_here(start_up, command, home):
    process, _ = start_up("--namespace", "mine")
    assert command("topics").stderr == "no topic is registered\n"
    start_up(data_dir=home / "other")
    result = command("topics", expect=1)
    assert result.stderr.startswith("Error: several registries run here; say which:\n")
    assert f"--redis unix://{home}/data/redis.sock" in result.stderr
    process.end()
    command("topics")


def test_queue_data_of_another_make_names_its_topic(command, target, redis_url, namespace, run):
    async def spoil():
        async with Store(redis_url, namespace) as store:
            await store.client.hset(f"mq:{{{namespace}}}:queues:broker-a", "topic1", "rubbish")

    run(spoil())
    assert "topic 'topic1'" in str(command("route", "topic1", expect=1, **target).exception)
