"""Reads the sides of a comparison again and again, and records since when each difference lasts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from typing import Final

import msgspec

from ...compare.differences import differences, topics_of
from ...compare.judged_differences import Lasting, Sort, now_ms
from ...compare.report import Report, SideNow
from .sides import Side, SidesSeen, look_at, now_of

_AGAIN_S: Final = 1.0
_LEAST_AGAIN_S: Final = 0.05
_MOST_TOPICS_AGAIN: Final = 1000


class Comparing:
    """A comparison that is repeated.

    A cell is one value that is compared, e.g. the permission of a topic at a broker name. A change reaches one side
    before the other, so a cell may differ for a moment. Cells that differ are read again soon, at all sides at the same
    moment; a cell counts only if it differed at every look for longer than ``lasting_ms``.
    ``topics``, ``kv_namespaces``: see :func:`look_at`.
    """

    def __init__(
        self, sides: Sequence[Side], *, topics: Collection[str] | None, kv_namespaces: Collection[str], lasting_ms: int
    ) -> None:
        self._sides = sides
        self._topics = topics
        self._kv_namespaces = kv_namespaces
        self._lasting_ms = lasting_ms
        self._lasting = Lasting(lasting_ms)
        self._whole: list[SideNow] = [SideNow(side.name, side.what, error="not read yet") for side in sides]
        self._looks = 0
        self._look_ms = 0
        self._looked_ms = 0

    async def look(self) -> Report:
        """Read every side, and compare all of them."""
        started = time.monotonic()
        looked = await self._look(self._topics)
        self._whole = [now_of(side, looked) for side in self._sides]
        self._look_ms = round((time.monotonic() - started) * 1000)
        return self.report()

    async def look_again(self) -> Report:
        """Read and compare again: the routes of topics that differ, and all clusters, brokers, KV and configuration."""
        topics = topics_of(self._lasting.open_cells())
        if len(topics) > _MOST_TOPICS_AGAIN:
            return await self.look()
        looked = await self._look(topics)
        if looked.errors:
            self._whole = [
                now_of(side, looked) if side.name in looked.errors else was
                for side, was in zip(self._sides, self._whole, strict=True)
            ]
        return self.report()

    async def _look(self, topics: Collection[str] | None) -> SidesSeen:
        looked = await look_at(self._sides, topics, self._kv_namespaces)
        self._looks += 1
        self._looked_ms = now_ms()
        self._lasting.look(
            self._looked_ms, differences(looked.contents), looked.contents,
            [cell for cell in self._lasting.cells if topics is None or cell.kind != "topic" or cell.name in topics],
        )  # fmt: skip
        return looked

    def report(self) -> Report:
        """Return the differences that are known now."""
        order = {side.name: place for place, side in enumerate(self._sides)}
        return Report(
            self._looked_ms, self._lasting_ms, self._looks, self._look_ms, self._whole,
            [
                msgspec.structs.replace(one, told=dict(sorted(one.told.items(), key=lambda told: order[told[0]])))
                for one in self._lasting.standing(self._looked_ms)
            ],
        )  # fmt: skip

    async def until(self, is_enough: Callable[[Report], bool], deadline_s: float) -> Report:
        """Compare differing cells again until ``is_enough``, or ``time.monotonic()`` is past the deadline."""
        report = self.report()
        while not is_enough(report) and (left_s := deadline_s - time.monotonic()) > 0:
            await asyncio.sleep(min(left_s, self._pause_s()))
            if self._lasting.open_cells():
                report = await self.look_again()
        return report

    def _pause_s(self) -> float:
        """The pause before differing cells are read again: a tenth of the period after which they count."""
        if len(topics_of(self._lasting.open_cells())) > _MOST_TOPICS_AGAIN:
            return max(_AGAIN_S, 2 * self._look_ms / 1000)
        return min(_AGAIN_S, max(_LEAST_AGAIN_S, self._lasting_ms / 10_000))


def is_decided(report: Report) -> bool:
    """Whether the result is final: no difference is too young to count, or a side cannot be read."""
    return bool(report.unread) or not report.of(Sort.YOUNG)
