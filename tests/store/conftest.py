"""A Redis that no other module of tests uses."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from mqregistry.embedded import EmbeddedRedis


@pytest.fixture(scope="module")
def own_redis():
    """A Redis that the tests of one module may empty, configure, and measure."""
    with tempfile.TemporaryDirectory(prefix="mq") as folder, EmbeddedRedis(Path(folder)) as server:
        yield server
