"""Why a connection was closed, in the words of ``/metrics``; the log has the details."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Closed(StrEnum):
    """Each reason; a connection counts under the first one that applied."""

    CLIENT = "client"  # it hung up, or the network did
    LATE = "late"  # the same, some time ago: this process stood still, and the client may be back elsewhere
    IDLE = "idle"
    BAD_FRAME = "bad_frame"
    SLOW_FRAME = "slow_frame"
    SLOW_CLIENT = "slow_client"
    HANDSHAKE = "handshake"  # its first bytes did not come in time
    TLS = "tls"
    TOO_MANY = "too_many"
    RATE = "rate"
    MEMORY = "memory"
    RULES = "rules"  # of who may do what: its user or certificate counts no more
    BROKER_EXPIRED = "broker_expired"
    SHUTDOWN = "shutdown"


_ENDS: Final = (Closed.CLIENT, Closed.BAD_FRAME, Closed.TLS, Closed.RULES)


def cause_of(closed_as: Closed, *, was_reset: bool) -> str:
    """Why a broker that spoke over a connection counts as gone; "" = the front end closed it for reasons of its own."""
    if closed_as is Closed.CLIENT and was_reset:
        return "reset"
    return closed_as.value if closed_as in _ENDS else ""
