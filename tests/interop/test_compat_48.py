"""A stock broker, client and mqadmin of 4.8.0 at a front end that behaves as NameServer 4.8.0."""

import pytest

from bench.servers.processes import Processes, wait_until

from .name_servers import OURS, REGISTER_TIMEOUT_S, Kind, wait_for_registration
from .rocketmq import BROKER_NAME, CLUSTER, Admin, Broker, Client, Release
from .wire import WireClient, addresses

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

FLOW_TIMEOUT_S = 60


@pytest.mark.parametrize("release", ["4.8.0"], indirect=True)
def test_broker_clients_and_mqadmin_work_with_a_name_server_of_compat_48(
    under_test: Kind, release: Release, processes: Processes, admin: Admin
) -> None:
    if under_test.name != OURS:
        pytest.skip("a setting of ours")
    name_server = under_test.start(processes, {"compat": "4.8"})
    broker = Broker(processes, release, name_server.addr)
    broker.start()
    wait_for_registration(name_server, broker)
    assert admin.clusters(name_server.addr) == [(CLUSTER, BROKER_NAME, 0, broker.addr)]

    client = Client(processes, release, name_server.addr, "old-ways")
    client.send(100)
    counts = client.wait_for_all(FLOW_TIMEOUT_S)
    assert (counts.acknowledged, counts.received, counts.failures) == (100, 100, 0), counts

    with WireClient(name_server.port) as wire:
        route = wire.route("old-ways")
        assert addresses(route) == {broker.addr}
        assert {"topicSynFlag"} <= route["queueDatas"][0].keys()
        assert "enableActingMaster" not in route["brokerDatas"][0]
        broker.process.terminate(within_s=30)
        wait_until("104 took the broker away", lambda: wire.route("old-ways") is None, REGISTER_TIMEOUT_S)
        assert wire.cluster_info() == {"brokerAddrTable": {}, "clusterAddrTable": {}}
