"""Fixtures: RocketMQ releases, the name server under test, and a site of one name server and one broker."""

import os
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest

from bench.servers.processes import Processes
from bench.servers.rocketmq import Unavailable

from .broker_kinds import Kinds, start_kinds
from .name_servers import (
    OURS,
    JavaNameServers,
    Kind,
    NameServer,
    OurNameServers,
    wait_for_registration,
)
from .rocketmq import Admin, Broker, Release, fetch

ALL = os.environ.get("MQREGISTRY_INTEROP_VERSIONS") == "all"
# 5.x first, so that a version has the same place in both lists: pytest puts tests together by that.
VERSIONS = ("5.3.3", "5.5.0", "4.8.0", "4.9.7") if ALL else ("5.3.3", "4.8.0")
VERSIONS_5 = tuple(version for version in VERSIONS if version.startswith("5."))
with_5x = pytest.mark.parametrize("release", VERSIONS_5, indirect=True)
"""A mark for tests of what 4.x has not."""

T = TypeVar("T")

open_processes: list[Processes] = []


@cache
def _fetch_once(version: str) -> Release | str:
    """The release, or why there is none; a machine without network is asked once, not once a test."""
    try:
        return fetch(version)
    except Unavailable as reason:
        return str(reason)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest file first: begun last, it would leave the other process without work for minutes."""
    items.sort(key=lambda item: item.path.name != "test_migrating.py")


def release_or_skip(version: str) -> Release:
    release = _fetch_once(version)
    if isinstance(release, Release):
        return release
    skip_or_fail(release)


def skip_or_fail(reason: str) -> NoReturn:
    """Skip for want of something on this machine, unless MQREGISTRY_INTEROP=required."""
    if os.environ.get("MQREGISTRY_INTEROP") == "required":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def built_or_skip(build: Callable[[], T]) -> T:
    """What `build` gives; a skip with the reason where this machine cannot."""
    try:
        return build()
    except Unavailable as reason:
        skip_or_fail(str(reason))


# Of the session, so that tests of one release share a site whatever file they stand in.
@pytest.fixture(scope="session", params=VERSIONS)
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


def ended_with_test(folder: Path) -> Iterator[Processes]:
    """For fixtures to yield from: what is started here is shown with a failed test, and ends with the fixture."""
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
    yield from ended_with_test(tmp_path_factory.mktemp("test"))


@pytest.fixture(scope="session")
def shared_processes(tmp_path_factory: pytest.TempPathFactory, release: Release) -> Iterator[Processes]:
    """Starts processes that end with the tests of one release."""
    yield from ended_with_test(tmp_path_factory.mktemp(f"site-{release.version}-"))


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="session")
def site(under_test: Kind, release: Release, shared_processes: Processes) -> Site:
    name_server = under_test.start(shared_processes)
    return Site(name_server, Broker(shared_processes, release, name_server.addr))


@pytest.fixture(scope="session")
def kinds(under_test: Kind, release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kinds]:
    if under_test.name != OURS:
        pytest.skip("the Java NameServer of 5.x takes no compressed registration of a 5.x broker")
    for processes in ended_with_test(tmp_path_factory.mktemp(f"kinds-{release.version}-")):
        yield start_kinds(under_test, release, processes)


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
