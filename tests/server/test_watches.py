"""Held requests (ROUTE_WATCH) over the wire, and a RouteClient that is told of changes by real front ends."""

from __future__ import annotations

import asyncio
import json
import signal

import pytest

from mqregistry.client.routes.client import RouteClient
from mqregistry.errors import RemoteProtocolError
from mqregistry.protocol.codes import Encoding
from mqregistry.protocol.command import Command
from mqregistry.protocol.watch import MARK, MAX_TOPICS, ROUTE_WATCH, TablesVersion, WatchAnswer, WatchRequest
from mqregistry.server.requests.replies import Replies
from mqregistry.server.view.route_watches import AT_A_TIME, MAX_HOLD_S, RouteWatches
from tests.client.fake_name_server import FakeNameServer, never, route_of
from tests.waiting import until

from .harness import Broker

A = Broker("broker-a", "127.0.0.1:10911")
B = Broker("broker-b", "127.0.0.1:10921", topics=["topic2", "topic3"])


def ask(client, topics, since=None, *, hold_s=30.0):
    """Send a watch; its opaque."""
    ext_fields, body = WatchRequest(frozenset(topics), int(hold_s * 1000), since).encode()
    return client.send(ROUTE_WATCH, ext_fields, body)


def answer(client, opaque):
    reply = client.receive()
    assert reply is not None
    assert reply.opaque == opaque
    found = WatchAnswer.decode(reply.code, reply.ext_fields, reply.body)
    assert found is not None, (reply.code, reply.remark)
    return found


def position(client):
    """Where the front end stands."""
    found = answer(client, ask(client, []))
    assert found.topics == ()
    return found.position


@pytest.fixture
def served(front_end):
    """A front end, a broker's connection, and two clients'."""
    with front_end.client() as broker, front_end.client() as one, front_end.client() as two:
        assert broker.register(A).code == 0
        yield front_end, broker, one, two


def test_a_change_is_told_to_those_who_watch_that_topic(served):
    _, broker, one, two = served
    stands = position(one)
    watch_one = ask(one, ["topic1", "topic2", "nowhere"], stands)
    watch_two = ask(two, ["topic3", "nowhere"], stands)
    assert broker.register(B).code == 0
    told = answer(one, watch_one)
    assert told.topics == ("topic2",)
    assert told.position.epoch == stands.epoch
    assert told.position.seq > stands.seq
    assert "broker-b" in one.route("topic2").body.decode(), "what is announced is there"
    assert answer(two, watch_two).topics == ("topic3",), "also a topic that did not exist"
    assert broker.request(205, {"brokerName": "broker-a"}).code == 0
    told = answer(one, ask(one, ["topic1", "topic3"], told.position))
    assert told.topics == ("topic1",), "what came between two watches is told at once"


@pytest.mark.parametrize(
    "change",
    [
        lambda broker: broker.register(A, counter=2, topics={"topic1": (8, 8, 6), "topic2": (4, 4, 6)}),
        lambda broker: broker.request(205, {"brokerName": "broker-a"}),
        lambda broker: broker.request(216, {"topic": "topic1"}),
        lambda broker: broker.request(100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "topic1", "value": "broker-a:4"}),
        lambda broker: broker.request(318, None, b"orderMessageEnable=true\n"),
        lambda broker: broker.request(
            104, {"brokerId": "0", "brokerAddr": A.addr, "clusterName": A.cluster, "brokerName": A.name}
        ),
        lambda broker: broker.close(),
    ],
    ids=["registered", "wiped", "deleted", "order", "settings", "unregistered", "closed"],
)
def test_every_kind_of_change_is_told(front_end, change):
    with front_end.client() as client:
        broker = front_end.client()
        assert broker.register(Broker("broker-a", "127.0.0.1:10911")).code == 0
        watch = ask(client, ["topic1"], position(client))
        change(broker)
        told = answer(client, watch)
        assert told.topics is None or told.topics == ("topic1",)
        broker.close()


def test_what_is_not_watched_is_not_told_and_a_hold_ends(served):
    _, broker, one, _ = served
    watch = ask(one, ["topic1"], position(one), hold_s=0.5)
    assert broker.register(B).code == 0
    told = answer(one, watch)
    assert told.topics == ()
    assert told.position.seq > 0
    assert answer(one, ask(one, ["topic3"], told.position, hold_s=0.0)).topics == ()


def test_other_requests_are_answered_meanwhile_and_a_new_watch_takes_the_place_of_the_old(served):
    _, broker, one, _ = served
    stands = position(one)
    ask(one, ["topic1"], stands)
    assert one.route("topic1").code == 0
    watch = ask(one, ["topic2"], stands)
    assert broker.request(205, {"brokerName": "broker-a"}).code == 0
    assert answer(one, watch).topics == ("topic2",)
    assert one.route("topic1").code == 0, "the old watch is never answered"


