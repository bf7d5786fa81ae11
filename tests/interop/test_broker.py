"""A stock broker, producer, consumer and mqadmin at one name server: the way there, and every way to lose a broker."""

import pytest

from bench.servers.processes import Processes, wait_until

from .conftest import Site
from .name_servers import OURS, REGISTER_TIMEOUT_S, Kind
from .rocketmq import BROKER_NAME, CLUSTER, Admin, Broker, Client, Release
from .wire import WireClient, addresses, registered_addresses, route_addresses

# The first test may have to fetch a release; every wait has a deadline of its own.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

FLOW_TIMEOUT_S = 60
# A topic that every broker registers, so that its route is there before any client comes.
BUILT_IN_TOPIC = "SELF_TEST_TOPIC"


def test_broker_registered_is_shown_by_mqadmin(site: Site, admin: Admin) -> None:
    broker = site.broker()

    assert admin.clusters(site.name_server.addr) == [(CLUSTER, BROKER_NAME, 0, broker.addr)]

    route = admin.route(site.name_server.addr, BUILT_IN_TOPIC)
    assert route is not None
    assert addresses(route) == {broker.addr}
    assert [queue["brokerName"] for queue in route["queueDatas"]] == [BROKER_NAME]


def test_producer_sends_thousand_consumer_receives_all(site: Site, release: Release, processes: Processes) -> None:
    """The topic is made by its first message, so its route has to reach both clients as well."""
    broker = site.broker()
    client = Client(processes, release, site.name_server.addr, "thousand")
    client.send(1_000)
    counts = client.wait_for_all(FLOW_TIMEOUT_S)
    assert (counts.acknowledged, counts.received, counts.failures) == (1_000, 1_000, 0), counts
    assert route_addresses(site.name_server.port, "thousand") == {broker.addr}


def test_broker_back_on_another_port_client_goes_on(site: Site, release: Release, processes: Processes) -> None:
    broker = site.broker()
    before = broker.addr
    client = Client(processes, release, site.name_server.addr, "moves")
    client.flow(per_second=100)
    client.wait_for_acknowledged(100, FLOW_TIMEOUT_S)

    broker.process.kill()
    broker.start()
    assert broker.addr != before
    wait_until(
        f"the route of {client.topic} is {broker.addr} alone",
        lambda: route_addresses(site.name_server.port, client.topic) == {broker.addr},
        REGISTER_TIMEOUT_S,
    )

    client.wait_for_acknowledged(200, FLOW_TIMEOUT_S)
    client.stop()
    # A 4.x consumer may hold on for 30 s to a pull that the dead broker can no longer answer.
    client.wait_for_all(FLOW_TIMEOUT_S)


def test_broker_killed_route_is_gone_when_its_connection_closes(site: Site) -> None:
    broker = site.broker()
    port = site.name_server.port
    with WireClient(port) as client:
        assert addresses(client.route(BUILT_IN_TOPIC)) == {broker.addr}
        broker.process.kill()
        wait_until("the topic has no route", lambda: client.route(BUILT_IN_TOPIC) is None, within_s=3)
        wait_until("no broker is left", lambda: not client.cluster_info()["brokerAddrTable"], within_s=3)


def test_broker_paused_route_is_gone_after_server_timeout_and_returns(
    under_test: Kind, release: Release, processes: Processes
) -> None:
    if under_test.name != OURS:
        pytest.skip("the Java NameServer's own timeout is fixed at 120 s")
    # More than a registration period of 10 s, and some more for a machine that has other work.
    name_server = under_test.start(processes, {"brokerChannelExpiredTimeMs": 15_000})
    broker = Broker(processes, release, name_server.addr)
    check_paused_broker_goes_and_returns(name_server.port, broker, gone_within_s=15 + 10)


def test_broker_paused_route_is_gone_after_its_own_timeout_and_returns(
    under_test: Kind, release: Release, processes: Processes
) -> None:
    if not release.version.startswith("5."):
        pytest.skip("brokers of 4.x name no timeout of their own")
    if under_test.name.startswith("java-4."):
        pytest.skip("the NameServer of 4.x knows no timeout but its own")
    name_server = under_test.start(processes, {"scanNotActiveBrokerInterval": 1_000})
    properties = {"enableSlaveActingMaster": True, "brokerNotActiveTimeoutMillis": 4_000}
    broker = Broker(processes, release, name_server.addr, properties)
    check_paused_broker_goes_and_returns(name_server.port, broker, gone_within_s=4 + 10)


def check_paused_broker_goes_and_returns(port: int, broker: Broker, gone_within_s: float) -> None:
    broker.start()
    wait_until(f"{broker.addr} is registered", lambda: broker.addr in registered_addresses(port), REGISTER_TIMEOUT_S)

    broker.process.pause()
    wait_until(
        f"the route of paused {broker.addr} is gone",
        lambda: not route_addresses(port, BUILT_IN_TOPIC) and not registered_addresses(port),
        gone_within_s,
    )

    broker.process.resume()
    wait_until(
        f"the route of resumed {broker.addr} is back",
        lambda: route_addresses(port, BUILT_IN_TOPIC) == {broker.addr},
        REGISTER_TIMEOUT_S,
    )
    assert broker.is_running()
