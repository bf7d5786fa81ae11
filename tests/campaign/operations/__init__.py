"""What may happen to a world at random: each operation disturbs something for a while, and ends by itself.

Single faults are in ``redis_server``, ``failovers``, ``links``, ``processes`` and ``brokers``. Short sequences that
chance alone would reach too seldom are in ``connections``, ``graces``, ``losses``, ``liveness``, ``limits`` and
``supervisors``;
each is one operation of a schedule.
"""

from . import (
    acknowledged,
    brokers,
    connections,
    failovers,
    graces,
    limits,
    links,
    liveness,
    losses,
    processes,
    redis_server,
    supervisors,
)  # fmt: skip
from .table import OPERATIONS, Busy, Operation

MODULES = (
    acknowledged, brokers, connections, failovers, graces, limits, links, liveness, losses, processes,
    redis_server, supervisors,
)  # fmt: skip
__all__ = ["MODULES", "OPERATIONS", "Busy", "Operation"]