def test_who_comes_from_another_epoch_or_before_the_history_looks_everything_up(served):
    _, _, one, _ = served
    stands = position(one)
    for since in (TablesVersion("another", stands.seq), TablesVersion(stands.epoch, -5)):
        assert answer(one, ask(one, ["topic1"], since)).topics is None
    ahead = ask(one, ["topic1"], TablesVersion(stands.epoch, stands.seq + 1000), hold_s=0.2)
    assert answer(one, ahead).topics == (), "another front end was ahead: nothing is missed"


@pytest.mark.parametrize(
    ("body", "why"),
    [(b"{}", "no list of topics"), (b"[1]", "no list of topics"), (b"[", "no list of topics"),
     (b"\xed", "no list of topics"), (b'["\xff"]', "no list of topics"),
     (json.dumps(["t"] * (MAX_TOPICS + 1)).encode(), "at most 20000"), (b" " * (5 << 20), "at most 1048576")],
    ids=["object", "numbers", "no-json", "no-utf8", "no-utf8-name", "too-many", "too-long"],
)  # fmt: skip
def test_a_bad_request_is_code_1_and_the_connection_lives_on(served, body, why):
    _, _, one, _ = served
    reply = one.request(ROUTE_WATCH, {"epoch": "e", "seq": "1"}, body)
    assert reply.code == 1
    assert why in reply.remark
    assert MARK not in (reply.ext_fields or {})
    assert one.route("topic1").code == 0


class Watcher:
    """A connection that keeps what it is told."""

    def __init__(self):
        self.told, self.held_bytes = [], 0

    def answer_watch(self, opaque, answer):
        self.told.append(answer)

    def hold_watch(self, size):
        self.held_bytes = size


def test_no_client_is_held_longer_than_the_limit():
    watches, watcher = RouteWatches(), Watcher()
    watches.replaced("e", 5)
    request = WatchRequest(frozenset("t"), 10**9, TablesVersion("e", 5))
    watches.watch(watcher, request, 1, 100.0)
    watches.expire(100.0 + MAX_HOLD_S - 1)
    assert not watcher.told
    watches.expire(100.0 + MAX_HOLD_S)
    assert len(watcher.told) == 1
    assert len(watches) == 0


async def test_many_are_told_in_parts_and_each_of_every_change(monkeypatch):
    monkeypatch.setattr("mqregistry.server.view.route_watches._TELL_S", 0)
    watches, many = RouteWatches(), [Watcher() for _ in range(3 * AT_A_TIME)]
    watches.replaced("e", 1)

    def watch(one):
        request = WatchRequest(frozenset("tu"), 1000, TablesVersion("e", 1))
        watches.watch(one, request, 1, 0.0)

    for one in many:
        watch(one)
    watches.changed(["t"], 2)
    watches.changed(["u"], 3)
    assert sum(len(one.told) for one in many) == AT_A_TIME
    waiting = [one for one in many if not one.told]
    gone, asks_again = waiting[:2]
    watches.gone(gone)
    watch(asks_again)
    watches.expire(1.0)  # what they are told is not that nothing has changed
    for _ in range(10):  # turns of the loop
        await asyncio.sleep(0)
    assert (len(watches), gone.told) == (0, [])
    first, rest = WatchAnswer(TablesVersion("e", 2), ("t",)), WatchAnswer(TablesVersion("e", 3), ("t", "u"))
    for one in many:
        assert one is gone or one.told == [rest if one in waiting else first]


async def test_who_waits_to_be_told_while_more_changes_than_the_history_holds_looks_everything_up(monkeypatch):
    monkeypatch.setattr("mqregistry.server.view.route_watches._TELL_S", 0)
    watches, many = RouteWatches(), [Watcher() for _ in range(2 * AT_A_TIME)]
    watches.replaced("e", 1)
    request = WatchRequest(frozenset("t"), 1000, TablesVersion("e", 1))
    for one in many:
        watches.watch(one, request, 1, 0.0)
    watches.changed(["t"], 2)
    waiting = [one for one in many if not one.told]
    assert len(waiting) == AT_A_TIME
    watches.changed([f"u{number}" for number in range(100_001)], 3)
    await asyncio.sleep(0)
    assert [one.told for one in waiting] == [[WatchAnswer(TablesVersion("e", 3), None)]] * AT_A_TIME


