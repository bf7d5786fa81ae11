"""From a sequence that differs to the shortest one found that still does."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

from .steps import Step, draw_step

Numbers = tuple[int, ...]


def random_sequence(seed: int, length: int) -> list[Numbers]:
    """The numbers that the steps of one sequence are drawn from."""
    random = Random(seed)
    return [_record(random) for _ in range(length)]


def _record(random: Random) -> Numbers:
    numbers: list[int] = []

    def choose(bound: int) -> int:
        numbers.append(random.randrange(bound))
        return numbers[-1]

    draw_step(choose)
    return tuple(numbers)


def steps_of(sequence: list[Numbers]) -> list[Step]:
    """The steps; a number too large for its choice counts as the last one, one that is missing as 0."""
    return [_step(numbers) for numbers in sequence]


def _step(numbers: Numbers) -> Step:
    left = list(numbers)
    return draw_step(lambda bound: min(left.pop(0), bound - 1) if left else 0)


def shrink(sequence: list[Numbers], differs: Callable[[list[Numbers]], bool], within_s: float) -> list[Numbers]:
    """Drop steps, by halves and then one by one; then make the numbers of those that are left smaller."""
    deadline = time.monotonic() + within_s

    def better(candidate: list[Numbers]) -> bool:
        return time.monotonic() < deadline and differs(candidate)

    size = max(1, len(sequence) // 2)
    while size:
        at = 0
        while at < len(sequence):
            candidate = sequence[:at] + sequence[at + size :]
            if candidate and better(candidate):
                sequence = candidate
            else:
                at += size
        size //= 2
    for at, numbers in enumerate(sequence):
        for position in range(1, len(numbers)):
            if numbers[position]:
                plainer = (*numbers[:position], 0, *numbers[position + 1 :])
                if better([*sequence[:at], plainer, *sequence[at + 1 :]]):
                    numbers = plainer
                    sequence = [*sequence[:at], plainer, *sequence[at + 1 :]]
    return sequence
