"""Why a connection was closed, in the words of ``/metrics``; the log has the details."""

from __future__ import annotations

from enum import StrEnum


class Closed(StrEnum):
    """Each reason; a connection counts under the first one that applied."""

    CLIENT = "client"  # it hung up, or the network did
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
