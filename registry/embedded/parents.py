"""Makes a process end when its parent ends, and describes how a process ended."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from typing import Final

_PRCTL: Final = getattr(ctypes.CDLL(None), "prctl", None)
_PR_SET_PDEATHSIG: Final = 1
KERNEL_TELLS: Final = _PRCTL is not None
"""Whether :func:`die_with_parent` does anything."""
_LOOK_EVERY_S: Final = 0.1


def die_with_parent(number: signal.Signals = signal.SIGTERM) -> None:
    """Make the kernel send this signal to the child when its parent ends; for ``preexec_fn``, only on Linux."""
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, number)


def end_with_parent(parent: int) -> None:
    """Kill this process when its parent ends in any way, also while nothing else of it gets a turn.

    Watch the parent in a thread, where the kernel sends no signal (not Linux).
    """
    die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:  # it ended before
        os.kill(os.getpid(), signal.SIGKILL)
    if _PRCTL is None:
        threading.Thread(target=_watch, args=(parent,), name="parent", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY_S)
    os.kill(os.getpid(), signal.SIGKILL)


def how_it_ended(code: int) -> str:
    """How a process ended, by its exit status, or the negative number of the signal that killed it."""
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
