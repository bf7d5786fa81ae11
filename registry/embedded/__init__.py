"""A private Redis server on this machine, for ``up``, ``demo`` and the tests."""

from .binaries import find_server
from .parents import die_with_parent, end_with_parent, how_it_ended
from .server import EmbeddedRedis

__all__ = ["EmbeddedRedis", "die_with_parent", "end_with_parent", "find_server", "how_it_ended"]
