"""What is known is answered as things stand: changes of the view, draining, no sight of Redis, counts."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mqregistry.behaviour import FIVE, FOUR_EIGHT
from mqregistry.events import changes as kinds
from mqregistry.events.changes import Change, Row
from mqregistry.model import QueueData
from mqregistry.protocol.bodies.route import encode_route
from mqregistry.protocol.command import decode_command
from mqregistry.server.view.freshness import Freshness
from mqregistry.tables.tables import Tables

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


@pytest.mark.parametrize("freshness", [state for state in Freshness if state is not Freshness.LOADING])
def test_known_routes_are_given_in_every_state_and_count_as_stale_in_all_but_one(pair, freshness):
    frame = java("TopicA", 5)
    pair.learn(frame)
    hits = pair.quick.hits
    for view in pair.views:
        view.freshness = freshness
    assert decode_command(pair.feed(frame)[4:]).code == 0
    assert pair.quick.hits == hits + 1
    assert pair.quick.front_end.counters.stale_answers == (freshness is not Freshness.FRESH)
    pair.check_counts()


def test_replies_with_binary_headers_are_made_the_long_way():
    pair = Pair(serialize_type="ROCKETMQ")
    pair.fill()
    pair.learn(java("TopicA"))
    assert pair.quick.hits == 0


def test_a_topic_asked_for_once_is_not_remembered(pair):
    for topic in TOPICS:
        pair.feed(java(topic))
    assert len(pair.quick.connections.known) == 0


def test_bounded(pair):
    known = pair.quick.connections.known
    known._max_known = len(pair.quick.view.tables.topics)
    pair.fill(["t"])
    most = 2 * len(pair.quick.view.tables.topics)
    forms = range(401, 501)
    for _ in range(3):
        for version in forms:
            pair.feed(java("t", version=version) * 3)
            assert len(known) <= most
    # those that are asked for all the time stay
    hits = pair.quick.hits
    for version in forms[:60]:
        pair.feed(java("t", version=forms[0]))
        pair.feed(java("t", version=version))
    assert pair.quick.hits >= hits + 59
    pair.check_counts()


def test_there_is_room_for_every_topic(pair):
    pair.quick.connections.known._max_known = 10
    topics = [f"t{number}" for number in range(100)]
    pair.fill(topics)
    for topic in topics:
        pair.learn(java(topic))
    hits = pair.quick.hits
    for topic in topics:
        pair.feed(java(topic))
    assert pair.quick.hits == hits + len(topics)


def test_nothing_is_lost_of_the_counts(pair):
    pair.learn(java("TopicA"))
    for side in pair.sides:
        side.front_end.answers.invalidate_all()
    pair.learn(java("TopicA"))
    pair.quick.connections.known.__init__(pair.quick.front_end)
    pair.learn(java("TopicA"))
    pair.learn(java("orders"))
    for view in pair.views:
        view.apply(kinds.TopicDeleted(1, 1, topic="TopicA", broker_names=["broker-a", "broker-b"]))
    pair.learn(java("TopicA"))
    for side in pair.sides:
        assert side.front_end.lookup_counts.drain() == ({"TopicA": 12, "orders": 4}, {"TopicA": 4})


def test_an_answer_whose_topic_is_gone_is_not_kept(pair):
    pair.learn(java("TopicA"))
    view, answers = pair.quick.view, pair.quick.front_end.answers
    assert list(answers.quoted) == ["TopicA"]
    view.apply(kinds.TopicDeleted(1, 1, topic="TopicA", broker_names=["broker-a", "broker-b"]))
    assert not answers.quoted
    pair.learn(java("orders"))
    view.load(Tables(), "epoch", 9)
    assert not answers.quoted


def test_a_topic_that_changes_need_not_be_learned_again(pair):
    pair.learn(java("TopicA"))
    for seq in range(1, 20):
        for view in pair.views:
            view.apply(kinds.TopicRegistered(seq, 1, topic="TopicA", queue_datas={"broker-a": QueueData(seq, 1, 6)}))
        hits = pair.quick.hits
        for _ in range(3):
            pair.feed(java("TopicA"))
        assert pair.quick.hits == hits + 2, "only the first one after the change takes the long way"


# Changes between two reads


def filled(topics) -> Tables:
    tables = Tables()
    fill(tables, topics)
    return tables


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
        self.pair.fill(("TopicA", "orders"))
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

    def apply(self, kind: type[Change], **fields: Any) -> None:
        self.seq += 1
        for view in self.pair.views:
            view.apply(kind(self.seq, 1, **fields))
        if self.seq % 3:  # or a few changes between two reads
            self.lookups(self.seq % 2 == 0)

    @rule(topic=st.sampled_from(["TopicA", "orders", "new"]), queues=st.integers(1, 9))
    def register(self, topic, queues):
        self.apply(
            kinds.BrokerRegistered, broker_name="broker-a", who="c1|1.1.1.1:10911", cluster="c1",
            addr="1.1.1.1:10911", topics={topic: QueueData(queues, queues, 6)}, rev=self.seq,
            row=Row("c1", {0: "1.1.1.1:10911"}, "z1", True),
        )  # fmt: skip

    @rule(topic=st.sampled_from(["TopicA", "orders", "new"]))
    def delete(self, topic):
        names = list(self.pair.quick.view.tables.topics.get(topic, ()))
        self.apply(kinds.TopicDeleted, topic=topic, broker_names=names, rev=self.seq)

    @rule(topic=st.sampled_from(["TopicA", "orders", "new"]), queues=st.integers(1, 9))
    def register_topic(self, topic, queues):
        queue_datas = {"broker-a": QueueData(queues, queues, 6)}
        self.apply(kinds.TopicRegistered, topic=topic, queue_datas=queue_datas, rev=self.seq)

    @rule()
    def broker_goes(self):
        self.apply(
            kinds.BrokerUnregistered, broker_name="broker-b", who="c1|1.1.1.3:10911", cluster="c1",
            addr="1.1.1.3:10911", row=None, rev=self.seq,
        )  # fmt: skip

    @rule(perm=st.sampled_from([4, 6]))
    def write_perm(self, perm):
        self.apply(kinds.WritePermSet, broker_name="broker-a", topics={"TopicA": QueueData(8, 8, perm)}, rev=self.seq)

    @rule(text=st.sampled_from(["broker-a:4", "broker-b:2"]))
    def order_configuration(self, text):
        self.apply(kinds.KvPut, kv_namespace="ORDER_TOPIC_CONFIG", key="TopicA", value=text)

    @rule(shared=st.dictionaries(st.sampled_from(["orderMessageEnable", "supportActingMaster"]),
                                 st.sampled_from(["true", "false"])))  # fmt: skip
    def configuration(self, shared):
        for side in self.pair.sides:
            side.front_end.use_shared(shared)
        self.lookups(False)

    @rule(topics=st.sets(st.sampled_from(["TopicA", "orders", "new"])))
    def rebuild(self, topics):
        for view in self.pair.views:
            view.load(filled(topics), "epoch", self.seq)
        self.lookups(True)

    @rule(fresh=st.booleans())
    def sight(self, fresh):
        for view in self.pair.views:
            view.freshness = Freshness.FRESH if fresh else Freshness.STALE

    @rule(draining=st.booleans())
    def drain(self, draining):
        for side in self.pair.sides:
            side.front_end.draining = draining

    @rule()
    def counts(self):
        self.pair.check_counts()

    @invariant()
    def kept_answers_are_those_of_the_tables(self):
        """Also the long way keeps them."""
        for side in self.pair.sides if hasattr(self, "pair") else ():
            answers = side.front_end.answers
            for form in ("quoted", "bare"):
                for topic, kept in getattr(answers, form).items():
                    assert topic in side.view.tables.topics
                    if kept.body is not None:
                        route = answers._route(topic)
                        assert route is not None
                        assert kept.body == encode_route(
                            route, quoted_keys=form == "quoted", topic_syn_flag=answers._old_bodies
                        )


Routes.TestCase.settings = settings(
    deadline=None, max_examples=40 * TIMES, stateful_step_count=30, derandomize="CI" in os.environ
)
TestRoutes = Routes.TestCase
