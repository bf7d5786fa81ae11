"""The interface through which a running pipeline reports what it does: to the terminal and the metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class RunReport(Protocol):
    """Takes the reports of every batch and every round; several threads call it."""

    def behind(self, stream: str, seconds: float, namespace: str) -> None:
        """Note how far the lake is behind a stream: time from the lake's last entry to the stream's last entry."""

    def took(self, stream: str, rows: int, quarantined: int) -> None:
        """Count a batch that is in the lake: ``rows`` entries that can be read, and ``quarantined`` that cannot."""

    def figures(self, read: Callable[[], dict[str, dict[str, float]]], namespace: str) -> None:
        """Note that the lake has new figures of the last whole hour; ``read`` returns metric -> cluster -> value."""

    def round_done(self, seconds: float, seq: int, namespace: str) -> None:
        """Count a round: its queries took ``seconds``, and silver has all changes up to ``seq``."""

    def round_failed(self, why: str) -> None:
        """Count a failed round: ``redis_away`` and ``worker_late`` are tried again, ``failed`` ends the pipeline."""


class Unwatched:
    """Drops the reports of a run that nobody watches."""

    def _drop(self, *_: object, **__: object) -> None:
        pass

    behind = took = figures = round_done = round_failed = _drop
