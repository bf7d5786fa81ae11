"""Connections close, in every order with drains, kills and pauses: what is old changes nothing, who lives stays."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import struct
import threading
import time

import msgspec
import pytest
import redis

from mqregistry.errors import StoreUnavailable
from mqregistry.events.changes import decode_change
from mqregistry.protocol.codes import FLAG_ONEWAY, RequestCode
from mqregistry.server.net import connections
from mqregistry.store import keys

from .harness import Broker, Client, FrontEnd, wait_until
from .test_front_ends_die import reaped, sweep_until

PERIOD_S = 30.0
LATE_S = 5.0


@pytest.fixture
def pair(front_end_with):
    return front_end_with(), front_end_with()


@contextlib.contextmanager
def client_of_redis(front_end: FrontEnd):
    with redis.Redis.from_url(front_end.settings.redis, protocol=2) as client:
        yield client


@contextlib.contextmanager
def swept(front_end: FrontEnd):
    """A sweeper runs for the length of a block."""
    stop = threading.Event()

    def sweep() -> None:
        while not stop.is_set():
            with contextlib.suppress(StoreUnavailable):
                sweep_until(front_end, stop)

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    try:
        yield
    finally:
        stop.set()
        sweeper.join()


def let_pass(front_end: FrontEnd, seconds: float) -> None:
    """Move the clock of the namespace in one step, as if front ends had been heard all the time."""
    meta = keys.meta(front_end.settings.namespace)
    with client_of_redis(front_end) as client, client.pipeline(transaction=True) as steps:
        at, micros = client.time()
        offset_ms = int(client.hget(meta, "clock_offset_ms") or 0) + round(seconds * 1000)
        steps.hset(meta, "clock_offset_ms", offset_ms)
        steps.hset(meta, "seen_ms", at * 1000 + micros // 1000 + offset_ms)
        steps.execute()


def removals(front_end: FrontEnd) -> list[tuple[str, str]]:
    """(type, cause) of what took brokers away."""
    with client_of_redis(front_end) as client:
        entries = client.xrange(keys.changes(front_end.settings.namespace))
    events = [decode_change(fields[b"e"]) for _, fields in entries]
    return [(e.type, getattr(e, "cause", "")) for e in events if hasattr(e, "row") and e.type != "broker_registered"]


def has_route(client: Client, topic: str = "topic1") -> bool:
    reply = client.route(topic)
    assert reply.code in (0, 17)
    return reply.code == 0


def goodbye(broker: Broker) -> dict[str, str]:
    return {"clusterName": broker.cluster, "brokerAddr": broker.addr, "brokerName": broker.name, "brokerId": "0"}


@contextlib.contextmanager
def paused(front_end: FrontEnd):
    """The front end stands still for the length of a block, and has then seen all that was closed meanwhile."""
    front_end.wait_until(lambda: front_end.poll().get("connections"), "it has told of its connections")
    with front_end.client(timeout_s=0.2) as probe:
        front_end.process.send_signal(signal.SIGSTOP)
        with contextlib.suppress(TimeoutError):  # it may not have stopped yet
            while probe.route("topic1"):
                pass
    try:
        yield
    finally:
        front_end.process.send_signal(signal.SIGCONT)
    front_end.wait_until(lambda: front_end.poll().get("connections") == 0, "it has seen the closes")
    front_end.wait_until(lambda: front_end.poll().get("closes_pending") == 0, "it has told them")


# connections break, then front ends go


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["drained", "killed"])
def test_connections_that_break_before_a_front_end_goes_take_no_route_along(pair, how):
    """A23: a proxy before one front end ends, and a second later the other front end does: the brokers live."""
    staying, going = pair
    brokers = [Broker(f"broker-{i}", f"127.0.0.1:{20000 + i}", topics=[f"only-{i}", "topic1"]) for i in range(10)]
    to_staying, to_going = ([front_end.client() for _ in brokers] for front_end in (staying, going))
    with staying.client() as client, swept(staying):
        for one, other, broker in zip(to_staying, to_going, brokers, strict=True):
            assert one.register(broker).code == other.register(broker).code == 0
        for one in to_staying:
            one.close()
        staying.wait_until(lambda: staying.log.count("closed here, it is kept") == 10, "it has told the closes")
        going.kill(how)
        staying.wait_until(lambda: reaped(staying, going), "nothing is left of the one that went")
        time.sleep(0.3)  # the sweeper of this test looks each 0.1 s
        assert all(has_route(client, f"only-{i}") for i in range(10))
        with staying.client() as again:
            assert again.register(brokers[0]).code == 0
            let_pass(staying, PERIOD_S + LATE_S)
            wait_until(lambda: not any(has_route(client, f"only-{i}") for i in range(1, 10)), "who is dead goes")
            assert has_route(client, "only-0"), "it has beaten since"
            assert removals(staying) == [("broker_reaped", "client")] * 9
    for one in to_going:
        one.close()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["drained", "killed"])
def test_connections_that_break_before_all_front_ends_go_take_no_route_along(pair, how):
    """A rolling restart behind a proxy: every front end goes, and comes back; then who does not beat goes."""
    one, other = pair
    brokers = [Broker(f"broker-{i}", f"127.0.0.1:{20000 + i}", topics=[f"only-{i}", "topic1"]) for i in range(3)]
    with contextlib.ExitStack() as connections, swept(one):
        to_one, to_other = ([connections.enter_context(end.client()) for _ in brokers] for end in pair)
        for first, second, broker in zip(to_one, to_other, brokers, strict=True):
            assert first.register(broker).code == second.register(broker).code == 0
        for first in to_one:
            first.close()
        one.wait_until(lambda: one.log.count("closed here, it is kept") == 3, "it has told the closes")
        for front_end in (other, one):
            front_end.kill(how)
            front_end.start()
        with one.client() as client, other.client() as again:
            wait_until(lambda: reaped(one, other), "nothing is left of the ones that went")
            time.sleep(0.3)  # the sweeper of this test looks each 0.1 s
            assert all(has_route(client, f"only-{i}") and has_route(again, f"only-{i}") for i in range(3))
            assert again.register(brokers[0]).code == 0
            let_pass(one, PERIOD_S + LATE_S)
            wait_until(lambda: not any(has_route(client, f"only-{i}") for i in (1, 2)), "who is dead goes")
            assert has_route(client, "only-0"), "it has beaten since"


def test_a_close_that_leaves_no_connection_removes_at_once(pair):
    staying, going = pair
    with staying.client() as client:
        with staying.client() as one:
            with going.client() as other:
                assert one.register(Broker()).code == other.register(Broker()).code == 0
            going.wait_until(lambda: "closed here, it is kept" in going.log, "it has told the close")
            assert has_route(client)
        wait_until(lambda: not has_route(client), "the broker is gone")
    assert removals(staying) == [("broker_closed", "client")]


def test_a_broker_that_beats_over_another_connection_goes_with_the_one_it_registered_over(front_end):
    """As in Java: a 904 may come from anybody; the broker is back with its next registration."""
    broker = Broker()
    with front_end.client() as client, front_end.client() as other:
        with front_end.client() as first:
            assert first.register(broker).code == 0
            assert other.request(RequestCode.BROKER_HEARTBEAT, goodbye(broker)).code == 0
        wait_until(lambda: not has_route(client), "it is gone")
        assert other.register(broker).code == 0
        assert has_route(client)


# what was sent over a connection that has closed


@pytest.mark.parametrize("compat", ["5.x", "4.8"])
@pytest.mark.parametrize("both", [True, False], ids=["said to both", "said to the paused one alone"])
def test_a_goodbye_that_is_handled_late_ends_no_life_that_began_after_it(front_end_with, compat, both):
    """A24: a broker leaves while one front end is paused, and starts again at its address at the other one."""
    staying, stopped = (front_end_with(compat=compat) for _ in range(2))
    broker = Broker()
    with staying.client() as client:
        with staying.client() as one, stopped.client() as other:
            assert one.register(broker).code == other.register(broker).code == 0
            with paused(stopped):
                other.send(RequestCode.UNREGISTER_BROKER, goodbye(broker))
                if both:
                    assert one.request(RequestCode.UNREGISTER_BROKER, goodbye(broker)).code == 0
                one.close()
                other.close()
                started = staying.client()
                assert started.register(broker).code == 0
        with started:
            assert "do not unregister" in stopped.log
            assert has_route(client)
            assert started.request(RequestCode.UNREGISTER_BROKER, goodbye(broker)).code == 0
            assert not has_route(client)


def test_a_goodbye_that_waited_ends_a_broker_that_did_not_come_back(pair):
    staying, stopped = pair
    with staying.client() as client, staying.client() as one:
        with stopped.client() as other:
            assert one.register(Broker()).code == other.register(Broker()).code == 0
            with paused(stopped):
                other.send(RequestCode.UNREGISTER_BROKER, goodbye(Broker()))
                time.sleep(0.2)  # longer than anything waits by itself
                other.close()
        wait_until(lambda: not has_route(client), "it is gone, although its other connection is open")


def test_a_goodbye_over_one_of_two_connections_ends_the_broker_at_once(pair):
    one, other = pair
    with one.client() as first, other.client() as second, one.client() as tool, other.client() as client:
        for front_end in (first, second):
            assert first.register(Broker()).code == second.register(Broker()).code == 0
            assert front_end.request(RequestCode.UNREGISTER_BROKER, goodbye(Broker())).code == 0
            wait_until(lambda: not has_route(client), "it is gone everywhere")
        assert first.register(Broker()).code == 0
        assert tool.request(RequestCode.UNREGISTER_BROKER, goodbye(Broker())).code == 0, "by address, as in Java"
        wait_until(lambda: not has_route(client), "it is gone")


@pytest.mark.parametrize("oneway", [True, False], ids=["oneway", "with an answer"])
def test_what_was_sent_right_before_its_connection_closed_counts(front_end, oneway):
    flag = FLAG_ONEWAY if oneway else 0
    with front_end.client() as client, front_end.client() as connection:
        assert connection.register(Broker(topics=["topic1", "topic3"])).code == 0
        with front_end.client() as admin:
            admin.send(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "topic3"}, flag=flag)
        wait_until(lambda: not has_route(client, "topic3"), "it is deleted")
        with front_end.client() as leaving:
            ext, body = Broker("broker-b", "127.0.0.1:10931", topics=["only-b", "topic1"]).registration()
            assert leaving.request(RequestCode.REGISTER_BROKER, ext, body).code == 0
            leaving.send(RequestCode.UNREGISTER_BROKER, goodbye(Broker("broker-b", "127.0.0.1:10931")), flag=flag)
        wait_until(lambda: not has_route(client, "only-b"), "it has left")
    assert removals(front_end)[0][0] == "broker_unregistered"


def of_topic1(client: Client) -> int:
    return json.loads(client.route("topic1").body)["queueDatas"][0]["perm"]


def kv_of(client: Client) -> str | None:
    return (client.request(RequestCode.GET_KV_CONFIG, {"namespace": "ns", "key": "k"}).ext_fields or {}).get("value")


def config_of(client: Client) -> bool:
    return b"orderMessageEnable=true" in client.request(RequestCode.GET_NAMESRV_CONFIG).body


QUEUES = {"brokerName": "broker-a", "readQueueNums": 1, "writeQueueNums": 1, "perm": 2, "topicSysFlag": 0}
ROUTE = json.dumps({"brokerDatas": [], "filterServerTable": {}, "queueDatas": [QUEUES]}).encode()
KV, KV_NEW = {"namespace": "ns", "key": "k", "value": "old"}, {"namespace": "ns", "key": "k", "value": "new"}
# what a paused front end is asked, what is done at the other one meanwhile (None: nothing), and what must be so then
LATE = {
    "wipe": ((205, {"brokerName": "broker-a"}, b""), (327, {"brokerName": "broker-a"}, b""), of_topic1, 6),
    "give": ((327, {"brokerName": "broker-a"}, b""), (205, {"brokerName": "broker-a"}, b""), of_topic1, 4),
    "delete topic": ((216, {"topic": "topic1"}, b""), None, has_route, True),
    "register topic": ((217, {"topic": "topic1"}, ROUTE), None, of_topic1, 6),
    "put KV": ((100, KV, b""), (100, KV_NEW, b""), kv_of, "new"),
    "delete KV": ((102, KV, b""), (100, KV_NEW, b""), kv_of, "new"),
    "set config": ((318, None, b"orderMessageEnable=true"), (318, None, b"orderMessageEnable=false"), config_of, False),
}


@pytest.mark.parametrize("what", LATE)
def test_a_change_that_a_paused_front_end_finds_after_its_sender_gave_up_is_not_made(pair, what):
    staying, stopped = pair
    late, meanwhile, look, expected = LATE[what]
    with staying.client() as client, staying.client() as broker:
        assert broker.register(Broker()).code == 0
        with stopped.client() as admin, paused(stopped):
            admin.send(*late)
            time.sleep(0.2)  # it waits for an answer
            admin.close()
            if meanwhile is not None:
                assert client.request(*meanwhile).code == 0
        assert look(client) == expected
        assert "its connection closed before it was stored" in stopped.log


@pytest.mark.parametrize(
    "code", [RequestCode.REGISTER_BROKER, RequestCode.BROKER_HEARTBEAT, RequestCode.QUERY_DATA_VERSION]
)
def test_a_beat_of_a_dead_broker_that_a_paused_front_end_finds_says_nothing(pair, code):
    staying, stopped = pair
    broker = Broker()
    ext, body = broker.registration()
    body = msgspec.json.encode({"counter": 1}) if code == RequestCode.QUERY_DATA_VERSION else body
    with staying.client() as client:
        with stopped.client() as connection, paused(stopped):
            connection.send(code, ext, body if code != RequestCode.BROKER_HEARTBEAT else b"")
            time.sleep(0.2)  # a request that is younger may be read just before its close
            connection.close()
        assert "its connection closed before it was stored" in stopped.log
        assert not has_route(client)
    with client_of_redis(staying) as server:
        assert not server.exists(keys.heartbeats(staying.settings.namespace))


# why a connection closed


def test_a_broker_that_falls_silent_with_its_connection_open_expires(front_end_with):
    """A25: by default the limit for idle connections and the timeout of a broker are the same."""
    front_end = front_end_with(server_channel_max_idle_time_seconds=5, broker_channel_expired_time_ms=60_000)

    def is_there():
        with front_end.client() as client:  # the connection of one that asked before may have been idle, too
            return has_route(client)

    with front_end.client() as silent, swept(front_end):
        assert silent.register(Broker()).code == 0
        assert silent.closed(), "it was idle"
        assert is_there(), "its timeout is not over"
        let_pass(front_end, 60)
        wait_until(lambda: not is_there(), "it expired")
    assert removals(front_end) == [("broker_expired", "silence")]


def test_a_broker_that_hangs_up_and_one_whose_connection_breaks_are_told_apart(front_end):
    brokers = [Broker("broker-a", "127.0.0.1:1"), Broker("broker-b", "127.0.0.1:2")]
    with front_end.client() as client:
        with front_end.client() as connection:
            assert connection.register(brokers[0]).code == 0
        wait_until(lambda: not has_route(client), "it is gone")
        with front_end.client() as connection:
            assert connection.register(brokers[1]).code == 0
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wait_until(lambda: not has_route(client), "it is gone, too")
    assert removals(front_end) == [("broker_closed", "client"), ("broker_closed", "reset")]


# closes that are heard of late


def stood_still(front_end: FrontEnd, own_redis, connection: Client) -> None:
    """The connection closes while the front end stands still."""
    with paused(front_end):
        time.sleep(connections._STILL_S + 0.5)
        connection.close()


def redis_was_away(front_end: FrontEnd, own_redis, connection: Client) -> None:
    """The connection closes while Redis is away."""
    end = own_redis.paused()
    try:
        front_end.wait_until(lambda: front_end.poll().get("view_stale"), "it noticed that Redis is away")
        connection.close()
        front_end.wait_until(lambda: front_end.poll().get("closes_pending") == 2, "it saw it close")
        time.sleep(3.5)  # a gap (lua/include/seen), which ends with the first renewal
    finally:
        end()
    front_end.wait_until(lambda: front_end.poll().get("closes_pending") == 0, "it has told it")


@pytest.mark.parametrize("happens", [stood_still, redis_was_away])
def test_a_broker_whose_close_was_heard_of_late_has_time_to_beat_again(own_redis, front_end_with, happens):
    """A broker gives a connection up that is not answered, and beats over another one some time later."""
    front_end = front_end_with(url=own_redis.url, redis_timeout_ms=500)
    living, dead = Broker("broker-a", "127.0.0.1:1"), Broker("broker-b", "127.0.0.1:2", topics=["only-b", "topic1"])
    with swept(front_end):
        first = front_end.client()
        assert first.register(living).code == first.register(dead).code == 0
        happens(front_end, own_redis, first)
        with front_end.client() as client, front_end.client() as again:
            wait_until(lambda: front_end.log.count("closed here, it is kept") == 2, "neither is removed")
            assert has_route(client)
            assert has_route(client, "only-b")
            assert again.register(living).code == 0
            let_pass(front_end, PERIOD_S + LATE_S)
            wait_until(lambda: client.route("only-b").code == 17, "who did not beat goes")
            assert has_route(client)
            assert [kind for kind, _ in removals(front_end)] == ["broker_expired"]


# Redis pauses


def test_gaps_as_long_as_the_times_between_them_keep_no_dead_broker(own_redis, front_end_with):
    """A26: Redis is heard half of the time: who is silent goes once that has been its timeout."""
    front_end = front_end_with(url=own_redis.url, broker_channel_expired_time_ms=6000, redis_timeout_ms=500)
    with front_end.client() as silent, front_end.client() as client, swept(front_end):
        wait_until(lambda: silent.register(Broker()).code == 0, "it is registered")
        for _ in range(5):
            end = own_redis.paused()
            time.sleep(3.5)  # longer than three renewals, as a gap is
            end()
            time.sleep(3.5)
        # before it could have been silent for its whole timeout since the last gap
        wait_until(lambda: client.route("topic1").code == 17, "it expired", 2)
    assert removals(front_end) == [("broker_expired", "silence")]
