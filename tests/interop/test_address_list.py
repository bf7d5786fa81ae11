"""More than one name server in the address list, and one of them goes while messages flow."""

import pytest

from bench.servers.processes import Processes, wait_until

from .conftest import release_or_skip
from .name_servers import REGISTER_TIMEOUT_S, JavaNameServers, Kind, NameServer, wait_for_registration
from .rocketmq import Admin, Broker, Client, Release
from .wire import RouteWatch, addresses, route_addresses

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

FLOW_TIMEOUT_S = 60
PER_SECOND = 100
# Longer than the broker's registration period and many of the client's polls.
LOSS_WINDOW_S = 12


def address_list(*name_servers: NameServer) -> str:
    return ";".join(server.addr for server in name_servers)


def wait_for_route(name_server: NameServer, client: Client, broker: Broker) -> None:
    wait_until(
        f"{name_server.addr} has the route of {client.topic}",
        lambda: route_addresses(name_server.port, client.topic) == {broker.addr},
        REGISTER_TIMEOUT_S,
    )


def wait_for_newcomer(admin: Admin, both: str, client: Client, broker: Broker) -> None:
    """One that starts with a dead address in its list finds the living one.

    Not at once: a 5.x client tries a single address a request, and its mqadmin gives up with the first.
    """
    wait_until(
        f"mqadmin finds the route of {client.topic} with {both}",
        lambda: addresses(admin.route(both, client.topic)) == {broker.addr},
        REGISTER_TIMEOUT_S,
    )


def test_one_of_two_front_ends_killed_nothing_is_lost(
    under_test: Kind, release: Release, processes: Processes, admin: Admin
) -> None:
    first, second = under_test.start_two(processes)
    both = address_list(first, second)
    broker = Broker(processes, release, both)
    broker.start()
    for server in (first, second):
        wait_for_registration(server, broker)

    client = Client(processes, release, both, "survives")
    client.flow(PER_SECOND)
    client.wait_for_acknowledged(PER_SECOND, FLOW_TIMEOUT_S)
    for server in (first, second):
        wait_for_route(server, client, broker)

    with RouteWatch(second.port, client.topic, broker.addr):
        first.process.kill()
        client.wait_for_acknowledged(PER_SECOND * LOSS_WINDOW_S, FLOW_TIMEOUT_S)
    wait_for_newcomer(admin, both, client, broker)

    client.stop()
    counts = client.wait_for_all(FLOW_TIMEOUT_S)
    assert counts.failures == 0, counts


def test_java_name_servers_beside_ours_stopped_for_good_messages_flow_on(
    under_test: Kind, release: Release, processes: Processes, admin: Admin
) -> None:
    """The way to migrate: ours join the list, brokers and clients use all, the Java ones leave one after the other."""
    java_kind = JavaNameServers(lambda: release_or_skip(release.version), release.version)
    java = java_kind.start_two(processes)
    ours = under_test.start_two(processes)
    everybody = address_list(*java, *ours)
    broker = Broker(processes, release, everybody)
    broker.start()
    for server in (*java, *ours):
        wait_for_registration(server, broker)

    client = Client(processes, release, everybody, "migrates")
    client.flow(PER_SECOND)
    client.wait_for_acknowledged(PER_SECOND, FLOW_TIMEOUT_S)
    for server in (*java, *ours):
        wait_for_route(server, client, broker)

    with (
        RouteWatch(ours[0].port, client.topic, broker.addr),
        RouteWatch(ours[1].port, client.topic, broker.addr),
    ):
        java[0].process.terminate(within_s=30)
        client.wait_for_acknowledged(PER_SECOND * 3, FLOW_TIMEOUT_S)
        java[1].process.kill()
        counts = client.wait_for_acknowledged(PER_SECOND * LOSS_WINDOW_S, FLOW_TIMEOUT_S)
    assert counts.failures == 0, counts

    # What starts now finds dead addresses in its list, or, configured anew, none.
    broker.process.kill()
    broker.start()
    for server in ours:
        wait_for_registration(server, broker)
        wait_for_route(server, client, broker)
    client.wait_for_acknowledged(PER_SECOND, FLOW_TIMEOUT_S)
    client.stop()
    client.wait_for_all(FLOW_TIMEOUT_S)
    wait_for_newcomer(admin, everybody, client, broker)
    assert addresses(admin.route(address_list(*ours), client.topic)) == {broker.addr}
