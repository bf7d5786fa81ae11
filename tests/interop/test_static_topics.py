"""Static topics of 5.x: logical queues that stand on queues of several brokers, which clients learn from the route."""

from collections.abc import Iterator
from typing import Any

import pytest

from bench.servers.processes import Processes, wait_until

from .broker_kinds import BINARY, SPLIT, Kinds
from .conftest import with_5x
from .name_servers import REGISTER_TIMEOUT_S, NameServer
from .rocketmq import CLUSTER, Admin, Client, Release
from .wire import WireClient

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900), with_5x]

FLOW_TIMEOUT_S = 60
TOPIC = "static"
MESSAGES = 200


def route_at(server: NameServer) -> dict[str, dict[str, Any]]:
    """All that the route says, by broker name."""
    with WireClient(server.port) as client:
        route = client.route(TOPIC) or {}
    rows = {key: {row["brokerName"]: row for row in route.get(key, [])} for key in ("brokerDatas", "queueDatas")}
    return rows | {"mappings": route.get("topicQueueMappingByBroker", {})}


def wait_for_logical_queues(kinds: Kinds, number: int, brokers: set[str]) -> None:
    """Until the route has so many of them, on these brokers, and the Java NameServer's route is the same."""
    routes: list[dict[str, Any]] = []

    def probe() -> bool:
        routes[:] = ours, java = route_at(kinds.name_server), route_at(kinds.java)
        current = {name: mapping["currIdMap"] for name, mapping in ours["mappings"].items() if mapping["currIdMap"]}
        # mqadmin gives every broker of the cluster a mapping, if an empty one; the Java one does not know all brokers.
        found = sorted(int(queue) for queues in current.values() for queue in queues)
        both = {key: {name: row for name, row in rows.items() if name in kinds.at_java} for key, rows in ours.items()}
        return set(current) == brokers and found == list(range(number)) and both == java

    try:
        wait_until(f"{number} logical queues stand on {sorted(brokers)}", probe, REGISTER_TIMEOUT_S)
    except AssertionError as error:
        raise AssertionError(f"{error}\nours: {routes[:1]}\nJava: {routes[1:]}") from None


@pytest.fixture(autouse=True)
def deleted_afterwards(kinds: Kinds, admin: Admin) -> Iterator[None]:
    """A broker with a static topic makes a name server forget none of its topics, as others want it to."""
    yield
    admin.run("deleteTopic", kinds.name_server.addr, "-c", CLUSTER, "-t", TOPIC)


def test_static_topic_over_two_brokers_moves_messages_flow(
    kinds: Kinds, release: Release, processes: Processes, admin: Admin
) -> None:
    ours = kinds.name_server.addr
    update = ("updateStaticTopic", ours, "-t", TOPIC, "-qn", "4", "-b", f"{BINARY},{SPLIT}")
    admin.run(*update)
    try:
        wait_for_logical_queues(kinds, 4, {BINARY, SPLIT})
    except AssertionError:
        # A broker whose whole registration falls between the topic and its mapping tells no name server of the mapping
        # until the next change: of the same version, it counts nowhere. The operator's way out is to say it again.
        if kinds.at_java & route_at(kinds.name_server)["mappings"].keys() != route_at(kinds.java)["mappings"].keys():
            raise  # the Java name server knows better
        admin.run(*update)
        wait_for_logical_queues(kinds, 4, {BINARY, SPLIT})

    client = Client(processes, release, ours, TOPIC)
    client.send(MESSAGES)
    counts = client.wait_for_all(FLOW_TIMEOUT_S)
    assert counts.received == MESSAGES, counts

    admin.run("remappingStaticTopic", ours, "-t", TOPIC, "-b", SPLIT)
    wait_for_logical_queues(kinds, 4, {SPLIT})

    client.send(MESSAGES)
    counts = client.wait_for_all(FLOW_TIMEOUT_S)
    assert counts.received == 2 * MESSAGES, counts
