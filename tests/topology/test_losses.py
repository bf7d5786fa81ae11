"""A Redis that forgets while front ends run: all of it, or its last changes."""

from __future__ import annotations

import asyncio
import signal
import time

import pytest

from bench.servers.redis_servers import RedisProcess
from mqregistry.store import keys
from mqregistry.store.config_writes import KvStore
from mqregistry.store.store import Store

from ..server.fleet import beating, watching
from ..server.harness import Broker, wait_until
from .service import alike, contents, events, settled

LIFE_MS = 10_000
SETTINGS = {"broker_channel_expired_time_ms": LIFE_MS, "redis_timeout_ms": 2000}
BROKERS = [
    Broker("broker-a", "127.0.0.1:10911", topics=["topic1", "only-a"]),
    Broker("broker-b", "127.0.0.1:10931", topics=["topic1", "only-b"]),
]
KNOWN = {"topic1": {"broker-a", "broker-b"}, "only-a": {"broker-a"}, "only-b": {"broker-b"}}


@pytest.fixture
def server(folder):
    with RedisProcess(folder / "node") as server:
        yield server


def put(front_end, key, value="1"):
    with front_end.client() as client:
        return client.request(100, {"namespace": "ns", "key": key, "value": value}).code


def wait_for_loss(front_ends, times):
    for front_end in front_ends:
        front_end.wait_until(lambda f=front_end: f.log.count("came back with less") >= times, "it noticed")


def test_flushed_while_front_ends_run_is_noticed_and_mended(server, front_end_with, sweeper_for, own_namespace):
    front_ends = [front_end_with(server.url, **SETTINGS) for _ in range(2)]
    sweeper_for(server.url)
    with beating(BROKERS, front_ends, period_s=1.0) as fleet, watching(front_ends, KNOWN):
        assert put(front_ends[0], "key") == 0
        for front_end in front_ends:
            front_end.wait_until(lambda f=front_end: settled(f) and f.poll()["view_seq"] >= 3, "it has it all")
        took_s: list[float] = []
        while not took_s or (min(took_s) >= 2.5 and len(took_s) < 4):  # a busy machine may take seconds for itself
            server.call("FLUSHALL")
            began = time.monotonic()
            for member in fleet:
                member.answers.clear()
            wait_for_loss(front_ends, len(took_s) + 1)
            took_s.append(time.monotonic() - began)
            for front_end in front_ends:
                front_end.wait_until(lambda f=front_end: settled(f, rebuilds=1 + len(took_s)), "the grace is over")
        assert min(took_s) < 2.5, took_s
        for member in fleet:  # one heartbeat at each front end
            wait_until(lambda m=member: m.answers[0] >= 2, "registrations succeed")
        assert set(contents(server.url, own_namespace)["brokers"]) == {"broker-a", "broker-b"}
        wait_until(lambda: contents(server.url, own_namespace)["kv"] == {"ns": {"key": "1"}}, "KV is given back")
        wait_until(lambda: alike(front_ends, KNOWN), "both front ends answer alike")
        assert not [event for event in events(server, own_namespace) if event.type == "broker_expired"]


def test_lost_changes_hidden_by_as_many_new_ones_are_missed_all_the_same(
    server, front_end_with, sweeper_for, own_namespace
):
    """Epoch and seq look well when the front ends come back: only the stream tells that it is another one."""
    front_ends = [front_end_with(server.url, **SETTINGS) for _ in range(2)]
    sweeper_for(server.url)
    # they beat so seldom that nobody does it here
    kept = Broker("broker-a", "127.0.0.1:10911", topics=["only-a", "also-a"], heartbeatTimeoutMillis="60000")
    lost = Broker("broker-c", "127.0.0.1:10941", topics=["only-c", "also-c"], heartbeatTimeoutMillis="60000")
    with front_ends[0].client() as one, front_ends[1].client() as other:
        assert one.register(kept).code == other.register(kept).code == 0
        assert put(front_ends[0], "before") == 0
        server.call("SAVE")
        assert one.register(lost).code == other.register(lost).code == 0
        assert put(front_ends[0], "lost") == 0
        for front_end in front_ends:
            front_end.wait_until(lambda f=front_end: settled(f) and f.poll()["view_seq"] == 4, "it has it all")
        for front_end in front_ends:
            front_end.kill(signal.SIGSTOP)
        server.kill()
        server.start()
        asyncio.run(make_changes(server.url, own_namespace, 3))  # 3, 4, 5
        for front_end in front_ends:
            front_end.kill(signal.SIGCONT)
        with watching(front_ends, {"only-a": {"broker-a"}, "only-c": {"broker-c"}}):
            for front_end in front_ends:
                front_end.wait_until(lambda f=front_end: "came back with less" in f.log, "it noticed")
            wait_until(lambda: contents(server.url, own_namespace)["kv"]["ns"].get("lost"), "KV is given back")
            wait_until(lambda: "broker-c" in contents(server.url, own_namespace)["brokers"], "the broker, too")
            assert one.register(lost).code == other.register(lost).code == 0  # its next heartbeat
            for front_end in front_ends:
                front_end.wait_until(lambda f=front_end: settled(f, rebuilds=2), "the grace is over")
            assert set(contents(server.url, own_namespace)["brokers"]) == {"broker-a", "broker-c"}
            assert alike(front_ends, ["only-a", "only-c"])


