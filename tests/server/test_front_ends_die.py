"""Front ends die, pause, drain and come back; brokers beat meanwhile; not one lookup is wrong."""

from __future__ import annotations

import json
import signal
import threading

import pytest

from mqregistry.protocol.codes import RequestCode

from .fleet import beating, watching
from .harness import Broker, wait_until
from .test_outages import BROKERS, KNOWN, alike

LEASE_S = 5.0  # mqregistry.store.leases.LEASE_MS


@pytest.fixture
def pair(front_end_with):
    return front_end_with(), front_end_with()


def answers_for(front_ends):
    def check() -> bool:
        return alike(front_ends, KNOWN)

    return check


@pytest.mark.parametrize("how", ["killed", "drained"])
def test_a_front_end_that_goes_takes_no_route_along(pair, how):
    staying, going = pair
    with beating(BROKERS, [staying, going]), watching([staying], KNOWN):
        going.kill(signal.SIGKILL if how == "killed" else signal.SIGTERM)
        if how == "drained":
            assert going.process.returncode == 0
        # until its lease has run out and it was reaped, and on: the watch goes on all the time
        staying.wait_until(lambda: reaped(staying, going), "nothing is left of the one that went")
        going.start()
        wait_until(answers_for([staying, going]), "after its restart both answer alike")


def reaped(staying, going) -> bool:
    import redis

    client = redis.Redis.from_url(staying.settings.redis, protocol=2)
    sweep_once(staying)
    prefix = f"mq:{{{staying.settings.namespace}}}:"
    try:
        return all(going.front_end.encode() not in client.hgetall(key) for key in client.keys(prefix + "channels:*"))
    finally:
        client.close()


def sweep_once(front_end) -> None:
    import asyncio

    from mqregistry.store.leases import LeaseStore
    from mqregistry.store.store import Store

    async def sweep() -> None:
        async with Store(front_end.settings.redis, front_end.settings.namespace) as store:
            leases = LeaseStore(store)
            await leases.reap(100)
            await leases.expire(100)

    asyncio.run(sweep())


def test_a_front_end_paused_longer_than_its_lease_takes_its_channels_again(pair):
    staying, pausing = pair
    fleet_ports = [staying, pausing]
    with beating(BROKERS, fleet_ports), watching([staying], KNOWN):
        pausing.process.send_signal(signal.SIGSTOP)
        staying.wait_until(lambda: reaped(staying, pausing), "the paused one was reaped")
        pausing.process.send_signal(signal.SIGCONT)
        wait_until(answers_for([staying, pausing]), "both answer alike")
        wait_until(lambda: not reaped(staying, pausing), "it holds its channels again")


def test_what_a_dead_broker_sent_to_a_paused_front_end_takes_nothing_from_the_living(pair):
    """A21: its successor has the same name and id, and another address, as a pod has that was made anew."""
    staying, paused = pair
    dead, living = Broker("b", "127.0.0.1:1001"), Broker("b", "127.0.0.1:1002")
    with staying.client() as to_staying, paused.client() as to_paused:
        assert to_staying.register(dead).code == to_paused.register(dead).code == 0
        paused.process.send_signal(signal.SIGSTOP)
        to_paused.send(RequestCode.REGISTER_BROKER, *dead.registration(counter=2, topics=["topic1", "topic3"]))
    with staying.client() as broker, staying.client() as client:
        client.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "topic1"})
        wait_until(lambda: broker.register(living).code == 0, "its successor registers")
        with watching([staying], {"topic1": {"b"}}):
            paused.process.send_signal(signal.SIGCONT)
            paused.wait_until(lambda: "its connection closed before it was stored" in paused.log, "it reads on")
            paused.wait_until(lambda: paused.poll().get("connections") == 0, "it has seen the close")
        route = json.loads(client.route("topic1").body)
        assert [broker["brokerAddrs"] for broker in route["brokerDatas"]] == [{"0": living.addr}]
        assert client.route("topic3").code == 17


def test_a_broker_that_dies_while_the_front_ends_live_is_gone_at_once(pair):
    one, other = pair
    lonely = Broker("broker-x", "127.0.0.1:10951", topics=["only-x", "topic-x"])
    with beating([lonely], [one, other]):
        pass
    for front_end in pair:
        with front_end.client() as client:
            front_end.wait_until(lambda c=client: c.route("only-x").code == 17, "the route is gone")


def test_a_silent_broker_expires_and_its_connection_is_closed(front_end_with):
    front_end = front_end_with(broker_channel_expired_time_ms=1000)
    silent = Broker()
    with front_end.client() as connection, front_end.client() as client:
        connection.register(silent)
        stop = threading.Event()
        sweeper = threading.Thread(target=sweep_until, args=(front_end, stop))
        sweeper.start()
        try:
            front_end.wait_until(lambda: client.route("topic1").code == 17, "it expired")
            assert connection.closed()
        finally:
            stop.set()
            sweeper.join()


def sweep_until(front_end, stop: threading.Event) -> None:
    while not stop.wait(0.1):
        sweep_once(front_end)
