"""A namespace on the session's Redis, ready to use."""

from __future__ import annotations

import pytest

from registry.store.store import Store

from .bed import Bed


@pytest.fixture
def store(runner, redis_url, namespace):
    store = Store(redis_url, namespace)
    runner.run(store.connect())
    yield store
    runner.run(store.close())


@pytest.fixture
def bed(store):
    return Bed(store)