def test_a_value_that_is_older_now_and_a_key_that_is_back_are_made_good(
    server, front_end_with, sweeper_for, own_namespace
):
    """Redis comes back with the KV configuration of some seconds ago; both front ends know what was changed since."""
    front_ends = [front_end_with(server.url, **SETTINGS) for _ in range(2)]
    assert put(front_ends[0], "changed", "1") == put(front_ends[0], "deleted", "1") == 0
    server.call("SAVE")
    assert put(front_ends[0], "changed", "2") == put(front_ends[0], "new", "2") == 0
    with front_ends[0].client() as client:
        assert client.request(102, {"namespace": "ns", "key": "deleted"}).code == 0
    for front_end in front_ends:
        front_end.wait_until(lambda f=front_end: f.poll().get("view_seq") == 5, "it has it all")
    server.kill()
    server.start()
    for front_end in front_ends:
        front_end.wait_until(lambda f=front_end: "came back with less" in f.log, "it noticed")
    known = {"ns": {"changed": "2", "new": "2"}}
    wait_until(lambda: contents(server.url, own_namespace)["kv"] == known, "KV is given back")
    for front_end in front_ends:
        with front_end.client() as client:
            wait_until(
                lambda c=client: c.request(101, {"namespace": "ns", "key": "changed"}).ext_fields == {"value": "2"},
                "it is served",
            )
    assert put(front_ends[1], "changed", "3") == 0
    assert contents(server.url, own_namespace)["kv"]["ns"]["changed"] == "3"


async def make_changes(url, namespace, count):
    async with Store(url, namespace) as store:
        for i in range(count):
            await KvStore(store).put("ns", f"new{i}", "1")


SLOW = Broker("broker-a", "127.0.0.1:10911", topics=["only-a", "also-a"], heartbeatTimeoutMillis="60000")
QUEUES = b'{"queueDatas":[{"brokerName":"broker-a","readQueueNums":2,"writeQueueNums":2,"perm":6,"topicSysFlag":0}]}'


def known_to_both(front_ends, seq):
    for front_end in front_ends:
        front_end.wait_until(lambda f=front_end: settled(f) and f.poll()["view_seq"] == seq, "it has it all")