@pytest.mark.parametrize("encoding", list(Encoding))
def test_an_answer_is_encoded_once_for_all_who_are_told_the_same(monkeypatch, encoding):
    replies, encoded = Replies(479, "faq", encoding), []
    encode = WatchAnswer.encode
    monkeypatch.setattr(WatchAnswer, "encode", lambda answer: encoded.append(answer) or encode(answer))
    answers = [WatchAnswer(TablesVersion("e", seq), topics) for seq in (1, 2) for topics in (("t",), (), None)]
    for answer in answers[:2] * 3 + answers:
        ext_fields, body = encode(answer)
        assert replies.watched(7, answer) == replies.reply(7, ext_fields=ext_fields, body=body)
    assert encoded == answers


def test_who_asks_first_after_other_tables_came_looks_everything_up():
    """A17: Redis came back with less; the position is beyond what is there, or others have its number."""
    watches, watcher, held = RouteWatches(), Watcher(), Watcher()
    watches.replaced("e", 100)

    def watch(one, since):
        request = WatchRequest(frozenset("t"), 1000, TablesVersion("e", since))
        watches.watch(one, request, 1, 0.0)
        return [answer.topics for answer in one.told]

    watch(held, 100)
    assert watch(watcher, 100) == []
    watches.changed(["t"], 101)
    assert [answer.topics for answer in watcher.told + held.told] == [("t",), ("t",)]
    watch(held, 101)
    watches.replaced("e", 90)
    assert [answer.topics for answer in held.told] == [("t",), None]
    watches.changed(["t"], 91)
    watches.changed(["u"], 105)
    assert watch(watcher, 101) == [("t",), None]
    assert watch(watcher, 105) == [("t",), None], "told once"
    assert watch(held, 105) == [("t",), None], "it was told when the tables came"
    newcomer = Watcher()
    assert watch(newcomer, 105) == [], "it knows of no other tables"
    watches.replaced("e", 105)
    watches.gone(watcher)
    assert not watches._untold


def test_the_history_is_bounded_and_kept_for_watchers_only():
    watches, watcher = RouteWatches(), Watcher()
    watches.replaced("e", 0)

    def told(since):
        request = WatchRequest(frozenset(["t0-5", "x"]), 0, TablesVersion("e", since))
        watcher.told.clear()
        watches.watch(watcher, request, 1, 0.0)
        watches.expire(0.0)
        (answer,) = watcher.told
        return answer.topics

    watches.changed([f"t0-{n}" for n in range(10)], 1)
    assert told(0) is None, "nobody watched: nothing was kept"
    for seq in range(2, 13):
        watches.changed([f"t{seq}-{n}" for n in range(10_000)] + ["t0-5"] * (seq == 12), seq)
    assert told(1) is None
    assert told(11) == ("t0-5",)
    assert told(12) == ()
    assert sum(len(entry.topics) for entry in watches._history) <= 100_000
    watches.gone(watcher)
    assert not watches._history


def test_all_clients_together_watch_no_more_than_the_limit(monkeypatch):
    monkeypatch.setattr("mqregistry.server.view.route_watches._HELD_TOPICS", 5)
    watches, watchers = RouteWatches(), [Watcher() for _ in range(3)]
    watches.replaced("e", 5)

    def watch(watcher, topics):
        request = WatchRequest(frozenset(topics), 1000, TablesVersion("e", 5))
        watches.watch(watcher, request, 1, 0.0)

    watch(watchers[0], "abc")
    with pytest.raises(RemoteProtocolError, match="all clients together watch more than 5 topics: poll"):
        watch(watchers[1], "abc")
    watch(watchers[0], "ab")
    watch(watchers[1], "abc")
    watches.changed(["a"], 6)
    assert [len(watcher.told) for watcher in watchers] == [1, 1, 0]
    watch(watchers[2], "vwxyz")
    watches.gone(watchers[2])
    assert (watches._held_topics, watches._by_topic, len(watches)) == (0, {}, 0)


def test_a_front_end_that_drains_sends_watchers_away(served):
    front_end, _, one, _ = served
    watch = ask(one, ["topic1"], position(one))
    assert one.route("topic1").code == 0  # so that the watch is held
    front_end.process.send_signal(signal.SIGTERM)
    reply = one.receive()
    assert (reply.opaque, reply.code) == (watch, 1500)
    one.close()
    front_end.process.wait(60)


def test_watchers_that_went_leave_nothing_and_redis_away_disturbs_none(front_end_with):
    front_end = front_end_with()
    for _ in range(5):
        with front_end.client() as client:
            ask(client, ["topic1"], position(client))
    with front_end.client() as broker, front_end.client() as client:
        watch = ask(client, ["topic1"], position(client))
        assert broker.register(A).code == 0
        assert answer(client, watch).topics == ("topic1",)


# the client


