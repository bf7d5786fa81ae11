"""Logs events that any client may cause often: the first events at once, the others in one summary a minute."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

logger = logging.getLogger(__name__)

SUMMARY_S: Final = 60.0
LINES: Final = 10
"""The most addresses that get lines of their own for one kind of event, until the next summary."""
LINES_EACH: Final = 5
"""The most lines for each address: an operator who looks for the reason of a refusal tries it in several ways."""
_KINDS: Final = 100
_ADDRESSES: Final = 1000
_SHOWN: Final = 5


class _LoggedKind:
    """The events of one kind since the last summary."""

    def __init__(self, level: int, lines: int) -> None:
        self.level, self.lines = level, lines  # lines: how many addresses get lines of their own
        self.told = Counter[str]()  # address -> its lines
        self.more = Counter[str]()  # address -> its events without a line


class SummaryLog:
    """The events since the last summary, by kind; a summary forgets kinds whose events all had lines of their own."""

    def __init__(self) -> None:
        self._kinds: dict[str, _LoggedKind] = {}
        self._summary_at_s: float | None = None

    def tell(self, kind: str, address: str, text: str, level: int = logging.WARNING, lines: int = LINES) -> None:
        """Log this text, or only count it if its kind, or its address, has had enough lines.

        Args:
            kind: the name of the event's kind in summaries.
            lines: the most addresses with lines of their own, and the most lines of each.
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
        """Log the summaries a minute after the first event. Call it regularly."""
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
                # such events still happen: the next ones of these addresses need no lines of their own
                one.told = Counter({address: LINES_EACH for address, _ in one.more.most_common(one.lines)})
                one.more = Counter()
                self._kinds[kind] = one
