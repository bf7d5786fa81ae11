"""Which queue is next; the numbers are those of MQFaultStrategy (rocketmq 5.x)."""

from __future__ import annotations

import pytest

from mqregistry.client.routes.queues import MessageQueue, PublishInfo
from mqregistry.client.routes.selection import QueueSelector


def info(*names, queues=2):
    return PublishInfo(False, tuple(MessageQueue("t", name, n) for name in names for n in range(queues)))


class Clock:
    ms = 1000.0

    def __call__(self):
        return self.ms


def taken(selector, of, count=12, last=None):
    return {selector.select("t", of, last).broker_name for _ in range(count)}


def test_in_turn_and_each_topic_by_itself():
    selector, of = QueueSelector(), info("a", "b")
    first = [selector.select("t", of) for _ in range(8)]
    assert first[:4] == first[4:]
    assert set(first) == set(of.queues)
    at = of.queues.index(first[-1])
    for _ in range(3):
        selector.select("other", of)
    assert selector.select("t", of) == of.queues[(at + 1) % 4]


def test_nothing_to_select():
    for tolerant in (False, True):
        assert QueueSelector(latency_fault_tolerance=tolerant).select("t", info()) is None


def test_the_broker_that_failed_last_is_avoided_if_there_is_another():
    selector = QueueSelector()
    assert taken(selector, info("a", "b", "c"), last="b") == {"a", "c"}
    assert taken(selector, info("b"), last="b") == {"b"}
    assert taken(selector, info("a", "b"), last="gone") == {"a", "b"}


@pytest.mark.parametrize(
    ("latency_ms", "avoided_ms"),
    [(0, 0), (549, 0), (550, 2000), (1800, 5000), (3000, 6000), (5000, 10_000), (14_999, 10_000), (15_000, 30_000)],
)
def test_a_slow_broker_is_avoided_for_a_time(latency_ms, avoided_ms):
    clock = Clock()
    selector, of = QueueSelector(latency_fault_tolerance=True, clock_ms=clock), info("a", "b")
    selector.report("a", latency_ms)
    if avoided_ms:
        assert taken(selector, of) == {"b"}
        clock.ms += avoided_ms - 1
        assert taken(selector, of) == {"b"}
        clock.ms += 1
    assert taken(selector, of) == {"a", "b"}


def test_a_failed_send_counts_as_a_slow_one_and_a_quick_one_makes_good():
    clock = Clock()
    selector, of = QueueSelector(latency_fault_tolerance=True, clock_ms=clock), info("a", "b")
    selector.report("a", 1, failed=True)
    clock.ms += 9_999
    assert taken(selector, of) == {"b"}
    selector.report("a", 1)
    assert taken(selector, of) == {"a", "b"}


def test_when_all_are_avoided_the_least_slow_is_taken():
    selector, of = QueueSelector(latency_fault_tolerance=True, clock_ms=Clock()), info("a", "b")
    selector.report("a", 20_000)
    selector.report("b", 600)
    assert taken(selector, of) == {"b"}


def test_faults_of_brokers_that_are_gone_are_forgotten_and_off_means_off():
    selector, of = QueueSelector(latency_fault_tolerance=True, clock_ms=Clock()), info("a", "b")
    selector.report("a", 20_000)
    selector.keep_brokers({"b"})
    assert taken(selector, of) == {"a", "b"}
    off = QueueSelector(clock_ms=Clock())
    off.report("a", failed=True)
    assert taken(off, of) == {"a", "b"}
