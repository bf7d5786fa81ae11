"""Fixtures: RocketMQ releases, the name server under test, and a site of one name server and one broker."""

import os
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest

from .name_servers import OURS, JavaNameServers, Kind, NameServer, OurNameServers
from .processes import Processes, wait_until
from .rocketmq import Admin, Broker, Release, Unavailable, fetch
from .wire import registered_addresses

VERSIONS = ("4.8.0", "5.3.3")
REGISTER_TIMEOUT_S = 40

open_processes: list[Processes] = []


@cache
def _fetch_once(version: str) -> Release | str:
    """The release, or why there is none; a machine without network is asked once, not once a test."""
    try:
        return fetch(version)
    except Unavailable as reason:
        return str(reason)


def release_or_skip(version: str) -> Release:
    release = _fetch_once(version)
    if isinstance(release, Release):
        return release
    if os.environ.get("MQREGISTRY_INTEROP") == "required":
        pytest.fail(release, pytrace=False)
    pytest.skip(release)


@pytest.fixture(scope="module", params=VERSIONS)
def release(request: pytest.FixtureRequest) -> Release:
    """The RocketMQ release whose broker, client and mqadmin a test runs."""
    return release_or_skip(request.param)


@pytest.fixture(scope="session")
def under_test() -> Kind:
    name = os.environ.get("MQREGISTRY_INTEROP_SERVER", OURS)
    if name == OURS:
        return OurNameServers()
    assert name.startswith("java-"), f"MQREGISTRY_INTEROP_SERVER is {OURS} or java-VERSION, not {name}"
    version = name.removeprefix("java-")
    return JavaNameServers(lambda: release_or_skip(version), version)


def _processes(folder: Path) -> Iterator[Processes]:
    processes = Processes(folder)
    open_processes.append(processes)
    try:
        yield processes
    finally:
        processes.close()
        open_processes.remove(processes)


@pytest.fixture
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """Starts processes that end with the test."""
    yield from _processes(tmp_path_factory.mktemp("test"))


@pytest.fixture(scope="module")
def shared_processes(tmp_path_factory: pytest.TempPathFactory, release: Release) -> Iterator[Processes]:
    """Starts processes that end with the module's tests of one release."""
    yield from _processes(tmp_path_factory.mktemp(f"site-{release.version}-"))


@pytest.fixture(scope="module")
def admin(release: Release, shared_processes: Processes) -> Admin:
    return Admin(shared_processes, release)


class Site:
    """One name server under test and one broker; a test may kill the broker, the next one gets it back."""

    def __init__(self, name_server: NameServer, broker: Broker) -> None:
        self.name_server = name_server
        self._broker = broker

    def broker(self) -> Broker:
        """The broker, running and registered."""
        if not self._broker.is_running():
            self._broker.start()
        wait_for_registration(self.name_server, self._broker)
        return self._broker


def wait_for_registration(name_server: NameServer, broker: Broker) -> None:
    wait_until(
        f"{broker.addr} is registered at {name_server.addr}",
        lambda: broker.addr in registered_addresses(name_server.port),
        REGISTER_TIMEOUT_S,
    )


@pytest.fixture(scope="module")
def site(under_test: Kind, release: Release, shared_processes: Processes) -> Site:
    name_server = under_test.start(shared_processes)
    return Site(name_server, Broker(shared_processes, release, name_server.addr))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failure what every process said last."""
    report = yield
    if report.failed:
        for processes in open_processes:
            report.sections.extend(processes.reports())
    return report