def push_client(*front_ends, **options):
    options = {"poll_first_s": 0.001, "poll_every_s": 600, **options}
    return RouteClient([f"127.0.0.1:{front_end.port}" for front_end in front_ends], **options)


def broker_names(client, topic):
    return sorted({queue.broker_name for queue in client.tables.publish_infos[topic].queues})


async def write(call, *arguments, **options):
    """Repeat it until it is done: on a busy machine Redis may not answer in time, and then the answer is code 1."""

    async def done():
        reply = await asyncio.to_thread(call, *arguments, **options)
        return reply if reply.code == 0 else None

    return await until(done, "it is done")


async def test_a_route_client_is_told_of_changes(front_end):
    with front_end.client() as broker:
        await write(broker.register, A)
        async with push_client(front_end) as client:
            await client.publish_info("topic2")
            await client.publish_info("topic3")
            await until(lambda: client.push_is_active)
            await write(broker.register, B)
            await until(lambda: broker_names(client, "topic2") == ["broker-a", "broker-b"])
            await until(lambda: "topic3" in client.tables.publish_infos)
            client.subscribe("topic1")
            await until(lambda: "topic1" in client.routes)
            await write(broker.request, 205, {"brokerName": "broker-a"})
            await until(lambda: client.routes["topic1"].queue_datas["broker-a"].perm == 4)
            await until(lambda: broker_names(client, "topic2") == ["broker-b"])


async def test_it_goes_to_another_front_end_when_its_own_drains_or_dies(front_end_with):
    front_ends = [front_end_with() for _ in range(3)]
    with front_ends[2].client() as broker:
        await write(broker.register, A)
        async with push_client(*front_ends[:2]) as client:
            await client.publish_info("topic1")
            for number, how in ((1, signal.SIGTERM), (2, signal.SIGKILL)):
                await until(lambda: client.push_is_active)
                chosen = client.name_servers.chosen
                own = next(one for one in front_ends if one.port == chosen.port)
                own.process.send_signal(how)
                await until(lambda chosen=chosen: client.push_is_active and client.name_servers.chosen != chosen)
                topics = {"topic1": (4 + number, 4 + number, 6)}
                await write(broker.register, A, counter=10 + number, topics=topics)
                await until(lambda number=number: len(client.tables.publish_infos["topic1"].queues) == 4 + number)
                await asyncio.to_thread(own.process.wait, 20)
                if how == signal.SIGTERM:
                    await asyncio.to_thread(own.start)


@pytest.mark.parametrize("answers", ["code 3", "nothing"])
async def test_a_stock_name_server_is_asked_once_and_polled(answers):
    async with FakeNameServer({"t": route_of("a")}) as server:
        if answers == "nothing":

            async def usual(request):
                return await (never if request.code == ROUTE_WATCH else server.usual_answer)(request)

            server.answer = usual
        options = {"poll_first_s": 0.001, "poll_every_s": 0.01, "push_answer_s": 0.1}
        async with RouteClient(server.address, **options) as client:
            await client.publish_info("t")
            await until(lambda: any(one.code == ROUTE_WATCH for one in server.requests))
            server.routes["t"] = route_of("b")
            await until(lambda: broker_names(client, "t") == ["b"])
            count = len(server.requests)
            await until(lambda: len(server.requests) > count + 30)
            assert sum(one.code == ROUTE_WATCH for one in server.requests) == 1
            assert server.accepted == 1
            assert not client.push_is_active


async def test_an_announced_change_whose_look_up_gets_no_answer_is_not_lost():
    """The connection lives, the one answer does not come: another is made, and everything is looked up over it."""
    async with FakeNameServer({"t": route_of("a")}) as server:
        silent, seq = False, 0

        async def answers(request):
            if request.code == ROUTE_WATCH:
                if "seq" in request.ext_fields and int(request.ext_fields["seq"]) == seq:
                    await changed.wait()
                topics = () if int(request.ext_fields.get("seq", seq)) == seq else ("t",)
                ext_fields, body = WatchAnswer(TablesVersion("e", seq), topics).encode()
                return Command(code=0, ext_fields=ext_fields, body=body)
            if silent and len(server.connections) == 1:
                return None
            return await server.usual_answer(request)

        changed = asyncio.Event()
        server.answer = answers
        options = {"poll_first_s": 0.001, "poll_every_s": 600, "call_timeout_s": 0.1}
        async with RouteClient(server.address, **options) as client:
            await client.publish_info("t")
            await until(lambda: client.push_is_active)
            server.routes["t"] = route_of("b")
            silent, seq = True, 1
            changed.set()
            await until(lambda: len(server.asked()) > 2, "it was looked up")
            silent = False
            await until(lambda: broker_names(client, "t") == ["b"])
