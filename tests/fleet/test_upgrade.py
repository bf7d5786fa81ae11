"""Another release moves in while brokers beat and clients ask: a minor on the same namespace, a major beside it."""

from __future__ import annotations

import contextlib
import json
import secrets
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import redis

from mqregistry.events.changes import SCHEMA_MAJOR, SCHEMA_MINOR, TYPES, BrokerRemoved
from mqregistry.server.process.spawning import WORKER_COMMAND
from mqregistry.store.snapshot import read_tables
from mqregistry.store.store import Store
from tests.server.fleet import beating, watching
from tests.server.harness import Broker, FrontEnd, wait_until
from tests.server.test_outages import BROKERS, KNOWN, alike
from tests.store.bed import replay

LATER = str(Path(__file__).with_name("later_release.py"))
GET_GRADES = 19_001
NEXT_MINOR = (sys.executable, LATER, "2.3", "worker")
NEXT_MAJOR = (sys.executable, LATER, "3.0", "worker")
KV = {"namespace": "ORDER_TOPIC_CONFIG", "key": "topic1"}


@pytest.fixture
def start(redis_url):
    """Starts front ends; each keeps its port when it is started anew as another release."""
    with contextlib.ExitStack() as stack:

        def one(namespace: str, command: tuple[str, ...] = WORKER_COMMAND) -> FrontEnd:
            front_end = FrontEnd(redis_url, namespace, command=command, log_level="warning")
            stack.callback(front_end.close)
            return front_end

        yield one


def roll(front_end: FrontEnd, command: tuple[str, ...]) -> None:
    """Drain it, and start the other release in its place."""
    front_end.kill(signal.SIGTERM)
    assert front_end.process.returncode == 0
    front_end.command = command
    front_end.start()


def change_everything(front_end: FrontEnd, turn: str) -> None:
    """Every kind of write but registrations, through this front end; what is known stays."""
    with front_end.client() as client:
        extra = f"extra-{turn}"
        body = json.dumps(
            {"queueDatas": [{"brokerName": "broker-a", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}]}
        )
        for code, ext, text in (
            (100, KV | {"value": turn}, b""),
            (100, {"namespace": "gone", "key": turn, "value": "x"}, b""),
            (102, {"namespace": "gone", "key": turn}, b""),
            (205, {"brokerName": "broker-b"}, b""),
            (327, {"brokerName": "broker-b"}, b""),
            (217, {"topic": extra}, body.encode()),
            (216, {"topic": extra}, b""),
            (318, {}, f"scanNotActiveBrokerInterval={5000 + len(turn)}".encode()),
        ):
            assert client.request(code, ext, text).code == 0
        guest = Broker(f"guest-{turn}", "127.0.0.1:10991", topics=["topic1", "of-guest"])
        assert client.register(guest).code == 0
        assert client.register(guest, counter=2, topics=["topic1", "of-guest", "more"]).code == 0
        assert client.request(
            104, {"clusterName": "c1", "brokerName": guest.name, "brokerAddr": guest.addr, "brokerId": "0"}
        ).code == 0  # fmt: skip


def events(redis_url: str, namespace: str) -> list[dict]:
    client = redis.Redis.from_url(redis_url, protocol=2)
    with contextlib.closing(client):
        return [msgspec.json.decode(fields[b"e"]) for _, fields in client.xrange(f"mq:{{{namespace}}}:changes")]


def fields(redis_url: str, namespace: str, key: str) -> dict[bytes, bytes]:
    client = redis.Redis.from_url(redis_url, protocol=2)
    with contextlib.closing(client):
        return client.hgetall(f"mq:{{{namespace}}}:{key}")


async def told_and_held(redis_url: str, namespace: str) -> list[dict]:
    """The tables as this release's replay makes them of all events, and as it reads them."""
    async with Store(redis_url, namespace) as store:
        return [(await replay(store)).contents(), (await read_tables(store))[1].contents()]


@pytest.mark.timeout(180)
def test_a_minor_rolls_in_and_out_beside_this_release_and_nobody_notices(redis_url, start, run):
    namespace = f"minor-{secrets.token_hex(4)}"
    one, two = fleet = start(namespace), start(namespace)
    brokers = [Broker(b.name, b.addr, b.broker_id, topics=list(b.topics)) for b in BROKERS]
    with beating(brokers, fleet) as beats, watching(fleet, KNOWN):

        def settle(turn: str) -> None:
            """Writes through both, new registrations of the brokers that beat, then: all alike, to the byte."""
            for front_end in fleet:
                change_everything(front_end, turn)
            for beat in beats:
                beat.add_topics({f"new-in-{turn}": (2, 2, 6)})
            wait_until(lambda: route_names(two, f"new-in-{turn}") == {"broker-a", "broker-b"}, "registered anew")
            for beat in beats:
                beat.answers.clear()
            for beat in beats:
                wait_until(lambda b=beat: b.answers[0] >= 4, "registrations succeed")
            wait_until(lambda: alike(fleet, [*KNOWN, f"new-in-{turn}", "topic1"]), "both answer alike")
            assert fields(redis_url, namespace, "meta")[b"schema"] == b"2"

        settle("before")
        roll(one, NEXT_MINOR)
        settle("beside")
        assert fields(redis_url, namespace, "meta")[b"schema_minor"] == b"3"
        # Broker-b has registered through both, first through the later one: what that wrote is there, and so it is
        # after the next registration, wipe and topic deletion that this release writes by itself.
        roll(one, WORKER_COMMAND)
        settle("back")
        for key in ("broker:broker-a", "live:c1|127.0.0.1:10911"):
            assert fields(redis_url, namespace, key)[b"grade"] == b"gold", key
        assert b'"g":1' in fields(redis_url, namespace, "queues:broker-b")[b"new-in-beside"]
        # to be told from what it would write now, as the rule wants it
        row = fields(redis_url, namespace, "broker:broker-a")
        assert int(row[b"grade_rev"]) < int(row[b"rev"])
        roll(one, NEXT_MINOR)
        roll(two, NEXT_MINOR)
        settle("over")
        for front_end in fleet:
            with front_end.client() as client:
                assert set(client.request(GET_GRADES).ext_fields) >= {"broker-a", "broker-b"}
        told, held = run(told_and_held(redis_url, namespace))
        assert told == held
    found = events(redis_url, namespace)
    assert {event["type"] for event in found} - TYPES == {"broker_graded"}
    assert any("grade" in event for event in found if event["type"] == "broker_registered")
    removals = {removal.type for removal in BrokerRemoved.__subclasses__()}
    gone = {event["broker_name"] for event in found[: told_at(found)] if event["type"] in removals}
    assert all(name.startswith("guest-") for name in gone), "nobody who beat was removed"
    for front_end in fleet:
        assert "Traceback" not in front_end.log


