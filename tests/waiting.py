"""Waits in coroutines for a condition that nothing tells of; a test waits for nothing else, above all not for a time.

:func:`tests.server.harness.wait_until` does the same in tests that are no coroutines.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

_LOOK_AGAIN_S = 0.005
# How long tests wait for an answer of Redis: on a busy machine it, or the test, may stand still for seconds. Tests of a
# Redis that does not answer say another time.
PATIENT_MS = 20_000


async def until(holds: Callable[[], Any], what: str = "", within_s: float = 60.0) -> Any:
    """The first true value of ``holds``, a function or a coroutine function; fails with what was waited for."""
    try:
        async with asyncio.timeout(within_s):
            while True:
                value = holds()
                if inspect.isawaitable(value):
                    value = await value
                if value:
                    return value
                await asyncio.sleep(_LOOK_AGAIN_S)
    except TimeoutError:
        raise AssertionError(f"not within {within_s:g} s: {what or holds}") from None
