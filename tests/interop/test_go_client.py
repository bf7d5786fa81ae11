"""The Go client at our name server. Its version number is below 401, so it is answered with bare integer keys."""

from pathlib import Path

import pytest

from bench.servers.processes import Processes, wait_until

from .conftest import Site, built_or_skip, with_5x
from .go_client import GoClient, build
from .rocketmq import Client, Release
from .wire import route_addresses

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900), with_5x]

FLOW_TIMEOUT_S = 60


@pytest.fixture(scope="module")
def driver() -> Path:
    return built_or_skip(build)


def test_go_producer_makes_topic_go_and_java_consumers_receive_all(
    site: Site, release: Release, driver: Path, processes: Processes
) -> None:
    broker = site.broker()
    client = GoClient(processes, driver, site.name_server.addr, "from_go")
    client.send(200)
    counts = client.wait_for_all(FLOW_TIMEOUT_S)
    assert (counts.acknowledged, counts.received, counts.failures) == (200, 200, 0), counts
    java = Client(processes, release, site.name_server.addr, "from_go", group="java")
    wait_until("a Java consumer receives all", lambda: java.counts().received == 200, FLOW_TIMEOUT_S)
    assert route_addresses(site.name_server.port, "from_go") == {broker.addr}
