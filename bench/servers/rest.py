"""Waits until a server has no more work to do."""

from __future__ import annotations

import time
from collections.abc import Callable

# A server is at rest when it uses less than REST_SHARE of a core for REST_S.
REST_SHARE = 0.08
REST_S = 0.4
REST_WITHIN_S = 60.0


class NoRest(Exception):
    """A server does not come to rest; the text says how long the caller waited."""


def wait_for_rest(cpu_s: Callable[[], float]) -> float:
    """Wait until a server is at rest.

    Args:
        cpu_s: returns the CPU time that the server has used until now.

    Returns:
        since when the server is at rest (time.monotonic).

    Raises:
        NoRest: the server is still at work after a minute.
    """
    deadline = time.monotonic() + REST_WITHIN_S
    while True:
        began, before = time.monotonic(), cpu_s()
        time.sleep(REST_S)
        if cpu_s() - before < REST_SHARE * REST_S:
            return began
        if began > deadline:
            raise NoRest(f"still at work after {REST_WITHIN_S:.0f} s")
