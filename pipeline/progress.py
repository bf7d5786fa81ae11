"""The interface through which a running pipeline reports what it does: to the terminal and the metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class RunReport(Protocol):
    """Takes the reports of every batch and every round; several threads call it."""

    def behind(self, stream: str, seconds: float, namespace: str) -> None:
        """How far the lake is behind a stream: time from the last entry that the lake has to the newest entry."""

    def took(self, stream: str, rows: int, quarantined: int) -> None:
        """A batch of a stream is in the lake: ``rows`` that can be read, and ``quarantined`` that cannot."""

    def figures(self, read: Callable[[], dict[str, dict[str, float]]], namespace: str) -> None:
        """The lake has new figures of the last whole hour; ``read`` returns metric -> cluster -> value."""

    def round_done(self, seconds: float, seq: int, namespace: str) -> None:
        """A round went through in this time; the tables have everything up to this change."""

    def round_failed(self, why: str) -> None:
        """A round ended early: ``redis_away``, ``worker_late`` (tried again), ``failed`` (the pipeline ends)."""


class Unwatched:
    """Drops the reports of a run that nobody watches."""

    def _drop(self, *_: object, **__: object) -> None:
        pass

    behind = took = figures = round_done = round_failed = _drop
