"""How this process takes memory from the system, and when it gives it back (glibc; elsewhere nothing happens).

A registration of 10,000 topics comes as 1.7 MB, which is held twice for a moment. By default glibc asks the kernel for
such blocks each time and gives them back at once: 800 page faults, nearly two milliseconds, most of what an unchanged
registration costs. So blocks of that size stay, up to a limit; and after a storm, once it is quiet, all that is free
goes.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
from collections.abc import Callable
from typing import Any, Final

from registry.tasks import cancelled

logger = logging.getLogger(__name__)

# mallopt(3)
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
KEPT_BYTES: Final = 32 << 20
LARGE_BLOCK_BYTES: Final = 8 << 20

QUIET_S: Final = 10.0
STORM: Final = 8
"""So many changed registrations leave something behind that is worth a look."""


def _libc() -> Any:
    try:
        libc = ctypes.CDLL(None)
        return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None
    except OSError:
        return None


def keep_buffers() -> bool:
    """Keep what large frames were read into; False: this C library cannot be told."""
    libc = _libc()
    if libc is None:
        return False
    return bool(libc.mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES) and libc.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES))


def give_back() -> None:
    """Give free memory back to the system: some milliseconds."""
    libc = _libc()
    if libc is not None:
        libc.malloc_trim(0)


async def give_back_after_storms(changed: Callable[[], int], quiet_s: float = QUIET_S) -> None:
    """Do so when many changed registrations came, and then none for quiet_s. Until cancelled.

    Args:
        changed: how many there were until now.
    """
    seen = given_back_at = changed()
    while not cancelled():
        await asyncio.sleep(quiet_s)
        now = changed()
        if now == seen and now - given_back_at >= STORM:
            give_back()
            logger.debug("gave free memory back after %d changed registrations", now - given_back_at)
            given_back_at = now
        seen = now
