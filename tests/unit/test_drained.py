"""What the front ends tell of a drain, put together."""

from __future__ import annotations

from mqregistry.drain import DRAIN_SEEN_MS, DrainFacts
from mqregistry.operators.drained import drain_of
from mqregistry.operators.maintenance import Maintenance
from mqregistry.store.processes import WorkerFacts, WorkerNow, front_ends_of

NOW = 10_000_000


def front_end(name="ns1:9876", *, seq=9, told_ms=NOW, **drains):
    facts = WorkerFacts(
        front_end=name, name=name, host="h", pid=1, release="1", started_ms=1, address=name, ready=True, seq=seq,
        drains={key.replace("_", "-"): facts for key, facts in drains.items()},
    )  # fmt: skip
    worker = WorkerNow(incarnation=name, told_ms=told_ms, gone=NOW - told_ms > 5000, facts=facts)
    return front_ends_of([worker], seq=seq)[0]


def since(ms_ago):
    return Maintenance("ann", NOW - ms_ago)


def test_waiting_clients_of_all_front_ends_are_added_up():
    ends = [
        front_end("a", broker_a=DrainFacts(seq=9, waiting=2, addresses=["10.0.0.1:1", "10.0.0.1:2"])),
        front_end("b", broker_a=DrainFacts(seq=9, waiting=1, addresses=["10.0.0.2:1"]), other=DrainFacts(seq=1)),
    ]
    now = drain_of("broker-a", ends, since(1000), NOW, 9)
    assert (now.waiting, now.is_done, now.not_known) == (3, False, ())
    assert str(now) == "3 clients have not looked up the new routes: 10.0.0.1:1, 10.0.0.1:2, 10.0.0.2:1"
    done = [front_end("a", broker_a=DrainFacts(seq=9)), front_end("b", broker_a=DrainFacts(seq=9))]
    assert drain_of("broker-a", done, since(1000), NOW, 9).is_done


def test_a_front_end_that_did_not_see_it_cannot_tell_until_minutes_have_passed():
    ends = [front_end("a")]
    now = drain_of("broker-a", ends, since(1000), NOW)
    assert not now.is_done
    assert "a started, or read its tables again, after the write permission was taken" in str(now)
    assert "known in 180 s" in str(now)
    assert drain_of("broker-a", ends, since(DRAIN_SEEN_MS), NOW).is_done


def test_a_front_end_that_is_behind_cannot_tell():
    old = DrainFacts(seq=3)
    assert "has not applied this change yet" in str(
        drain_of("broker-a", [front_end(seq=8, broker_a=old)], since(1), NOW, 9)
    )


def test_clients_of_too_many_topics_are_not_known():
    ends = [front_end(broker_a=DrainFacts(seq=9, not_known=2))]
    assert "has 2 clients with too many topics to remember" in str(drain_of("broker-a", ends, since(1), NOW, 9))


def test_clients_of_a_front_end_that_went_count_for_minutes():
    facts = DrainFacts(seq=9, waiting=1, addresses=["10.0.0.1:1"])
    gone = front_end("a", told_ms=NOW - 60_000, broker_a=facts)
    assert (drain_of("broker-a", [gone], since(61_000), NOW, 9).waiting) == 1
    long_gone = front_end("a", told_ms=NOW - DRAIN_SEEN_MS, broker_a=facts)
    assert drain_of("broker-a", [long_gone], since(DRAIN_SEEN_MS), NOW, 9).is_done
