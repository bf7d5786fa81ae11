"""Tells the log who is over a limit: at once the first time, then a summary a minute, however many they are."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

logger = logging.getLogger(__name__)

SUMMARY_S: Final = 60.0
_ADDRESSES: Final = 1000
_SHOWN: Final = 5


class OverLimitLog:
    """What was over the limits since the last summary. A limit that nothing was over for that long begins again."""

    def __init__(self) -> None:
        self._over: dict[str, Counter[str]] = {}  # limit -> address -> times, of those that have no line yet
        self._summary_at_s: float | None = None

    def over(self, limit: str, address: str, first: str) -> None:
        """Note that an address was over a limit (``key=value``); log ``first`` if nothing was since a summary."""
        addresses = self._over.get(limit)
        if addresses is None:
            self._over[limit] = Counter()
            logger.warning("%s", first)
            return
        if address not in addresses and len(addresses) >= _ADDRESSES:
            address = ""
        addresses[address] += 1

    def summarize(self, now_s: float) -> None:
        """Log the summaries when a minute has passed since something was over a limit; to be called again and again."""
        if not self._over:
            return
        if self._summary_at_s is None:
            self._summary_at_s = now_s + SUMMARY_S
        if now_s < self._summary_at_s:
            return
        self._summary_at_s = None
        over, self._over = self._over, {}
        for limit, addresses in over.items():
            if addresses:
                shown = [f"{address or 'others'} ({times})" for address, times in addresses.most_common(_SHOWN)]
                more = f" and {len(addresses) - _SHOWN} more addresses" if len(addresses) > _SHOWN else ""
                logger.warning(
                    "%s: exceeded %d times in the last %.0f s, by %s%s",
                    limit, addresses.total(), SUMMARY_S, ", ".join(shown), more,
                )  # fmt: skip
                self._over[limit] = Counter()  # it goes on: the next one needs no line of its own
