"""Brokers whose operators chose another way to register: compressed, with binary headers, or in parts.

All of them stand in one cluster at one name server; those that a Java NameServer can take are registered there too.
"""

import pytest

from bench.servers.processes import Processes, wait_until

from .broker_kinds import BINARY, BINARY_HEADERS, Kinds
from .name_servers import REGISTER_TIMEOUT_S, NameServer
from .rocketmq import CLUSTER, Admin, Broker, Client, Release
from .wire import WireClient, addresses, registered_addresses, route_addresses

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

FLOW_TIMEOUT_S = 60


def topics_at(server: NameServer, name: str) -> dict[str, tuple[int, int, int]]:
    """The topics of a broker name by the name server's routes: read queues, write queues, permission."""
    found = {}
    with WireClient(server.port) as client:
        for topic in client.topics():
            for queues in (client.route(topic) or {"queueDatas": []})["queueDatas"]:
                if queues["brokerName"] == name:
                    found[topic] = (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"])
    return found


def topics_in(broker: Broker) -> dict[str, tuple[int, int, int]]:
    """The same as the broker has stored it."""
    return {
        topic: (config["readQueueNums"], config["writeQueueNums"], config["perm"])
        for topic, config in broker.topics().items()
    }


def test_brokers_of_every_kind_are_known_with_all_their_topics(
    kinds: Kinds, release: Release, processes: Processes, admin: Admin
) -> None:
    """A topic is made at each, which also makes them store what they have; a client with binary headers uses it."""
    admin.run("updateTopic", kinds.name_server.addr, "-c", CLUSTER, "-t", "spread")
    client = Client(processes, release.with_properties(BINARY_HEADERS), kinds.name_server.addr, "spread")
    client.send(300)
    counts = client.wait_for_all(FLOW_TIMEOUT_S)
    assert (counts.acknowledged, counts.missing) == (300, 0), counts
    wait_until(
        "the topic's route names every broker",
        lambda: route_addresses(kinds.name_server.port, "spread") == {broker.addr for broker in kinds.brokers.values()},
        REGISTER_TIMEOUT_S,
    )
    for kind, broker in kinds.brokers.items():
        servers = [kinds.name_server] + [kinds.java] * (kind in kinds.at_java)
        for server in servers:
            wait_until(
                f"the name server at {server.addr} has every topic of the {kind} broker",
                lambda server=server, kind=kind, broker=broker: topics_at(server, kind) == topics_in(broker) != {},
                REGISTER_TIMEOUT_S,
            )
    # 5.x: a zlib body marked as not compressed. That it is missing here shows that the broker does compress.
    at_java = {kind for kind, broker in kinds.brokers.items() if broker.addr in registered_addresses(kinds.java.port)}
    assert at_java == kinds.at_java


def test_topic_missing_in_registration_is_forgotten_where_so_set(
    kinds: Kinds, release: Release, processes: Processes, admin: Admin
) -> None:
    """mqadmin deletes it at the brokers and at the one name server that it is told of."""
    client = Client(processes, release, kinds.forgetful.addr, "short_lived")
    client.send(10)
    client.wait_for_all(FLOW_TIMEOUT_S)
    binary = kinds.brokers[BINARY]
    for server in (kinds.name_server, kinds.forgetful, kinds.java):
        wait_until(
            f"{server.addr} has the topic",
            lambda server=server: route_addresses(server.port, "short_lived") == {binary.addr},
            REGISTER_TIMEOUT_S,
        )

    client.end()
    admin.run("deleteTopic", kinds.name_server.addr, "-c", CLUSTER, "-t", "short_lived")
    assert not route_addresses(kinds.name_server.port, "short_lived")
    wait_until(
        "the forgetful name server has forgotten it",
        lambda: not route_addresses(kinds.forgetful.port, "short_lived"),
        REGISTER_TIMEOUT_S,
    )
    # The broker is still there with all else, and the Java one, told nothing, remembers.
    assert topics_at(kinds.forgetful, BINARY) == topics_in(binary)
    with WireClient(kinds.java.port) as at_java:
        assert addresses(at_java.route("short_lived")) == {binary.addr}
