"""A stock broker and client that have no address list ask a front end for it: /rocketmq/nsaddr."""

import pytest

from bench.servers.processes import Processes, free_port

from .name_servers import OURS, Kind, OurNameServers, wait_for_registration
from .rocketmq import Broker, Client, Release

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

FLOW_TIMEOUT_S = 60


@pytest.mark.parametrize("release", ["5.3.3"], indirect=True)
def test_broker_and_client_find_the_front_end_through_its_address_server(
    under_test: Kind, release: Release, processes: Processes
) -> None:
    if under_test.name != OURS:
        pytest.skip("a Java NameServer is no address server")
    assert isinstance(under_test, OurNameServers)
    http_port = free_port()
    name_server = under_test.start(processes, {"advertisedAddress": "127.0.0.1"}, http_port=http_port)
    asks = release.with_properties({"rocketmq.namesrv.domain": f"127.0.0.1:{http_port}"})
    broker = Broker(processes, asks, None, {"fetchNamesrvAddrByAddressServer": True})
    broker.start()
    wait_for_registration(name_server, broker)
    client = Client(processes, asks, "", "found")
    client.send(100)
    counts = client.wait_for_all(FLOW_TIMEOUT_S)
    assert (counts.acknowledged, counts.received, counts.failures) == (100, 100, 0), counts
