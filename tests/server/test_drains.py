"""Which clients have a route from before a broker name's write permission was taken."""

from __future__ import annotations

import pytest

from mqregistry.events import changes as kinds
from mqregistry.model import QueueData
from mqregistry.server.net.connection import ServerConnection
from mqregistry.server.view import drains as module

from .pair import Pair, Wire, java, request

pytestmark = pytest.mark.usefixtures("running_loop")

OLD, NEW = QueueData(8, 8, 6, 0), QueueData(8, 8, 4, 0)


class Drained:
    """One front end, and clients of it."""

    def __init__(self):
        self.pair = Pair()
        self.pair.fill(["orders", "bills", "other"])
        self.side = self.pair.quick
        self.drains = self.side.connections.drains
        self.seq = 0

    def client(self, port):
        connection = ServerConnection(self.side.connections)
        connection.connection_made(Wire())
        connection.address = f"10.0.0.1:{port}"
        return connection

    def change(self, perm, *topics, name="broker-a"):
        self.seq += 1
        data = {topic: QueueData(8, 8, perm, 0) for topic in topics}
        self.side.view.apply(kinds.WritePermSet(seq=self.seq, ms=self.seq, broker_name=name, topics=data))

    def waiting(self, name="broker-a"):
        return self.drains.look()[name].addresses


@pytest.fixture
def here():
    return Drained()


def ask(client, *topics, times=1, name=b""):
    for topic in topics:
        for _ in range(times):
            client.data_received(request(name, topic.encode(), 7) if name else java(topic, 7))


@pytest.mark.parametrize("times", [1, 5])  # the first lookups are decoded, later ones are known by their bytes
@pytest.mark.parametrize("name", ["java", "java-4", "go"])
def test_who_has_the_route_from_before_until_it_looks_it_up_again(here, times, name):
    one, two, three, four = map(here.client, (1, 2, 3, 4))
    ask(four, "orders", "bills", times=times, name=name)  # what it asked for is known when the others come
    four.connection_lost(None)
    ask(one, "orders", times=times, name=name)
    ask(two, "orders", "bills", times=times, name=name)
    ask(three, "other", times=times, name=name)
    here.change(4, "orders", "bills")
    assert here.waiting() == ["10.0.0.1:1", "10.0.0.1:2"]
    ask(one, "orders", times=times, name=name)
    ask(two, "orders", times=times, name=name)
    assert here.waiting() == ["10.0.0.1:2"]
    ask(two, "bills", times=times, name=name)
    facts = here.drains.look()["broker-a"]
    assert (facts.waiting, facts.addresses, facts.seq) == (0, [], 1)


def test_another_form_of_the_answer_is_the_same_route(here):
    one = here.client(1)
    ask(one, "orders", times=5, name="java-4")
    here.change(4, "orders")
    ask(one, "orders", name="java")
    assert here.waiting() == []


def test_a_route_of_before_a_second_wipe_counts_again(here):
    one = here.client(1)
    ask(one, "orders")
    here.change(4, "orders")
    ask(one, "orders")
    here.change(4, "bills")
    assert here.waiting() == []
    here.change(4, "orders")
    assert here.waiting() == ["10.0.0.1:1"]


def test_given_back_nobody_is_waited_for(here):
    one = here.client(1)
    ask(one, "orders")
    here.change(4, "orders")
    here.change(6, "orders")
    assert here.drains.look() == {}


def test_a_topic_that_can_be_written_to_again_is_waited_for_by_nobody(here):
    one = here.client(1)
    ask(one, "orders")
    here.change(4, "orders")
    here.side.view.tables.set_queue_data("orders", "broker-a", OLD)
    assert here.waiting() == []


def test_a_closed_connection_counts_until_it_was_last_heard_minutes_ago(here):
    one = here.client(1)
    ask(one, "orders")
    here.change(4, "orders")
    one.connection_lost(None)
    assert here.waiting() == ["10.0.0.1:1"]
    here.side.connections.clock_s += module.DRAIN_SEEN_MS / 1000 + 1
    assert here.waiting() == []


def test_a_silent_connection_counts_no_more_after_minutes(here):
    one = here.client(1)
    ask(one, "orders")
    here.change(4, "orders")
    here.side.connections.clock_s += module.DRAIN_SEEN_MS / 1000 + 1
    assert here.waiting() == []
    ask(one, "other")  # it is there after all
    assert here.waiting() == ["10.0.0.1:1"]


def test_a_name_that_is_gone_is_forgotten(here):
    here.change(4, "orders")
    here.side.view.apply(
        kinds.BrokerUnregistered(
            seq=2, ms=2, broker_name="broker-a", who="c1/1.1.1.1:10911", addr="1.1.1.1:10911", broker_id=0, row=None
        )
    )
    assert here.drains.look() == {}


def test_who_is_waited_for_and_then_forgotten_is_not_known(here, monkeypatch):
    many = here.client(1)
    ask(many, "orders", "bills", "other")
    here.change(4, "orders")
    assert here.waiting() == ["10.0.0.1:1"]
    monkeypatch.setattr(module, "MOST_ASKED", 1)
    here.drains.bound()
    ask(many, "orders")
    facts = here.drains.look()["broker-a"]
    assert (facts.addresses, facts.not_known) == ([], 1)
    many.connection_lost(None)
    here.change(4, "bills", name="broker-b")
    assert here.drains.look()["broker-b"].not_known == 0, "it is gone, so later drains need not know it"


def test_bounded(here, monkeypatch):
    monkeypatch.setattr(module, "MOST_ASKED", 4)
    many, few = here.client(1), here.client(2)
    ask(many, "orders", "bills", "other")
    ask(few, "orders")
    here.drains.bound()
    ask(many, "other")  # and remembers nothing from now on
    assert (len(many.asked.routes), len(few.asked.routes)) == (0, 1)
    here.change(4, "orders")
    facts = here.drains.look()["broker-a"]
    assert (facts.addresses, facts.not_known) == (["10.0.0.1:2"], 1)
    for number in range(30):
        here.side.view.tables.brokers[f"b{number}"] = here.side.view.tables.brokers["broker-a"]
        here.side.view.tables.set_queue_data("orders", f"b{number}", NEW)
        here.change(4, "orders", name=f"b{number}")
    assert len(here.drains.look()) == 20
