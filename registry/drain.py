"""What a front end reports of a drain: which clients may still send to a brokerName that lost its write permission."""

from __future__ import annotations

from typing import Final

import msgspec

DRAIN_SEEN_MS: Final = 180_000
"""A drain ignores clients that were silent for longer: RocketMQ's clients look up their routes every 30 s."""


class DrainFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The clients of one worker that may still have a route in which a drained brokerName has write permission."""

    seq: int  # of the change that took the permission
    # clients that sent something within DRAIN_SEEN_MS, but have not looked up every topic of the brokerName again
    waiting: int = 0
    addresses: list[str] = []  # of the first waiting clients
    not_known: int = 0  # clients with more topics than a worker remembers
