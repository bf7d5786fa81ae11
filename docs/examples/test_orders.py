"""Tests of a program that uses routes, with the fixtures that mqregistry brings: pytest test_orders.py."""

from collections.abc import Callable

import pytest

from mqregistry.client import NoRoute, RouteClientSync
from mqregistry.testing import FakeBroker, FakeCluster, InProcessRegistry, eventually


def shop(client: RouteClientSync) -> str:
    """Stands for your code: returns the broker of the next order."""
    return client.select_queue("orders").broker_name


def test_orders_go_to_the_only_broker(mq_registry: InProcessRegistry, mq_broker: Callable[..., FakeBroker]) -> None:
    mq_broker("broker-a", topics=["orders"])
    with RouteClientSync(mq_registry.address) as client:
        assert shop(client) == "broker-a"


def test_orders_go_elsewhere_when_a_master_crashes(
    mq_registry: InProcessRegistry, mq_cluster: Callable[..., FakeCluster]
) -> None:
    cluster = mq_cluster(masters=2, slaves=1, topics=["orders"])
    with RouteClientSync(mq_registry.address) as client:
        shop(client)
        cluster.master("broker-a").kill()
        eventually(lambda: {shop(client) for _ in range(8)} == {"broker-b"}, "the client knows of the crash")


def test_an_outage_of_every_name_server_is_survived(
    mq_registry: InProcessRegistry, mq_broker: Callable[..., FakeBroker]
) -> None:
    mq_broker("broker-a", topics=["orders"])
    with RouteClientSync(mq_registry.address) as client:
        shop(client)
        mq_registry.stop()
        assert shop(client) == "broker-a"
        with pytest.raises(NoRoute):
            client.select_queue("bills")
        mq_registry.start()
