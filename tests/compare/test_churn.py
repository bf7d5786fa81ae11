"""While tables change all the time, two front ends and their Redis are the same, and one that stays behind is not."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time

import pytest

from mqregistry.cli.outside.comparing import Comparing
from mqregistry.cli.outside.sides import NameServerSide, RedisSide
from mqregistry.client.addresses import NameServerAddress
from mqregistry.compare.judged_differences import Sort
from tests.client.fake_name_server import FakeNameServer
from tests.server.harness import Broker, Client, FrontEnd, wait_until

from .java_like import answer_as_java, tables_of

LASTING_MS = 4000  # a busy machine may have a side stand still for seconds
CHURN_S = 8.0
TOPICS = [f"t{number}" for number in range(60)]


class Churn:
    """A broker that registers other topics again and again, now at one front end, now at the other."""

    def __init__(self, ports):
        self.registered = 0
        self._ports = ports
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        wait_until(lambda: self.registered > 2, "the first registrations")
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _run(self):
        chance, broker = random.Random(7), Broker(addr="10.0.0.1:10911", topics=["orders", *TOPICS])
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Client(port)) for port in self._ports]
            while not self._stop.is_set():
                broker.counter += 1
                some = {topic: (chance.randrange(1, 9), 4, 6) for topic in chance.sample(TOPICS, 20)}
                assert (
                    chance.choice(clients).register(broker, topics={"orders": (4, 4, 6)} | broker.topics | some).code
                    == 0
                )
                self.registered += 1
                self._stop.wait(0.005)


@pytest.fixture
def ports(redis_url, namespace):
    front_ends = [FrontEnd(redis_url, namespace) for _ in range(2)]
    yield [each.port for each in front_ends]
    for each in front_ends:
        each.close()


def name_server(port):
    return NameServerSide(NameServerAddress("127.0.0.1", port, "127.0.0.1"), timeout_s=20, tls=None)


async def seen_by(comparing, seconds, *, until=lambda report: False):
    """Every report of looks at everything, and again at what differs, for so long."""
    reports = []
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s and not (reports and until(reports[-1])):
        reports.append(await comparing.look())
        if not until(reports[-1]):
            reports.append(await comparing.until(lambda report: not report.of(Sort.YOUNG), end_s))
    return reports


def test_equal_sides_stay_the_same_and_a_stale_one_is_named(ports, redis_url, namespace):
    async def compare():
        one, other = map(name_server, ports)
        redis = RedisSide(redis_url, namespace, "redis", timeout_ms=20_000)
        equal = Comparing([one, other, redis], topics=None, kv_namespaces=(), lasting_ms=LASTING_MS)
        async with FakeNameServer() as server:
            answer_as_java(server, tables_of(["orders"]))
            stale = name_server(server.port)
            behind = Comparing([one, stale], topics=["orders"], kv_namespaces=(), lasting_ms=LASTING_MS)
            seen = (
                await seen_by(equal, CHURN_S),
                await seen_by(behind, 10 * LASTING_MS / 1000, until=lambda report: report.of(Sort.COUNTED)),
            )
            for side in (one, other, stale):
                await side.close()
        return seen

    with Churn(ports) as churn:
        equal, behind = asyncio.run(compare())
    assert churn.registered > 50
    assert any(report.of(Sort.YOUNG) for report in equal), "no change was met on its way: this shows nothing"
    assert [one for report in equal for one in report.of(Sort.COUNTED)] == []
    assert ("topic", "orders", "queues", "broker-a") in {one.cell for one in behind[-1].of(Sort.COUNTED)}
