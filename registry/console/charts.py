"""Draws charts as SVG: a browser gets no data and runs no script for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from markupsafe import Markup

from ..operators.language import say
from .state import MINUTE_MS, MINUTES

_WIDTH: Final = 600
_HEIGHT: Final = 48


def minutes_chart(
    per_minute: Mapping[int, int], now_ms: int, *, of: str = "", what: str = "",
    is_level: bool = False, changes: str = "",
) -> Markup:  # fmt: skip
    """A bar for the count of each minute in the hour up to ``now_ms``; the label says the same in words.

    Args:
        of, what: words for the hour and for what is counted, in the language of the page. is_level: a count is how
            many existed in that minute, not how many were new. changes: the address of the page of changes; it opens
            when a range is selected in the chart (console.js).
    """
    last = now_ms // MINUTE_MS
    minutes = range(last - MINUTES + 1, last + 1)
    counts = [per_minute.get(minute, 0) for minute in minutes]
    most = max(counts) or 1
    step = _WIDTH / MINUTES
    bars = Markup("").join(
        Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
            number * step, _HEIGHT - (height := max(1.5, count / most * (_HEIGHT - 2))), step - 2, height
        )
        for number, count in enumerate(counts)
        if count
    )
    of, what = of or say("within the last hour"), what or say("changes")
    label = say("{sum} {what} {of}, at most {most} in a minute", sum=f"{sum(counts):,}", what=what, of=of,
                most=f"{max(counts):,}")  # fmt: skip
    if is_level:
        known = [per_minute[minute] for minute in minutes if minute in per_minute] or [0]
        label = say("{now} {what} now, {least} to {most} {of}", now=f"{known[-1]:,}", what=what, of=of,
                    least=f"{min(known):,}", most=f"{max(known):,}")  # fmt: skip
    return Markup(
        '<svg class="minutes" viewBox="0 0 {w} {h}" preserveAspectRatio="none" role="img" aria-label="{label}"{range}>'
        '<line x1="0" y1="{b}" x2="{w}" y2="{b}"/>{bars}</svg>'
    ).format(
        w=_WIDTH, h=_HEIGHT, b=_HEIGHT - 0.5, label=label, bars=bars,
        range=Markup(' data-range="{}" data-last-minute="{}"').format(changes, last) if changes else "",
    )  # fmt: skip
