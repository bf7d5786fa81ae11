"""The peer of a connection: its addresses, who sends over the connection, and whether it has closed the connection.

A process that was paused reads old bytes without knowing when they came, and before it reads that their sender has
closed the connection. So this module asks the kernel for both.
"""

from __future__ import annotations

import socket
import struct
from abc import abstractmethod
from time import perf_counter
from typing import Any, Final, NamedTuple

from ...auth.policy import Policy
from ...request_rights import Resources
from ...store.route_writes import Channel
from ..counting.counters import Closed
from .caller import NO_CERTIFICATE, Caller, Unproven
from .refusal import Refusal

# The kernel's struct tcp_info: its first byte is the connection's state.
_TCP_INFO_BYTES: Final = 56
_ESTABLISHED: Final = 1
_DATA_AGE_AT: Final = 52  # where the milliseconds since data came are


class Verified(NamedTuple):
    """A registration with a right signature. Until ``until_s``, registrations with its digest are not checked again."""

    caller: Caller
    policy: Policy
    until_s: float


class LastDecision(NamedTuple):
    """The last registration that was decided on, and the decision.

    A registration with the same header, caller and rows gets the same decision from the same authorization (``by``).
    """

    by: object
    ext_fields: dict[str, str] | None
    caller: Caller | Unproven
    rows: Resources
    refusal: Refusal | None


class Peer:
    """The other end of a connection, as rules, limits and the handlers of requests see it.

    ``address``: of the client, for the log. ``host``: the host on which limits depend: the client's, or the balancer's
    if its
        PROXY header is not believed. ``source``: the host on which rules depend; "" = not known. ``via``: the balancer
        that the connection came through; "" = none.
    ``caller``: who sent the write that is executed; None: authentication is off. ``last_caller``: the last known user
    who sent
        a request. ``own_caller``: the sender of unsigned requests; None: not found yet for the policy in force.
    ``channel``: the connection's name in Redis. ``closed_as``, ``was_reset``: how the connection ended. ``hung_up``:
    the peer is known
        to have closed it: nobody reads an answer then, and the brokers that it registered are removed at once.
    ``said_s``: when the write that is executed was sent; ``heard_s``: when a broker last sent a sign of life over this
        connection, 0: never (time.perf_counter()).
    """

    __slots__ = (
        "_transport", "address", "caller", "certificate", "channel", "closed_as", "heard_s", "host", "hung_up",
        "is_tls", "last_caller", "looked", "own_caller", "said_s", "source", "verified", "via", "was_reset",
    )  # fmt: skip

    def __init__(self, channel: Channel) -> None:
        self._transport: Any = None
        self.channel = channel
        self.address = self.host = "?"
        self.source = self.via = ""
        self.is_tls, self.certificate = False, NO_CERTIFICATE
        self.caller: Caller | None = None
        self.own_caller: Caller | None = None
        self.last_caller: Caller | None = None
        self.verified: Verified | None = None
        self.looked: LastDecision | None = None
        self.closed_as = Closed.CLIENT
        self.hung_up = self.was_reset = False
        self.said_s = self.heard_s = 0.0

    def named_by_proxy(self, address: str, *, counts: bool) -> None:
        """Take the client's address from a PROXY header; counts: limits and rules use it, else only logs and events."""
        self.via, self.address, self.source = self.address, address, ""
        if counts:
            self.host = self.source = address.rpartition(":")[0]

    @abstractmethod
    def close(self, closed_as: Closed, reason: str) -> None:
        """Close the connection after all written bytes are sent; the reason is logged."""

    def sent_at_s(self, now_s: float) -> float:
        """When the bytes that were read just now were sent."""
        hung_up, ago_s = _look(self._transport)
        self.hung_up = self.hung_up or hung_up
        return now_s - ago_s

    @property
    def said_ago_s(self) -> float:
        """How long ago the write that is executed was sent, by the kernel's record of when its bytes came."""
        return perf_counter() - self.said_s

    def has_hung_up(self) -> bool:
        """Whether the peer has closed the connection, even if this process has not read that yet."""
        self.hung_up = self.hung_up or _look(self._transport)[0]
        return self.hung_up


def _look(transport: Any) -> tuple[bool, float]:
    """Ask the kernel whether the peer has closed the connection, and how many seconds ago its last data came.

    (False, 0.0) if the kernel cannot tell: it is not Linux, or the connection is not TCP.
    """
    end: Any = transport.get_extra_info("socket") if transport is not None else None
    if end is None or not hasattr(socket, "TCP_INFO"):
        return False, 0.0
    try:
        found = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    except (OSError, NotImplementedError):
        return False, 0.0
    if len(found) < _TCP_INFO_BYTES:
        return False, 0.0
    return found[0] != _ESTABLISHED, struct.unpack_from("=I", found, _DATA_AGE_AT)[0] / 1000
