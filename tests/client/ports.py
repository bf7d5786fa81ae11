"""Ports for servers of tests that are stopped and started again, or never started."""

from __future__ import annotations

import itertools

from bench.servers.processes import free_port

_AT_ONCE = 40
_reserved: list[int] = []
_turns = itertools.count()


def reserved_port() -> int:
    """A port that nobody listens on, and no outgoing connection takes. It is given again, to a later test."""
    turn = next(_turns)
    if turn < _AT_ONCE:
        _reserved.append(free_port())
    return _reserved[turn % _AT_ONCE]