@pytest.mark.parametrize("how", ["goodbye", "close", "close after a write"])
def test_a_broker_that_leaves_an_emptied_redis_is_gone_at_every_front_end(server, front_end_with, how):
    """C: it has not registered again when it says goodbye, or its last connection closes."""
    front_ends = [front_end_with(server.url, **SETTINGS) for _ in range(2)]
    with front_ends[0].client() as one, front_ends[1].client() as other:
        with front_ends[0].client() as its_own:
            assert its_own.register(SLOW).code == 0
            known_to_both(front_ends, 1)
            server.call("FLUSHALL")
            if how == "close":  # else at once: nobody has noticed
                for front_end in front_ends:
                    front_end.wait_until(lambda f=front_end: f.poll()["view_seq"] >= 2, "Redis has it back")
            elif how == "close after a write":  # the write notices it, and no renewal has come since
                assert put(front_ends[0], "key") == 0
            else:
                ext = {"brokerAddr": SLOW.addr, "brokerId": "0", "brokerName": SLOW.name, "clusterName": SLOW.cluster}
                assert one.request(104, ext).code == 0
                assert one.route("only-a").code != 0, "it is answered after its effect"
        for client in (one, other):
            wait_until(lambda c=client: c.route("only-a").code != 0, "the route is gone")


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_connection_that_closed_before_redis_went_back_keeps_nobody(
    server, front_end_with, own_namespace, comes_back
):
    """Redis started with the data of before a close, or of before a new connection; then the broker dies."""
    front_ends = [front_end_with(server.url, **SETTINGS) for _ in range(2)]
    with front_ends[0].client() as client, front_ends[1].client() as other:
        with front_ends[1].client() as staying, front_ends[0].client() as again:
            with front_ends[0].client() as first:
                assert first.register(SLOW).code == staying.register(SLOW).code == 0
                known_to_both(front_ends, 1)
                server.call("SAVE")
                channels = keys.channels(own_namespace, SLOW.who)
                closed = server.call("HGET", channels, front_ends[0].front_end)
                assert closed
            front_ends[0].wait_until(lambda: "closed here, it is kept" in front_ends[0].log, "it has told the close")
            if comes_back:
                assert again.register(SLOW).code == 0
            assert put(front_ends[0], "lost") == 0
            server.kill()
            server.start()
            for front_end in front_ends:
                front_end.wait_until(
                    lambda f=front_end: "came back with less" in f.log and settled(f, rebuilds=2), "it noticed"
                )
            # A broker that loses its last channel with this, and not with a close, has the time to beat once.
            wait_until(lambda: server.call("HGET", channels, front_ends[0].front_end) != closed, "it is given up")
            assert client.route("only-a").code == 0
        for one in (client, other):
            wait_until(lambda c=one: c.route("only-a").code != 0, "the route is gone")


def test_what_was_acknowledged_before_redis_started_with_older_data_holds(server, front_end_with, own_namespace):
    """D: a setting, a topic that was deleted, one that was registered, a permission that was wiped; then kill -9."""
    front_ends = [front_end_with(server.url, **SETTINGS) for _ in range(2)]
    with front_ends[0].client() as one, front_ends[1].client() as other:
        assert one.register(SLOW).code == 0
        assert one.request(217, {"topic": "by-hand"}, QUEUES).code == 0
        server.call("SAVE")
        assert one.request(318, None, b"productEnvName=acknowledged\n").code == 0
        assert one.request(216, {"topic": "by-hand"}).code == 0
        assert one.request(217, {"topic": "by-hand-too"}, QUEUES).code == 0
        assert other.request(205, {"brokerName": "broker-a"}).ext_fields == {"wipeTopicCount": "3"}
        for _ in range(2):  # and once more
            server.kill()
            server.start()
            for front_end in front_ends:
                front_end.wait_until(
                    lambda f=front_end: f.log.count("came back with less") >= 1 and settled(f), "it has given it back"
                )
            wait_until(lambda: "by-hand" not in contents(server.url, own_namespace)["topics"], "it stays deleted")
            found = contents(server.url, own_namespace)
            assert found["config"] == {"productEnvName": "acknowledged"}
            assert {data.perm for topic in found["topics"].values() for data in topic.values()} == {4}
            assert set(found["topics"]) == {"only-a", "also-a", "by-hand-too"}
            assert one.register(SLOW).code == other.register(SLOW).code == 0
            assert alike(front_ends, ["only-a", "by-hand", "by-hand-too"])
            for client in (one, other):
                assert b"productEnvName=acknowledged" in client.request(319).body


def test_a_front_end_that_starts_on_an_emptied_redis_denies_no_topic_of_a_living_broker(server, front_end_with):
    """E: the older one rightly serves it; and so does the new one, as soon as Redis has it back."""
    older = front_end_with(server.url, **SETTINGS)
    with older.client() as client:
        assert client.register(SLOW).code == 0
        older.wait_until(lambda: settled(older) and older.poll()["view_seq"] == 1, "it has it all")
        older.kill(signal.SIGSTOP)
        server.call("FLUSHALL")
        newer = front_end_with(server.url, fresh=False, **SETTINGS)
        with newer.client() as asking:
            for _ in range(50):
                assert asking.route("only-a").code == 1
                time.sleep(0.02)  # for a second nobody knows the topic
            older.kill(signal.SIGCONT)
            seen = wait_until(lambda: {1: None, 0: "served"}[asking.route("only-a").code], "it is served")
            assert seen == "served"
        assert client.route("only-a").code == 0
