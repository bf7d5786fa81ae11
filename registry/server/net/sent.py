"""Says when a peer sent what is being worked on, and whether it has hung up since.

A process that stood still does not know: it reads old bytes, and only then that their sender is gone. So the kernel is
asked.
"""

from __future__ import annotations

import socket
import struct
from time import perf_counter
from typing import Any, Final

# Of the kernel's struct tcp_info: the state, and the milliseconds since data came.
_TCP_INFO_BYTES: Final = 56
_ESTABLISHED: Final = 1
_DATA_AGE_AT: Final = 52


class Sent:
    """Part of a connection. hung_up: whether the peer is known to have closed it; was_reset: and broke it.

    said_s: when the write that is being worked on was sent; heard_s: when a broker was last heard over it, 0: never
    (time.perf_counter()).
    """

    __slots__ = ("_transport", "heard_s", "hung_up", "said_s", "was_reset")

    def __init__(self) -> None:
        self._transport: Any = None
        self.hung_up = self.was_reset = False
        self.said_s = self.heard_s = 0.0

    def sent_at_s(self, now_s: float) -> float:
        """When the bytes that were read just now were sent."""
        hung_up, ago_s = _look(self._transport)
        self.hung_up = self.hung_up or hung_up
        return now_s - ago_s

    @property
    def said_ago_s(self) -> float:
        """How long ago the write that is being worked on was sent, as far as this machine can tell."""
        return perf_counter() - self.said_s

    def has_hung_up(self) -> bool:
        """Whether the peer has closed the connection, also if that was not read yet."""
        self.hung_up = self.hung_up or _look(self._transport)[0]
        return self.hung_up


def _look(transport: Any) -> tuple[bool, float]:
    """Whether the peer has closed the connection, read or not, and the seconds since its last data came.

    (False, 0.0) where the kernel does not say it: it is no Linux, or no TCP connection.
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
