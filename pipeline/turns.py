"""A lock for the threads of one run: only one at a time writes silver or gold, or maintains tables."""

from __future__ import annotations

import threading
from typing import Final

from mqregistry.errors import RegistryError

_LOOK_S: Final = 0.5


class Stopped(RegistryError):
    """The run was asked to stop."""


class Turns:
    """A lock for ``with``; a thread that waits for it raises Stopped when the run is asked to stop."""

    def __init__(self, stop: threading.Event) -> None:
        self._lock = threading.Lock()
        self._stop = stop

    def __enter__(self) -> None:
        while not self._lock.acquire(timeout=_LOOK_S):
            if self._stop.is_set():
                raise Stopped("stopped; the next run goes on from here")

    def __exit__(self, *_: object) -> None:
        self._lock.release()
