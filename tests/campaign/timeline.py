"""When what was disturbed: the windows of all faults, and what may be asked of the registry between them.

Places: ``redis`` (nobody can write, or it was slow to answer), ``master`` (another one takes its place, and both may
be written to), ``fe0``, ``fe1``, ... (something about this front end), ``gap0``, ``gap1``, ... (none of its workers
can renew a lease), ``sweep`` (a sweeper), ``clock`` (that of Redis stepped), ``loss`` (Redis lost changes, and known
routes are served beside what it holds), ``load`` (answers are slow), ``peers`` (this process itself had no processor
time: brokers could not beat), ``waits`` (some process waited for a processor).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

Windows = list[tuple[float, float]]

UNNOTICED_S = 3.2
"""A silence of all front ends up to 3 s is no gap (lua/include/seen): it counts against every broker."""


def united(windows: Iterable[tuple[float, float]]) -> Windows:
    """The same times as windows that do not overlap, in order."""
    merged: Windows = []
    for start, end in sorted(windows):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        elif end > start:
            merged.append((start, end))
    return merged


def common(one: Windows, other: Windows) -> Windows:
    """The times in both."""
    return united((max(a, c), min(b, d)) for a, b in one for c, d in other if max(a, c) < min(b, d))


def within(windows: Windows, since: float, until: float) -> float:
    """How much of [since, until] lies in windows that do not overlap."""
    return sum(max(0.0, min(end, until) - max(start, since)) for start, end in windows)


def most_had(samples: Sequence[tuple[float, float]], lasting_s: float) -> float:
    """The most that a counter can have grown within any time of this length. samples: (when, counter), in order."""
    most, end = 0.0, 0
    for number, (_, before) in enumerate(samples[:-1]):
        while end < len(samples) - 1 and samples[end][0] < samples[number + 1][0] + lasting_s:
            end += 1
        most = max(most, samples[end][1] - before)
    return most


class Timeline:
    """The windows so far; ``now`` is the clock (time.monotonic). look: adds what goes on, before each question."""

    def __init__(self, now: Callable[[], float], look: Callable[[], object] = lambda: None) -> None:
        self.now, self._look = now, look
        self._windows: dict[str, list[list[float]]] = {}
        self._depth: dict[str, int] = {}

    def begin(self, place: str) -> None:
        """A disturbance of this place begins; several may overlap."""
        depth = self._depth[place] = self._depth.get(place, 0) + 1
        if depth == 1:
            self._windows.setdefault(place, []).append([self.now(), math.inf])

    def end(self, place: str) -> None:
        """One of them ended."""
        self._depth[place] -= 1
        if self._depth[place] == 0:
            self._windows[place][-1][1] = self.now()

    def add(self, place: str, start: float, end: float) -> list[float]:
        """A window that is known as a whole; returns it: its end may be moved."""
        window = [start, end]
        self._windows.setdefault(place, []).insert(0, window)
        return window

    def windows(self, place: str, pad_s: float = 0.0) -> Windows:
        """The windows of one place, each longer by ``pad_s``."""
        self._look()
        return united((start, end + pad_s) for start, end in self._windows.get(place, ()))

    def disturbed(self, pad_s: float = 0.0) -> Windows:
        """The times at which anything was disturbed."""
        self._look()
        return united(window for place in list(self._windows) for window in self.windows(place, pad_s))

    def is_quiet(self, since: float, until: float, places: Iterable[str] | None = None) -> bool:
        """Whether nothing (or none of these places) was disturbed in the meantime."""
        self._look()
        chosen = list(self._windows) if places is None else places
        return all(not within(self.windows(place), since, until) for place in chosen)

    def quiet_s(self, since: float, until: float, pad_s: float) -> float:
        """How much of this time nothing was disturbed, nor had been within the last ``pad_s``."""
        return until - since - within(self.disturbed(pad_s), since, until)

    def gaps(self, front_ends: Iterable[int]) -> Windows:
        """The times at which none of all front ends could renew a lease."""
        places = [self.windows(f"gap{index}") for index in front_ends]
        apart = places[0] if places else []
        for windows in places[1:]:
            apart = common(apart, windows)
        return united([*self.windows("redis"), *apart])

    def excused_s(self, front_ends: Iterable[int], since: float, until: float) -> float:
        """How much of a broker's silence the registry must forgive.

        Only what nobody could hear counts: while any of all front ends hears, a broker that speaks only to others
        expires. Of each such window the first three seconds are not noticed.
        """
        return sum(
            max(0.0, min(end, until) - max(start + UNNOTICED_S, since)) for start, end in self.gaps(front_ends)
        )  # fmt: skip
