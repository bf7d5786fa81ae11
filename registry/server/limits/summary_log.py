"""Logs what strangers may cause again and again: the first events at once, then one summary a minute."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

logger = logging.getLogger(__name__)

SUMMARY_S: Final = 60.0
LINES: Final = 10
"""The most addresses that get lines of their own for one kind, until the next summary."""
LINES_EACH: Final = 5
"""The most lines for each: somebody who looks for the reason of a refusal tries again, in other ways."""
_KINDS: Final = 100
_ADDRESSES: Final = 1000
_SHOWN: Final = 5


class _LoggedKind:
    """What happened of one kind since the last summary."""

    def __init__(self, level: int, lines: int) -> None:
        self.level, self.lines = level, lines  # lines: how many addresses get lines of their own
        self.told = Counter[str]()  # how many lines each of them has
        self.more = Counter[str]()  # address -> times, of what is in no line


class SummaryLog:
    """The events since the last summary. A kind whose events all had lines of their own is forgotten then."""

    def __init__(self) -> None:
        self._kinds: dict[str, _LoggedKind] = {}
        self._summary_at_s: float | None = None

    def tell(self, kind: str, address: str, text: str, level: int = logging.WARNING, lines: int = LINES) -> None:
        """Log this text, or only count it if the log has enough lines of its kind, or of its kind and address.

        Args:
            kind: its name in summaries. lines: the most addresses with lines of their own, and the most lines of each.
        """
        if kind not in self._kinds and len(self._kinds) >= _KINDS:
            kind = "others"
        one = self._kinds.get(kind)
        if one is None:
            one = self._kinds[kind] = _LoggedKind(level, lines)
        if one.told[address] < min(one.lines, LINES_EACH) and (address in one.told or len(one.told) < one.lines):
            one.told[address] += 1
            logger.log(level, "%s", text)
            return
        if address not in one.more and len(one.more) >= _ADDRESSES:
            address = ""
        one.more[address] += 1

    def summarize(self, now_s: float) -> None:
        """Log the summaries when a minute has passed since something happened; to be called again and again."""
        if not self._kinds:
            return
        if self._summary_at_s is None:
            self._summary_at_s = now_s + SUMMARY_S
        if now_s < self._summary_at_s:
            return
        self._summary_at_s = None
        kinds, self._kinds = self._kinds, {}
        for kind, one in kinds.items():
            if one.more:
                shown = [f"{address or 'others'} ({times})" for address, times in one.more.most_common(_SHOWN)]
                rest = f" and {len(one.more) - _SHOWN} more addresses" if len(one.more) > _SHOWN else ""
                logger.log(
                    one.level, "%s: %d more like it in the last %.0f s, by %s%s",
                    kind, one.more.total(), SUMMARY_S, ", ".join(shown), rest,
                )  # fmt: skip
                # such events still happen: the next one needs no line of its own
                one.told = Counter({address: LINES_EACH for address, _ in one.more.most_common(one.lines)})
                one.more = Counter()
                self._kinds[kind] = one
