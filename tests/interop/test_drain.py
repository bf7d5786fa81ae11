"""A broker is drained, stopped, started again and restored while a stock producer sends: no send fails."""

import json
import subprocess

import pytest

from bench.servers.processes import Processes, wait_until

from .name_servers import REGISTER_TIMEOUT_S, Kind, OurNameServers, beside_python, start_redis
from .rocketmq import CLUSTER, Admin, Broker, Client, Release
from .wire import registered_addresses

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

TOPIC = "drained"
# Its clients look their routes up each 30 s; one that was closed counts for three minutes.
DRAIN_TIMEOUT_S = 300


def command(url: str, *arguments: str) -> str:
    """What our command line says."""
    whole = [str(beside_python("mqregistry")), *arguments, "--yes", "--json", "--redis", url]
    return subprocess.run(whole, capture_output=True, text=True, check=True, timeout=DRAIN_TIMEOUT_S).stdout


def test_drain_stop_start_restore_without_a_failed_send(
    under_test: Kind, release: Release, processes: Processes, admin: Admin
) -> None:
    if not isinstance(under_test, OurNameServers):
        pytest.skip("the Java NameServer does not know who has which route")
    url = start_redis(processes)
    name_server = under_test.start_on(processes, url)
    brokers = {}
    for name in ("broker-a", "broker-b"):
        brokers[name] = Broker(processes, release, name_server.addr, {"brokerName": name})
        brokers[name].start()
    everybody = {broker.addr for broker in brokers.values()}
    wait_until(
        "both are registered", lambda: set(registered_addresses(name_server.port)) == everybody, REGISTER_TIMEOUT_S
    )
    admin.run("updateTopic", name_server.addr, "-c", CLUSTER, "-t", TOPIC)
    client = Client(processes, release, name_server.addr, TOPIC)
    client.flow(per_second=50)
    client.wait_for_acknowledged(100, 60)
    before = client.counts()

    drained = json.loads(command(url, "broker", "drain", "broker-a", "--timeout", "5m"))
    assert drained["done"], drained
    brokers["broker-a"].process.end()
    wait_until(
        "broker-a is gone",
        lambda: set(registered_addresses(name_server.port)) == {brokers["broker-b"].addr}, REGISTER_TIMEOUT_S,
    )  # fmt: skip
    client.wait_for_acknowledged(100, 60)

    brokers["broker-a"].start()
    everybody = {broker.addr for broker in brokers.values()}
    wait_until(
        "both are registered again", lambda: set(registered_addresses(name_server.port)) == everybody,
        REGISTER_TIMEOUT_S,
    )  # fmt: skip
    command(url, "broker", "restore", "broker-a")
    client.wait_for_acknowledged(100, 60)
    client.stop()
    counts = client.wait_for_all(120)
    assert counts.failures == before.failures, counts.errors