def told_at(found: list[dict]) -> int:
    """Where the brokers began to leave, at the end of the test."""
    ends = [n for n, event in enumerate(found) if event["type"] == "broker_graded"]
    return ends[-1]


def route_names(front_end: FrontEnd, topic: str) -> set[str]:
    from mqregistry.protocol.bodies.route import decode_route

    with front_end.client() as client:
        reply = client.route(topic)
    return set(decode_route(reply.body).broker_rows) if reply.code == 0 else set()


def test_an_event_that_may_not_be_passed_over_makes_a_front_end_read_the_tables_anew(redis_url, start):
    namespace = f"event-{secrets.token_hex(4)}"
    front_end = start(namespace)
    key = f"mq:{{{namespace}}}:"
    client = redis.Redis.from_url(redis_url, protocol=2)
    with contextlib.closing(client), front_end.client() as connection:
        assert connection.request(100, KV | {"value": "1"}).code == 0
        # what a major would do, if it did not keep away: another value, told in a way that nobody here knows
        client.hset(f"{key}kv:{KV['namespace']}", KV["key"], "2")
        seq = client.hincrby(f"{key}meta", "seq", 1)
        client.xadd(f"{key}changes", {"e": json.dumps({"seq": seq, "ms": 1, "type": "kv_rewritten"})})
        wait_until(lambda: connection.request(101, KV).ext_fields == {"value": "2"}, "it has read the tables anew")
        wait_until(lambda: connection.route("none").code == 17, "it is sure again")
        assert connection.request(100, KV | {"value": "3"}).code == 0
        assert connection.request(101, KV).ext_fields == {"value": "3"}
    front_end.poll()
    said = f"'kv_rewritten', which this release (schema {SCHEMA_MAJOR}.{SCHEMA_MINOR}) neither knows nor may pass over"
    assert said in front_end.log


@pytest.mark.timeout(180)
def test_a_major_is_refused_on_the_namespace_and_moves_in_beside_it(redis_url, start, tmp_path):
    old_namespace, new_namespace = (f"{age}-{secrets.token_hex(4)}" for age in ("old", "new"))
    old = start(old_namespace)
    with pytest.raises(AssertionError, match="has schema version 2, this is version 3: use the release that wrote it"):
        start(old_namespace, NEXT_MAJOR)
    with old.client() as client:
        assert client.request(100, KV | {"value": "broker-a:4"}).code == 0
        assert client.request(318, {}, b"orderMessageEnable=true").code == 0

    # 1. front ends of the new release, on a namespace of their own, with the configuration of the old one
    new = start(new_namespace, NEXT_MAJOR)
    with pytest.raises(AssertionError, match="has schema version 3, this is version 2"):
        start(new_namespace)
    for what in ("kv", "config"):
        file = tmp_path / f"{what}.txt"
        file.write_text(mqregistry(redis_url, old_namespace, what, "export"))
        mqregistry(redis_url, new_namespace, what, "import", str(file), release=("3.0",))
    with new.client() as client:
        assert client.request(101, KV).ext_fields == {"value": "broker-a:4"}
        assert b"orderMessageEnable=true" in client.request(319).body

    # 2. both in every address list: brokers register at both, all lookups are right at both
    with beating(BROKERS, [old, new]) as beats:
        wait_until(lambda: alike([old, new], KNOWN), "both answer alike")
        with watching([new], KNOWN):
            with watching([old], KNOWN):
                pass
            # 3. the old ones are stopped
            old.kill(signal.SIGTERM)
            assert old.process.returncode == 0
            old.listener.close()
            for beat in beats:
                beat.answers.clear()
            for beat in beats:
                wait_until(lambda b=beat: b.answers[0] >= 4, "registrations succeed")
    assert "Traceback" not in new.log + old.log


def mqregistry(redis_url: str, namespace: str, *words: str, release: tuple[str, ...] = ()) -> str:
    """What a command of this release, or of another, prints."""
    program = [LATER, *release, "cli"] if release else ["-m", "mqregistry"]
    command = [sys.executable, *program, *words, "--redis", redis_url, "--namespace", namespace]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
