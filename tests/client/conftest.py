"""What every test of the client helpers holds to."""

from __future__ import annotations

import asyncio
import gc
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.harness import FrontEnd


@pytest.fixture(autouse=True)
def complaints(runner: asyncio.Runner) -> Iterator[list[dict[str, Any]]]:
    """What the loop complains of (exceptions that nobody fetched, tasks that nobody awaited): nothing."""
    said: list[dict[str, Any]] = []
    runner.get_loop().set_exception_handler(lambda _, context: said.append(context))
    yield said
    gc.collect()
    runner.run(asyncio.sleep(0))
    assert not said


@pytest.fixture(scope="module")
def shared_front_end(redis_url: str) -> Iterator[FrontEnd]:
    """Starting one takes longer than most tests of a module."""
    front_end = FrontEnd(redis_url, f"t{secrets.token_hex(5)}")
    yield front_end
    front_end.close()
