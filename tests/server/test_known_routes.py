"""What is known is answered as things stand: changes of the view, draining, no sight of Redis, counts."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from registry import change as kinds
from registry.behaviour import FIVE, FOUR_EIGHT
from registry.change import Change, Row
from registry.model import QueueData
from registry.protocol.command import decode_command
from registry.tables import Tables

from .pair import TIMES, TOPICS, Pair, fill, java, request

pytestmark = pytest.mark.usefixtures("running_loop")


@pytest.mark.parametrize("version", [373, 475, 476, 479])
def test_draining(pair, version):
    frame = java("TopicA", 5, version)
    pair.learn(frame)
    hits = pair.quick.hits
    for side in pair.sides:
        side.front_end.draining = True
    answer = decode_command(pair.feed(frame)[4:])
    assert answer.code == (1500 if version >= 476 else 0)
    assert pair.quick.hits == hits


def test_without_sight_of_redis_answers_count_as_stale(pair):
    frame = java("TopicA", 5)
    pair.learn(frame)
    pair.view.fresh = False
    pair.feed(frame)
    assert pair.quick.front_end.counters.stale_answers == 1
    pair.check_counts()


def test_replies_with_binary_headers_are_made_the_long_way():
    pair = Pair(serialize_type="ROCKETMQ")
    fill(pair.view.exact)
    pair.learn(java("TopicA"))
    assert pair.quick.hits == 0


def test_a_topic_asked_for_once_is_not_remembered(pair):
    for topic in TOPICS:
        pair.feed(java(topic))
    assert len(pair.quick.connections.known) == 0


def test_bounded(pair):
    known = pair.quick.connections.known
    known._max_known = 10
    fill(pair.view.exact, [f"t{number}" for number in range(100)])
    for _ in range(3):
        for number in range(100):
            pair.feed(java(f"t{number}") * 3)
            assert len(known) <= 20
    # those that are asked for all the time stay
    hits = pair.quick.hits
    for number in range(60):
        pair.feed(java("t0"))
        pair.feed(java(f"t{number}"))
    assert pair.quick.hits >= hits + 59
    pair.check_counts()


def test_nothing_is_lost_of_the_counts_when_all_is_forgotten(pair):
    pair.learn(java("TopicA"))
    pair.quick.connections.known.clear()
    pair.learn(java("TopicA"))
    pair.view.forget_answers()
    pair.learn(java("TopicA"))
    assert pair.quick.front_end.lookup_counts.drain() == ({"TopicA": 12}, {})
    assert pair.slow.front_end.lookup_counts.drain() == ({"TopicA": 12}, {})


def test_counters_that_are_forgotten_are_asked_for_again(pair):
    counts = pair.quick.front_end.lookup_counts
    counts._max_topics = 2
    pair.learn(java("TopicA"))
    pair.learn(java("orders"))
    counts.drain()
    pair.learn(java("orders"))
    assert counts.drain() == ({"orders": 4}, {})
    assert len(pair.quick.connections.known) == 0, "TopicA was forgotten"
    pair.learn(java("TopicA"))
    pair.learn(java("orders"))
    assert counts.drain() == ({"TopicA": 4, "orders": 4}, {})


# Changes between two reads


class Routes(RuleBasedStateMachine):
    """Lookups between changes of the view: never an answer of before."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        asyncio._set_running_loop(self.loop)
        self.seq = 0

    def teardown(self) -> None:
        asyncio._set_running_loop(None)
        self.loop.close()

    @initialize(behaviour=st.sampled_from([FIVE, FOUR_EIGHT]))
    def start(self, behaviour):
        self.pair = Pair(behaviour)
        self.view = self.pair.view
        fill(self.view.exact, ("TopicA", "orders"))
        self.opaque = 1
        for _ in range(3):
            self.lookups(False)
        assert self.pair.quick.hits > 6

    @rule(together=st.booleans())
    def lookups(self, together):
        """All of them, after every change; the first are learned, the others known."""
        frames = []
        for client in ("java", "java-4", "go"):
            for topic in (b"TopicA", b"orders", b"new"):
                self.opaque = (self.opaque * 7 + 1) % 2**31
                frames.append(request(client, topic, self.opaque))
        for data in [b"".join(frames)] if together else frames:
            self.pair.feed(data)

    def apply(self, kind: str, **fields: Any) -> None:
        self.seq += 1
        self.view.apply(Change(self.seq, 1, kind, **fields))
        if self.seq % 3:  # or a few changes between two reads
            self.lookups(self.seq % 2 == 0)

    @rule(topic=st.sampled_from(["TopicA", "orders", "new"]), queues=st.integers(1, 9))
    def register(self, topic, queues):
        self.apply(
            kinds.BROKER_REGISTERED, broker_name="broker-a", who="c1|1.1.1.1:10911", cluster="c1",
            addr="1.1.1.1:10911", topics={topic: QueueData(queues, queues, 6)}, rev=self.seq,
            row=Row("c1", {0: "1.1.1.1:10911"}, "z1", True),
        )  # fmt: skip

    @rule(topic=st.sampled_from(["TopicA", "orders", "new"]))
    def delete(self, topic):
        names = list(self.view.exact.topics.get(topic, ()))
        self.apply(kinds.TOPIC_DELETED, topic=topic, broker_names=names, rev=self.seq)

    @rule(topic=st.sampled_from(["TopicA", "orders", "new"]), queues=st.integers(1, 9))
    def register_topic(self, topic, queues):
        queue_datas = {"broker-a": QueueData(queues, queues, 6)}
        self.apply(kinds.TOPIC_REGISTERED, topic=topic, queue_datas=queue_datas, rev=self.seq)

    @rule()
    def broker_goes(self):
        self.apply(
            kinds.BROKER_UNREGISTERED, broker_name="broker-b", who="c1|1.1.1.3:10911", cluster="c1",
            addr="1.1.1.3:10911", row=None, rev=self.seq,
        )  # fmt: skip

    @rule(perm=st.sampled_from([4, 6]))
    def write_perm(self, perm):
        self.apply(kinds.WRITE_PERM_SET, broker_name="broker-a", topics={"TopicA": QueueData(8, 8, perm)}, rev=self.seq)

    @rule(text=st.sampled_from(["broker-a:4", "broker-b:2"]))
    def order_configuration(self, text):
        self.apply(kinds.KV_PUT, kv_namespace="ORDER_TOPIC_CONFIG", key="TopicA", value=text)

    @rule(shared=st.dictionaries(st.sampled_from(["orderMessageEnable", "supportActingMaster"]),
                                 st.sampled_from(["true", "false"])))  # fmt: skip
    def configuration(self, shared):
        for side in self.pair.sides:
            side.front_end.use_shared(shared)
        self.lookups(False)

    @rule(topics=st.sets(st.sampled_from(["TopicA", "orders", "new"])))
    def rebuild(self, topics):
        tables = Tables()
        fill(tables, topics)
        self.view.load(tables, "epoch", self.seq)
        self.lookups(True)

    @rule(topics=st.sets(st.sampled_from(["TopicA", "orders", "new"])))
    def rebuild_beside(self, topics):
        tables = Tables()
        fill(tables, topics)
        self.view.load_beside(tables, "epoch", self.seq)
        self.lookups(False)

    @precondition(lambda self: self.view.beside)
    @rule()
    def grace_ends(self):
        self.view.end_beside()

    @rule(fresh=st.booleans())
    def sight(self, fresh):
        self.view.fresh = fresh

    @rule(draining=st.booleans())
    def drain(self, draining):
        for side in self.pair.sides:
            side.front_end.draining = draining

    @rule()
    def counts(self):
        self.pair.check_counts()

    @invariant()
    def kept_answers_are_those_of_the_tables(self):
        """The long way keeps answers too: so it is compared with a view that keeps none."""
        if not hasattr(self, "pair"):
            return
        kept = {form: dict(getattr(self.view, form)) for form in ("quoted", "bare")}
        self.view.quoted.clear()
        self.view.bare.clear()
        for form, answers in kept.items():
            for topic, body in answers.items():
                assert self.view.route_body(topic, quoted_keys=form == "quoted") == body, (form, topic)
        self.view.quoted.clear()
        self.view.bare.clear()
        for form, answers in kept.items():
            getattr(self.view, form).update(answers)


Routes.TestCase.settings = settings(
    deadline=None, max_examples=40 * TIMES, stateful_step_count=30, derandomize="CI" in os.environ
)
TestRoutes = Routes.TestCase


def test_the_view_never_exchanges_the_dicts_of_kept_answers(pair):
    """What is known points to them."""
    view = pair.view
    dicts = view.quoted, view.bare
    tables = Tables()
    view.load(tables, "e", 1)
    view.load_beside(Tables(), "e", 2)
    view.end_beside()
    view.forget_answers()
    pair.quick.front_end.use_shared({"orderMessageEnable": "true"})
    assert (view.quoted, view.bare) == ({}, {})
    assert view.quoted is dicts[0]
    assert view.bare is dicts[1]
