"""What a pipeline tells of itself while it runs: to whoever shows it, and to nobody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Progress(Protocol):
    """Is told of every round and of every batch, from several threads."""

    def behind(self, stream: str, seconds: float, namespace: str) -> None:
        """So much time lies between the last entry of a stream that the lake has and the stream's last one."""

    def took(self, stream: str, rows: int, quarantined: int) -> None:
        """A batch of a stream is in the lake; so many entries could not be read, and are in quarantine."""

    def figures(self, read: Callable[[], dict[str, dict[str, float]]], namespace: str) -> None:
        """The lake has other figures of the last whole hour; read them: metric -> cluster -> value."""

    def round_done(self, seconds: float, seq: int, namespace: str) -> None:
        """A round went through in this time; the tables have everything up to this change."""

    def round_failed(self, why: str) -> None:
        """A round ended early: ``redis_away``, ``worker_late`` (tried again), ``failed`` (the pipeline ends)."""


class Unwatched:
    """Nobody looks."""

    def behind(self, stream: str, seconds: float, namespace: str) -> None:
        """Nothing happens."""

    def took(self, stream: str, rows: int, quarantined: int) -> None:
        """Nothing happens."""

    def figures(self, read: Callable[[], dict[str, dict[str, float]]], namespace: str) -> None:
        """Nothing happens."""

    def round_done(self, seconds: float, seq: int, namespace: str) -> None:
        """Nothing happens."""

    def round_failed(self, why: str) -> None:
        """Nothing happens."""
