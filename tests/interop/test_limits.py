"""What stock peers do when a limit is enforced: code 2 is shown or logged, and nobody gives up."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from bench.servers.processes import Processes, wait_until

from .name_servers import OURS, Kind, wait_for_registration
from .rocketmq import Admin, Broker, Release
from .wire import WireClient, registered_addresses

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

# One a second, and no more at once; of loopback, too.
LIMITS = {
    "limitAdminWrites": "enforce", "addressAdminWritesPerSecond": 1, "limitNewBrokers": "enforce",
    "addressNewBrokersPerSecond": 1, "rateBurstSeconds": 1, "unlimitedAddresses": "",
}  # fmt: skip
REFUSED_WITHIN_S = 60
# of 4.x and 5.x
FAILED = r"registerBroker Exception|Failed to register current broker"


@contextmanager
def taking_every_token(port: int, request: Callable[[WireClient], object]) -> Iterator[None]:
    """Meanwhile somebody of the same address asks again and again."""
    end = threading.Event()

    def ask() -> None:
        with WireClient(port) as client:
            while not end.is_set():
                request(client)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def register_somebody(client: WireClient) -> None:
    sender = {"brokerName": "other", "brokerAddr": "127.0.0.1:1", "brokerId": "0", "clusterName": "other"}
    client.request(103, {**sender, "haServerAddr": "", "bodyCrc32": "1", "compressed": "false"})


def put_something(client: WireClient) -> None:
    client.request(100, {"namespace": "other", "key": "key", "value": "value"})


def log_of(broker: Broker) -> str:
    return "".join(path.read_text(errors="replace") for path in broker.process.log.parent.rglob("broker.log"))


def test_a_broker_over_the_limit_logs_it_and_registers_later(
    under_test: Kind, release: Release, processes: Processes
) -> None:
    if under_test.name != OURS:
        pytest.skip("the Java NameServer has no limits")
    name_server = under_test.start(processes, LIMITS)
    broker = Broker(processes, release, name_server.addr)
    with taking_every_token(name_server.port, register_somebody):
        broker.start()
        wait_until("the broker has tried twice", lambda: len(re.findall(FAILED, log_of(broker))) >= 2, REFUSED_WITHIN_S)
        assert re.search(r"CODE: 2 .*addressNewBrokersPerSecond=1", log_of(broker))
        assert broker.addr not in registered_addresses(name_server.port)
    wait_for_registration(name_server, broker)
    assert broker.is_running()


def test_mqadmin_over_the_limit_shows_it(under_test: Kind, admin: Admin, processes: Processes) -> None:
    if under_test.name != OURS:
        pytest.skip("the Java NameServer has no limits")
    name_server = under_test.start(processes, LIMITS)
    with taking_every_token(name_server.port, put_something):
        arguments = ("updateKvConfig", name_server.addr, "-s", "ns", "-k", "key", "-v", "value")
        said = [admin.run(*arguments) for _ in range(5)]
        refused = [text for text in said if "success" not in text]
        assert refused
        assert all("CODE: 2" in text and "addressAdminWritesPerSecond=1" in text for text in refused)
    wait_until("it is done when there is a token", lambda: "success" in admin.run(*arguments), REFUSED_WITHIN_S)
