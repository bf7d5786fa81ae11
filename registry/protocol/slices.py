"""Does long work in slices of a few milliseconds, so that an event loop can serve other requests between two slices."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

Slices = Generator[None, None, T]
"""A generator that pauses between its slices, and returns its result."""


def finish(slices: Slices[T]) -> T:
    """Run all slices without a pause; returns the result."""
    while True:
        try:
            next(slices)
        except StopIteration as done:
            result: T = done.value
            return result
