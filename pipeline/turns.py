"""Lets one at a time write silver or gold, or maintain tables, in one application; a wait ends with the run."""

from __future__ import annotations

import threading
from typing import Final

from mqregistry.errors import RegistryError

_LOOK_S: Final = 0.5


class Stopped(RegistryError):
    """The run was asked to stop."""


class Turns:
    """A lock for ``with``; raises Stopped where somebody else has it when the run is to stop."""

    def __init__(self, stop: threading.Event) -> None:
        self._lock = threading.Lock()
        self._stop = stop

    def __enter__(self) -> None:
        while not self._lock.acquire(timeout=_LOOK_S):
            if self._stop.is_set():
                raise Stopped("stopped; the next run goes on from here")

    def __exit__(self, *_: object) -> None:
        self._lock.release()
