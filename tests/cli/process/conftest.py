"""The command line as real processes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from .world import World


@pytest.fixture
def world():
    """A user's surroundings of their own; short, for the sake of the sockets. Ends what the test left running."""
    with tempfile.TemporaryDirectory(prefix="mq") as folder:
        world = World(Path(folder), forked=True)
        yield world
        world.close()


@pytest.fixture
def new_interpreters(world):
    """The commands of this test are new interpreters, as a user's are."""
    world.forked = False
