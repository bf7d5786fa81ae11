"""The proxy of 5.x at our name server: it finds brokers and topics there, or has a broker in itself."""

import pytest

from bench.servers.processes import Processes, wait_until

from .broker_kinds import Kinds
from .conftest import ALL, built_or_skip, with_5x
from .name_servers import REGISTER_TIMEOUT_S, Kind, wait_for_registration
from .proxy import GrpcClient, Proxy, fetch_grpc_client, fetch_proxy
from .rocketmq import CLUSTER, Admin, Broker, Client, Release
from .wire import route_addresses

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900), with_5x]

FLOW_TIMEOUT_S = 60


def test_messages_flow_through_proxy(kinds: Kinds, release: Release, processes: Processes, admin: Admin) -> None:
    """A topic that mqadmin made; what a gRPC producer sends, gRPC and remoting consumers receive."""
    proxy_release = built_or_skip(lambda: fetch_proxy(release.version))
    grpc_release = built_or_skip(fetch_grpc_client)
    ours = kinds.name_server
    admin.run("updateTopic", ours.addr, "-c", CLUSTER, "-t", "proxied")
    wait_until(
        "the topic has a route to every broker",
        lambda: route_addresses(ours.port, "proxied") == {broker.addr for broker in kinds.brokers.values()},
        REGISTER_TIMEOUT_S,
    )
    proxy = Proxy(processes, proxy_release, ours.addr)
    client = GrpcClient(processes, grpc_release, proxy, "proxied")
    client.send(100)
    counts = client.wait_for_all(FLOW_TIMEOUT_S)
    assert (counts.acknowledged, counts.received) == (100, 100), counts

    remoting = Client(processes, release, ours.addr, "proxied", group="remoting")
    wait_until("a remoting consumer receives all", lambda: remoting.counts().received == 100, FLOW_TIMEOUT_S)


@pytest.mark.skipif(not ALL, reason="one more start of a broker: MQREGISTRY_INTEROP_VERSIONS=all")
def test_messages_flow_through_proxy_with_a_broker_in_it(
    under_test: Kind, release: Release, processes: Processes, admin: Admin
) -> None:
    """Local mode."""
    proxy_release = built_or_skip(lambda: fetch_proxy(release.version))
    grpc_release = built_or_skip(fetch_grpc_client)
    ours = under_test.start(processes)
    broker = Broker(processes, release, ours.addr, {"timerWheelEnable": True})
    proxy = Proxy(processes, proxy_release, ours.addr, broker.configure())
    wait_for_registration(ours, broker)
    admin.run("updateTopic", ours.addr, "-c", CLUSTER, "-t", "local")
    client = GrpcClient(processes, grpc_release, proxy, "local")
    client.send(100)
    counts = client.wait_for_all(FLOW_TIMEOUT_S)
    assert (counts.acknowledged, counts.received) == (100, 100), counts
    assert route_addresses(ours.port, "local") == {broker.addr}
