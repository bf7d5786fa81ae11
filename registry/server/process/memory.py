"""Settings of a worker's memory: which objects Python's garbage collector skips, and what glibc's malloc keeps.

A full collection visits each entry of the tables. With 250,000 topics on 4 brokers each it takes 0.2 s, in which no
request is answered, and it is repeated while the tables grow. So the collector skips old objects. They are still freed
when nothing refers to them; only reference cycles would stay. Neither tables nor closed connections have cycles.

A registration of 10,000 topics comes as 1.7 MB, of which two copies exist for a moment. By default glibc takes such
blocks from the kernel and returns them each time: 800 page faults, nearly two milliseconds, most of what an unchanged
registration costs. So malloc keeps blocks of this size, up to a limit. After a burst of changed registrations all free
memory is returned to the system. Other C libraries than glibc keep their defaults.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

from ...tasks import cancelled

logger = logging.getLogger(__name__)

LONG_S: Final = 0.01
"""A full collection that takes longer than this is a long one."""
# mallopt(3)
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
KEPT_BYTES: Final = 32 << 20
LARGE_BLOCK_BYTES: Final = 8 << 20

QUIET_S: Final = 10.0
BURST: Final = 8
"""After this number of changed registrations it is worth the time to return memory."""


def freeze_after_long_collections() -> None:
    """From now on let the collector skip all objects that a long collection found alive."""
    began_s = 0.0

    def looked(phase: str, info: dict[str, Any]) -> None:
        nonlocal began_s
        if phase == "start":
            began_s = perf_counter()
        elif info["generation"] == 2 and perf_counter() - began_s > LONG_S:
            gc.freeze()

    gc.callbacks.append(looked)


def _libc() -> Any:
    try:
        libc = ctypes.CDLL(None)
        return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None
    except OSError:
        return None


def keep_large_blocks() -> bool:
    """Let malloc keep blocks of the size of large frames; False: this C library has no such setting."""
    libc = _libc()
    if libc is None:
        return False
    return bool(libc.mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES) and libc.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES))


def trim() -> None:
    """Return free memory to the system. Takes some milliseconds."""
    libc = _libc()
    if libc is not None:
        libc.malloc_trim(0)


async def trim_after_bursts(changed: Callable[[], int], quiet_s: float = QUIET_S) -> None:
    """Call :func:`trim` when many changed registrations came, and then none for ``quiet_s``. Runs until cancelled.

    Args:
        changed: gives the number of changed registrations so far.
    """
    seen = trimmed_at = changed()
    while not cancelled():
        await asyncio.sleep(quiet_s)
        now = changed()
        if now == seen and now - trimmed_at >= BURST:
            trim()
            logger.debug("returned free memory after %d changed registrations", now - trimmed_at)
            trimmed_at = now
        seen = now
