"""The namespace of a test, whose clock stands still."""

from __future__ import annotations

import pytest

from .bed import Bed, stop_clock


@pytest.fixture
def bed(bed: Bed) -> Bed:
    """Time passes in it as a test says, however long the machine takes."""
    stop_clock(bed.store)
    return bed
