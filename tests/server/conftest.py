"""Front ends on the session's embedded Redis."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness import FrontEnd
from .own_redis import OwnRedis
from .pair import Pair


@pytest.fixture
def front_end_with(redis_url):
    """Starts front ends with given settings; each test's are in a namespace of their own unless it names one."""
    started = []
    own_namespace = f"t-{secrets.token_hex(6)}"

    def start(*, namespace=own_namespace, url=None, **settings):
        front_end = FrontEnd(url or redis_url, namespace, **settings)
        started.append(front_end)
        return front_end

    yield start
    for front_end in started:
        front_end.close()


@pytest.fixture
def front_end(front_end_with):
    return front_end_with()


@pytest.fixture
def own_redis():
    """Of one test, to be broken."""
    with tempfile.TemporaryDirectory(prefix="mq") as folder, contextlib.closing(OwnRedis(Path(folder))) as own:
        yield own


@pytest.fixture
def running_loop() -> Iterator[None]:
    """An event loop that counts as running: connections read its clock, nothing has to wait for it."""
    with asyncio.Runner() as runner:
        asyncio._set_running_loop(runner.get_loop())
        try:
            yield
        finally:
            asyncio._set_running_loop(None)


@pytest.fixture
def pair(running_loop) -> Pair:
    pair = Pair()
    pair.fill()
    return pair
