"""The registrar's blocking face, against a real front end; what all faces have in common is tested in test_sync."""

from __future__ import annotations

import threading

import pytest

from mqregistry.client.broker.registrar_sync import BrokerRegistrarSync
from mqregistry.client.broker.topic_table import TopicTable
from mqregistry.errors import ClientClosed, ConfigError
from mqregistry.model import TopicConfig
from tests.server.harness import wait_until

from .registrar_bed import NEVER, broker, brokers_at, queues_at

TOPICS = [TopicConfig("t1", 8, 8, 6), TopicConfig("t2", 8, 8, 6)]


@pytest.fixture
def front_end(shared_front_end):
    return shared_front_end


@pytest.fixture
def address(front_end):
    return f"127.0.0.1:{front_end.port}"


def test_registers_changes_and_leaves(front_end, address):
    with BrokerRegistrarSync(broker(), TOPICS, address, pace=NEVER) as registrar:
        assert registrar.results[address].status == "registered"
        assert brokers_at(front_end.port) == {"broker-a": {0: "127.0.0.1:10911"}}
        before = registrar.data_version
        registrar.put_topic("t3", 2, 2, perm=4)
        registrar.put(TopicConfig("t1", 1, 1, 6))
        assert registrar.data_version.counter == before.counter + 2
        assert registrar.register_now()[address].data_version == registrar.data_version
        assert queues_at(front_end.port, "t3") == {"broker-a": (2, 2, 4)}
        registrar.remove("t2")
        assert set(registrar.topics) == {"t1", "t3"}
        registrar.change(broker_permission=4)
        registrar.register_now()
        assert queues_at(front_end.port, "t1") == {"broker-a": (1, 1, 4)}
        assert (registrar.master_addr, registrar.ha_server_addr, registrar.order_topic_config) == ("", "", {})
        with pytest.raises(ConfigError):
            registrar.change(broker_name="another")
    assert registrar.unregistered == {address: ""}
    assert brokers_at(front_end.port) == {}
    with pytest.raises(ClientClosed):
        registrar.put_topic("t4")


def test_threads_may_change_the_table_at_the_same_time(front_end, address):
    with BrokerRegistrarSync(broker(), TOPICS, address, pace=NEVER) as registrar:
        before = registrar.data_version.counter
        threads = [
            threading.Thread(target=lambda n=n: [registrar.put_topic(f"t{n}-{i}") for i in range(20)]) for n in range(5)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert registrar.data_version.counter == before + 100
        wait_until(lambda: all(queues_at(front_end.port, f"t{n}-19") for n in range(5)), "they are registered")
        registrar.register_now()
        assert all(queues_at(front_end.port, f"t{n}-{i}") for n in range(5) for i in range(20))


def test_another_list_and_redis(front_end, address, redis_url):
    namespace = front_end.settings.namespace
    with BrokerRegistrarSync(broker(), TOPICS, "127.0.0.1:1", pace=NEVER) as registrar:
        assert not registrar.results["127.0.0.1:1"].ok
        registrar.use_name_servers(address)
        wait_until(lambda: address in registrar.results, "the other one is registered at")
    options = {"transport": "redis", "redis": redis_url, "namespace": namespace, "pace": NEVER}
    with BrokerRegistrarSync(broker(), TOPICS, **options) as registrar:
        assert [result.status for result in registrar.results.values()] == ["registered"]
        wait_until(lambda: queues_at(front_end.port, "t1"), "the front end has it")
    wait_until(lambda: brokers_at(front_end.port) == {}, "it left")


def test_it_takes_a_topic_table_that_any_thread_may_change(front_end, address):
    """A version is never registered before the topics that it is about, whichever thread changes them."""
    topics = TopicTable(TOPICS)
    with BrokerRegistrarSync(broker(), topics, address, pace=NEVER) as registrar:
        assert registrar.topics == dict(topics)
        topics.put_topic("t3", 2, 2)
        wait_until(lambda: queues_at(front_end.port, "t3"), "the change of the table is registered by itself")
        threads = [
            threading.Thread(target=lambda n=n: [topics.put_topic(f"t{n}-{i % 5}", i + 1, i + 1) for i in range(40)])
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        names = [f"t{n}-{i}" for n in range(4) for i in range(5)]
        wait_until(
            lambda: all(queues_at(front_end.port, name) == {"broker-a": (topics[name].read_queue_nums,) * 2 + (6,)}
                        for name in names),
            "every change is registered, without the whole table being sent again",
        )  # fmt: skip
        assert registrar.data_version == topics.data_version
