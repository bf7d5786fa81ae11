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
KERNEL_TELLS: Final = _PRCTL is not None  # else die_with_parent does nothing
_LOOK_EVERY_S: Final = 0.1


def die_with_parent(number: signal.Signals = signal.SIGTERM) -> None:
    """Make the kernel send this signal to this process when its parent ends; for ``preexec_fn``, only on Linux."""
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, number)


def end_with_parent(parent: int) -> None:
    """Kill this process when its parent ends in any way, even while this process hangs.

    Without the kernel's signal (not Linux) a thread watches the parent.
    """
    die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before
        os.kill(os.getpid(), signal.SIGKILL)
    if _PRCTL is None:
        threading.Thread(target=_watch, args=(parent,), name="parent", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY_S)
    os.kill(os.getpid(), signal.SIGKILL)


def how_it_ended(code: int) -> str:
    """Describe how a process ended. ``code``: its exit status, or the negative number of the signal that killed it."""
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
