"""Defines the fixtures that pytest has when mqregistry is installed (``-p no:mqregistry`` leaves them out).

No registry is started, and no other module is imported, before a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .brokers import FakeBroker, FakeCluster
    from .local_registry import AnyRegistry, LocalRegistry


@pytest.fixture(scope="session")
def mq_registry_process() -> Iterator[AnyRegistry]:
    """The registry of this run (of each xdist worker): in this process, or in other processes without fakeredis."""
    if find_spec("fakeredis") is not None and find_spec("lupa") is not None:
        from .in_process import InProcessRegistry

        with InProcessRegistry() as registry:
            yield registry
        return
    with _processes() as registry:
        yield registry


@contextmanager
def _processes() -> Iterator[LocalRegistry]:
    from ..errors import StartError
    from .local_registry import LocalRegistry

    registry = LocalRegistry()
    try:
        registry.start()
    except StartError as error:
        pytest.fail(f"{error}\n(or: pip install 'mqregistry[testing]', and it runs in this process)", pytrace=False)
    else:
        yield registry
    finally:
        registry.close()


@pytest.fixture(scope="session")
def mq_local_registry() -> Iterator[LocalRegistry]:
    """A registry of this run in processes of its own; other processes can reach its Redis."""
    with _processes() as registry:
        yield registry


@pytest.fixture
def mq_registry(mq_registry_process: AnyRegistry) -> Iterator[AnyRegistry]:
    """A running, empty registry: ``.address`` is its name server (:class:`.local_registry.AnyRegistry`)."""
    mq_registry_process.start()
    yield mq_registry_process
    mq_registry_process.start()
    mq_registry_process.clear()


@pytest.fixture
def mq_broker(mq_registry: AnyRegistry) -> Iterator[Callable[..., FakeBroker]]:
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
def mq_cluster(mq_registry: AnyRegistry) -> Iterator[Callable[..., FakeCluster]]:
    """``mq_cluster(masters=2, slaves=1, topics=["orders"])`` registers a cluster, until the test ends.

    Its arguments are those of ``mqregistry.testing.FakeCluster`` after the first.
    """
    from .brokers import FakeCluster

    with ExitStack() as stack:

        def make(*arguments: Any, **options: Any) -> FakeCluster:
            return stack.enter_context(FakeCluster(mq_registry.address, *arguments, **options))

        yield make
