"""Pauses Python's garbage collector around loops that make many objects, none of which is in a reference cycle.

The collector would look at all of them and find nothing; that was half the time of replaying changes.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """No collection until the end of the block. Objects without a reference are still freed at once."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
