"""/rocketmq/nsaddr and /http_sd: what clients, brokers and Prometheus are told of the front ends."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from mqregistry.client.address_server import AddressServer
from mqregistry.config.settings import Settings
from mqregistry.errors import PeerUnavailable
from mqregistry.server.process.http import HttpServer
from mqregistry.server.process.known_fleet import KnownFleet
from mqregistry.server.process.metrics import FrontEndWorkers as Workers
from mqregistry.server.process.port.sockets import advertised
from mqregistry.store.processes import Fleet, SweeperFacts, SweeperNow, WorkerFacts, WorkerNow, front_ends_of
from tests.waiting import until

from .harness import Broker
from .serving import Serving, free_ports, get


def worker(number, *, gone=False, **fields):
    facts = WorkerFacts(
        host="h", pid=1, release="1", started_ms=1, front_end=f"fe{number}", name=f"ns{number}:9876",
        address=f"10.0.0.{number}:9876", **{"ready": True, "http_address": f"10.0.0.{number}:10876", **fields},
    )  # fmt: skip
    return WorkerNow(incarnation=f"w{number}", told_ms=1, gone=gone, facts=facts)


def fleet(*workers, now_ms=60_000, sweepers=()):
    front_ends = front_ends_of(workers, seq=0)
    return Fleet(now_ms=now_ms, up_since_ms=0, seq=0, front_ends=front_ends, sweepers=list(sweepers))


def known(*workers, **fields):
    found = KnownFleet("fe1", "orders")
    found.learn(fleet(*workers, **fields))
    return found


@pytest.fixture
def http():
    """The port of an HTTP server of these lists, and the lists."""
    (port,) = free_ports(1)
    lists = KnownFleet("fe1", "orders")
    server = HttpServer("127.0.0.1", port, Workers(1), lists)
    yield port, lists
    server.close()


def test_only_those_that_are_ready_and_do_not_drain_are_in_the_list():
    others = [worker(2, draining=True), worker(3, ready=False), worker(4, gone=True), worker(5, workers=2)]
    assert known(worker(1), *others, worker(6)).addresses() == b"10.0.0.1:9876;10.0.0.6:9876"


def test_the_own_front_end_leaves_the_list_when_it_begins_to_drain():
    draining = False
    lists = KnownFleet("fe1", "orders", lambda: draining)
    lists.learn(fleet(worker(1), worker(2)))
    draining = True
    assert lists.addresses() == b"10.0.0.2:9876"


def test_a_redis_that_came_back_with_less_does_not_shorten_the_list_before_all_could_renew():
    lists = known(worker(1), worker(2))
    lists.learn(fleet(worker(1), now_ms=9_999))
    assert lists.addresses() == b"10.0.0.1:9876;10.0.0.2:9876"
    lists.learn(fleet(worker(1), now_ms=10_000))
    assert lists.addresses() == b"10.0.0.1:9876"


def test_prometheus_gets_every_http_port_also_of_those_that_are_gone():
    facts = SweeperFacts(host="h", pid=9, release="1", started_ms=1, http_address="10.0.0.7:10876")
    sweeper = SweeperNow(id="s", last_sweep_ms=1, gone=False, facts=facts)
    lists = known(worker(1), worker(2, gone=True), worker(3, http_address=""), sweepers=[sweeper])
    assert json.loads(lists.targets) == [
        {
            "targets": [address],
            "labels": {f"__meta_mqregistry_{name}": value for name, value in {"namespace": "orders", **labels}.items()},
        }
        for address, labels in (
            ("10.0.0.1:10876", {"kind": "front_end", "name": "ns1:9876", "address": "10.0.0.1:9876"}),
            ("10.0.0.2:10876", {"kind": "front_end", "name": "ns2:9876", "address": "10.0.0.2:9876"}),
            ("10.0.0.7:10876", {"kind": "sweeper", "name": "h/9"}),
        )
    ]


async def test_clients_get_the_list_as_they_expect_it_and_none_is_no_empty_list(http):
    port, lists = http
    server = AddressServer.at(f"127.0.0.1:{port}")
    with pytest.raises(PeerUnavailable, match="status 503"):
        await server.fetch()
    lists.learn(fleet(worker(1), worker(2)))
    assert await server.fetch() == "10.0.0.1:9876;10.0.0.2:9876"
    assert get(port, "/rocketmq/nsaddr").body == b"10.0.0.1:9876;10.0.0.2:9876", "other clients take all of it"
    assert get(port, "/rocketmq/nsaddr-unit?nofix=1").status == 404


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"bind_address": "10.0.0.5"}, ("10.0.0.5:9876", "10.0.0.5:10876")),
        ({"bind_address": "10.0.0.5", "http_port": 0}, ("10.0.0.5:9876", "")),
        ({"bind_address": "::1"}, ("[::1]:9876", "[::1]:10876")),
        ({"advertised_address": "ns1.example.com"}, ("ns1.example.com:9876", "ns1.example.com:10876")),
        ({"advertised_address": "ns1.example.com:30076"}, ("ns1.example.com:30076", "ns1.example.com:10876")),
        ({"advertised_address": "[fd00::1]:30076"}, ("[fd00::1]:30076", "[fd00::1]:10876")),
        ({"advertised_address": "[fd00::1]"}, ("[fd00::1]:9876", "[fd00::1]:10876")),
    ],
)
def test_the_address_that_others_are_told(settings, expected):
    assert advertised(Settings(**settings)) == expected


def test_who_listens_on_all_addresses_tells_one_that_is_not_all():
    host, _, port = advertised(Settings())[0].rpartition(":")
    assert (port, host.count("."), host != "0.0.0.0") == ("9876", 3, True)


def test_two_front_ends_list_each_other_until_one_drains(tmp_path, redis_url):
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(contextlib.closing(Serving(tmp_path, redis_url)))
        second = stack.enter_context(
            contextlib.closing(Serving(tmp_path, redis_url, namespace=first.namespace, workers=2, sweep="false"))
        )
        both = ";".join(sorted(f"127.0.0.1:{one.port}" for one in (first, second))).encode()
        for one in (first, second):
            one.wait_until(lambda one=one: one.get("/rocketmq/nsaddr").body == both, "both are listed")
        targets = {entry["targets"][0] for entry in json.loads(first.get("/http_sd").body)}
        assert targets == {f"127.0.0.1:{one.http_port}" for one in (first, second)}
        with contextlib.closing(first.client()) as client:  # a broker, so that there is somebody to send away
            assert client.register(Broker()).code == 0
            second.process.terminate()
            alone = f"127.0.0.1:{first.port}".encode()
            first.wait_until(lambda: first.get("/rocketmq/nsaddr").body == alone, "the one that drains is not listed")
            assert second.process.wait(60) == 0


async def test_a_list_that_cannot_be_read_leaves_the_last_one(store, monkeypatch):
    lists = known(worker(1))
    await store.client.set(f"mq:{{{store.namespace}}}:processes", "no hash")
    following = asyncio.create_task(lists.follow(store))
    try:
        reads = 0
        original = store.read

        async def read(*commands):
            nonlocal reads
            reads += 1
            return await original(*commands)

        monkeypatch.setattr(store, "read", read)
        await until(lambda: reads, "it is read")
        await asyncio.sleep(0)
        assert lists.addresses() == b"10.0.0.1:9876"
        assert not following.done()
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def test_a_fleet_without_a_sweeper_is_told_once_in_the_log_and_at_readyz(http, caplog):
    caplog.set_level("INFO")
    port, lists = http
    facts = SweeperFacts(host="h", pid=2, release="1", started_ms=1)

    def learn(now_ms, *, gone):
        sweeper = SweeperNow(id="s", last_sweep_ms=1, gone=gone, facts=facts)
        lists.learn(fleet(worker(1), now_ms=now_ms, sweepers=[sweeper]))
        return json.loads(get(port, "/readyz").body).get("warnings", [])

    assert learn(60_000, gone=False) == learn(100_000, gone=True) == learn(114_000, gone=True) == []
    assert caplog.records == []
    for now_ms in (115_000, 130_000):
        (warning,) = learn(now_ms, gone=True)
        assert warning.startswith("no sweeper runs: brokers that fall silent stay in every route; start ")
    assert learn(140_000, gone=False) == learn(154_000, gone=True) == []
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", warning), ("WARNING", "a sweeper runs"),
    ]  # fmt: skip
