"""Formats moments, durations, shares and counts for an operator."""

from __future__ import annotations

import datetime
from itertools import pairwise

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"))


def moment(ms: int, *, date: bool = True) -> str:
    """``2026-11-21 03:02:07.120`` in UTC; seconds and milliseconds only if they are not 0."""
    at = datetime.datetime.fromtimestamp(ms // 1000, datetime.UTC)
    text = at.strftime("%Y-%m-%d %H:%M" if date else "%H:%M")
    if ms % 60_000:
        text += at.strftime(":%S")
    return text + (f".{ms % 1000:03d}" if ms % 1000 else "")


def length(ms: float) -> str:
    """``2h 13m``: the two largest units; less than a second in ms."""
    ms = round(ms)
    if ms < 1000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f}s" if ms % 1000 else f"{ms // 1000}s"
    for (unit, name), (lower, lower_name) in pairwise(_UNITS):
        if ms >= unit:
            rest = ms % unit // lower
            return f"{ms // unit}{name}" + (f" {rest}{lower_name}" if rest else "")
    raise AssertionError("unreachable")


def share(value: float | None) -> str:
    """``99.93 %``; 100 % only for 1, and 0 % only for 0."""
    if value is None:
        return "–"
    if value in (0, 1):
        return f"{value:.0%}".replace("%", " %")
    return f"{min(max(value * 100, 0.001), 99.999):.3f}".rstrip("0").rstrip(".") + " %"


def count(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun: ``1 flap``, ``3 flaps``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
