"""Redis away, in every way it can be: known routes are answered, nobody who lives is dropped, nothing is lost.

Periods and timeouts are scaled down: brokers beat every 0.25 s and live 6 s without. An outage is short (less
than that life) or long (more).
"""

from __future__ import annotations

import os
import threading
import time

import pytest

from ..forked import Forked, command
from .fleet import beating, watching
from .harness import Broker, wait_until

LIFE_MS = 6000
SHORT_S, LONG_S = 1.5, 7.5
BROKERS = [
    Broker("broker-a", "127.0.0.1:10911", topics=["topic1", "only-a"]),
    Broker("broker-a", "127.0.0.1:10921", broker_id=1, topics=["topic1", "only-a"]),
    Broker("broker-b", "127.0.0.1:10931", topics=["topic1", "only-b"]),
]
KNOWN = {"topic1": {"broker-a", "broker-b"}, "only-a": {"broker-a"}}


@pytest.fixture
def two_front_ends(own_redis, front_end_with, tmp_path):
    """Two front ends, and a sweeper that would expire whoever may be expired."""
    settings = {"url": own_redis.url, "broker_channel_expired_time_ms": LIFE_MS, "redis_timeout_ms": 500}
    front_ends = [front_end_with(**settings), front_end_with(**settings)]
    sweep = ["sweep", "--redis", own_redis.url, "--namespace", front_ends[0].settings.namespace]
    with open(os.devnull, "rb") as nothing, (tmp_path / "sweep.log").open("wb") as log:
        sweeper = Forked(command, sweep, stdio=(nothing.fileno(), log.fileno(), log.fileno()))
    # a Redis that goes away before it has begun would end it
    wait_until(lambda: "sweeping" in (tmp_path / "sweep.log").read_text(), "the sweeper runs")
    yield front_ends
    assert sweeper.poll() is None, (tmp_path / "sweep.log").read_text()
    sweeper.terminate()
    assert sweeper.wait(60) == 0


def alike(front_ends, topics) -> bool:
    """Whether all front ends give the same bytes, for every topic and for 106."""
    seen = set()
    for front_end in front_ends:
        with front_end.client() as client:
            seen.add((*(client.route(topic).body for topic in topics), client.request(106).body))
    return len(seen) == 1


@pytest.mark.parametrize("lasts_s", [SHORT_S, LONG_S], ids=["short", "long"])
@pytest.mark.parametrize("kind", ["killed", "paused", "cut_off", "restarted_empty"])
def test_redis_away_no_route_is_lost_and_nobody_expires(own_redis, two_front_ends, kind, lasts_s):
    front_ends = two_front_ends
    with beating(BROKERS, front_ends) as fleet, watching(front_ends, KNOWN):
        with front_ends[0].client() as client:
            before = {"namespace": "ns", "key": "before", "value": "1"}
            wait_until(lambda: client.request(100, before).code == 0, "it is written")
        end = getattr(own_redis, kind)()
        began = time.monotonic()
        for front_end in front_ends:
            front_end.wait_until(lambda f=front_end: f.poll().get("view_stale"), "it noticed that Redis is away")
        with front_ends[0].client() as client:
            # a write is answered, with an error that makes the sender try again; an unknown topic is not denied
            reply = client.request(100, {"namespace": "ns", "key": "during", "value": "1"})
            assert reply.code == 1
            reply = client.route("never-heard-of")
            assert reply.code == 1
        threading.Event().wait(max(0.0, lasts_s - (time.monotonic() - began)))
        end()
        for front_end in front_ends:
            front_end.wait_until(lambda f=front_end: not f.poll().get("redis_away", True), "Redis is back")
        for member in fleet:
            member.answers.clear()
        for member in fleet:
            wait_until(lambda m=member: m.answers[0] >= 4, "registrations succeed again")
        assert expired(own_redis) == 0
        with front_ends[1].client() as client:
            assert client.request(101, {"namespace": "ns", "key": "before"}).ext_fields == {"value": "1"}
        wait_until(lambda: alike(front_ends, KNOWN), "both front ends answer alike")
        assert {key.decode() for key in own_redis.client().smembers(meta_of(front_ends) + "brokers")} == {
            "broker-a",
            "broker-b",
        }
    # The grace over, expiry works as before: those who stopped go. Their connections closed: at once.
    for front_end in front_ends:
        front_end.wait_until(lambda f=front_end: f.poll().get("brokers_alive") == 0, "brokers that closed are gone")


def meta_of(front_ends) -> str:
    return f"mq:{{{front_ends[0].settings.namespace}}}:"


def test_unknown_topics_are_denied_again_within_a_second_after_an_outage(own_redis, front_end_with):
    front_end = front_end_with(url=own_redis.url)
    took_s = [60.0]
    with front_end.client() as client:
        while min(took_s) >= 1 and len(took_s) < 6:  # a busy machine may take a second for itself
            end = own_redis.killed()
            wait_until(lambda: client.route("no-such-topic").code == 1, "Redis is away")
            threading.Event().wait(2.5)  # the worker is to find out by its own timers, and hears nothing for 2 s
            end()
            back_s = time.monotonic()
            wait_until(lambda: client.route("no-such-topic").code == 17, "the view is up to date")
            took_s.append(time.monotonic() - back_s)
    assert min(took_s) < 1, took_s


def expired(own_redis) -> int:
    client = own_redis.client()
    (key,) = [key for key in client.keys("*:changes")]
    return sum(b'"type":"broker_expired"' in entry[b"e"] for _, entry in client.xrange(key))


def test_the_sweeper_of_these_tests_does_expire_a_silent_broker(own_redis, two_front_ends):
    front_end = two_front_ends[0]
    with front_end.client() as connection, front_end.client() as client:
        connection.register(BROKERS[0])
        front_end.wait_until(lambda: client.route("only-a").code == 17, "it expired")
    assert expired(own_redis) == 1
