"""Looks for worker processes of a release without authentication while rules are enforced: they let everybody in.

Such a release does not start on a namespace that enforces. One that started before can be there all the same: it was
paused or cut off when the mode was set, and its lease had run out.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from ...auth.policy import Mode
from ...errors import RegistryError
from ...tasks import cancelled, pause

logger = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 2.0


class OlderReleases:
    """Counts them for one worker.

    count: how many were there at the last look.

    Args:
        find: reads which they are.
        mode: that is in force. While it is not enforce, nothing is read.
    """

    def __init__(self, find: Callable[[], Awaitable[list[str]]], mode: Callable[[], Mode]) -> None:
        self._find = find
        self._mode = mode
        self.count = 0

    async def run(self) -> None:
        """Look again and again. Runs until cancelled."""
        while not cancelled():
            try:
                await self._look()
            except RegistryError as error:  # Redis is away, or its login lacks a right: the last count stays
                logger.debug("whether an older release serves is not known: %s", error)
            await pause(LOOK_EVERY_S)

    async def _look(self) -> None:
        before = self.count
        self.count = len(await self._find()) if self._mode() is Mode.ENFORCE else 0
        if self.count > before:
            logger.error("%s", what_they_do(self.count))
        elif before and not self.count:
            logger.warning("no worker process of an older release serves this namespace any more")


def what_they_do(count: int) -> str:
    """What is told of so many worker processes."""
    return (
        f"rules are enforced, and {count} worker processes of a release without authentication serve this namespace: "
        "whoever reaches them may do everything. Stop their front ends (mqregistry serve of an older release)"
    )
