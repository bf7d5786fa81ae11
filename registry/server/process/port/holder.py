"""Waits a moment for a port that somebody else holds, and says who does."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from ....errors import StartError
from ....names import printable
from ....tasks import wait_within
from ....tcp_sockets import listeners

logger = logging.getLogger(__name__)

# The workers of a front end that was killed end at once, those of one that was asked to end drain.
_WAIT_S: Final = 5.0
_TRY_EVERY_S: Final = 0.05

T = TypeVar("T")


class PortTaken(StartError):
    """Another process listens on a port; ``port`` is its number."""

    def __init__(self, text: str, port: int) -> None:
        super().__init__(text)
        self.port = port


def holder_of(port: int) -> str:
    """Which processes listen on a port: "process 17 (python)"; "" = not known (another user's, or no Linux)."""
    found = []
    for pid in listeners(port):
        with contextlib.suppress(OSError):  # it has ended
            found.append(f"process {pid} ({printable(Path(f'/proc/{pid}/comm').read_text().strip())})")
    return " and ".join(sorted(found))


async def when_free(make: Callable[[], T], stopping: asyncio.Event) -> T:
    """What ``make`` gives, which takes a port: it is tried again for some seconds while somebody else holds that.

    Raises:
        StartError: it cannot be had; PortTaken: it was not given free in time, or ``stopping`` was set.
    """
    until, told = time.monotonic() + _WAIT_S, False
    while True:
        try:
            return make()
        except PortTaken as taken:
            if time.monotonic() > until or stopping.is_set():
                raise
            if not told:
                who = holder_of(taken.port) or "another process"
                logger.warning("port %d is held by %s: waiting up to %.0f s for it to end", taken.port, who, _WAIT_S)
            told = True
        await wait_within(stopping, _TRY_EVERY_S)
