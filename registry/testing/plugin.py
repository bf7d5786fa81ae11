"""Fixtures for pytest, which finds them when mqregistry is installed (``-p no:mqregistry`` leaves them out).

Nothing is started, and nothing else is imported, before a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .brokers import FakeBroker, FakeCluster
    from .local_registry import LocalRegistry


@pytest.fixture(scope="session")
def mq_registry_process() -> Iterator[LocalRegistry]:
    """The registry of this run (of each xdist worker)."""
    from ..errors import StartError
    from .local_registry import LocalRegistry

    registry = LocalRegistry()
    try:
        registry.start()
    except StartError as error:
        pytest.fail(str(error), pytrace=False)
    else:
        yield registry
    finally:
        registry.close()


@pytest.fixture
def mq_registry(mq_registry_process: LocalRegistry) -> Iterator[LocalRegistry]:
    """A registry that runs and is empty, a ``mqregistry.testing.LocalRegistry``: ``.address`` is its name server."""
    mq_registry_process.start()
    yield mq_registry_process
    mq_registry_process.start()
    mq_registry_process.clear()


@pytest.fixture
def mq_broker(mq_registry: LocalRegistry) -> Iterator[Callable[..., FakeBroker]]:
    """``mq_broker("broker-a", topics=["orders"])`` registers a broker, and unregisters it when the test ends.

    Its arguments are those of ``mqregistry.testing.FakeBroker`` after the first. The first broker of a test is at
    127.0.0.1:10911, the next at 10921, and so on, unless a ``broker_addr`` is given.
    """
    from .brokers import FakeBroker

    addresses = (f"127.0.0.1:{port}" for port in count(10911, 10))
    with ExitStack() as stack:

        def make(broker_name: str = "broker-a", broker_addr: str = "", *arguments: Any, **options: Any) -> FakeBroker:
            address = broker_addr or next(addresses)
            return stack.enter_context(FakeBroker(mq_registry.address, broker_name, address, *arguments, **options))

        yield make


@pytest.fixture
def mq_cluster(mq_registry: LocalRegistry) -> Iterator[Callable[..., FakeCluster]]:
    """``mq_cluster(masters=2, slaves=1, topics=["orders"])`` registers a cluster, until the test ends.

    Its arguments are those of ``mqregistry.testing.FakeCluster`` after the first.
    """
    from .brokers import FakeCluster

    with ExitStack() as stack:

        def make(*arguments: Any, **options: Any) -> FakeCluster:
            return stack.enter_context(FakeCluster(mq_registry.address, *arguments, **options))

        yield make
