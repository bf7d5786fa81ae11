"""Makes a failing schedule shorter, by leaving parts of it out (delta debugging), for as long as there is time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shorten(
    steps: Sequence[T],
    fails: Callable[[Sequence[T]], bool],
    *,
    within_s: float,
    now: Callable[[], float] = time.monotonic,
) -> list[T]:
    """The shortest sequence found that still fails; ``fails`` runs a round and may take long."""
    kept, parts, end = list(steps), 2, now() + within_s
    while len(kept) > 1 and now() < end:
        size = -(-len(kept) // parts)
        chunks = [kept[start : start + size] for start in range(0, len(kept), size)]
        for number in range(len(chunks)):
            if now() >= end:
                return kept
            rest = [step for other, chunk in enumerate(chunks) if other != number for step in chunk]
            if rest and fails(rest):
                kept, parts = rest, max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(kept), parts * 2)
    return kept
