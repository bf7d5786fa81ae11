"""What every test of the client helpers holds to."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def complaints(runner: asyncio.Runner) -> Iterator[list[dict[str, Any]]]:
    """What the loop complains of (exceptions that nobody fetched, tasks that nobody awaited): nothing."""
    said: list[dict[str, Any]] = []
    runner.get_loop().set_exception_handler(lambda _, context: said.append(context))
    yield said
    gc.collect()
    runner.run(asyncio.sleep(0))
    assert not said
