"""Makes a connection when it is needed, and again after it was lost, but not too often.

A Java client tries to connect at every request. This client pauses after a failed try, each time for longer: during
the pause, callers get the error at once and need not wait.
"""

from __future__ import annotations

import asyncio
import random
from typing import Unpack

from ..errors import ClientClosed, PeerUnavailable
from .addresses import NameServerAddress
from .connection import REQUEST_TIMEOUT_S, ConnectionOptions, PeerConnection


class Backoff:
    """Pauses that double from ``first_s`` to ``most_s``, each randomly shortened by up to half: so clients spread."""

    def __init__(self, first_s: float = 0.1, most_s: float = 10.0) -> None:
        self.first_s, self.most_s = first_s, most_s
        self._failures = 0

    def failed(self) -> float:
        """Count a failure; returns the pause in seconds."""
        pause_s: float = min(self.most_s, self.first_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return pause_s * (0.5 + random.random() / 2)

    def succeeded(self) -> None:
        """Begin again with the first pause."""
        self._failures = 0


class ReconnectingConnection:
    """Keeps at most one usable connection to one peer.

    Args:
        connect_timeout_s: for making a connection.
        backoff: the pauses after failed tries.
        options: ``tls``, ``encoding``, ``max_in_flight``, ``on_request``: see :meth:`PeerConnection.connect`.
    """

    def __init__(
        self,
        address: NameServerAddress,
        *,
        connect_timeout_s: float = REQUEST_TIMEOUT_S,
        backoff: Backoff | None = None,
        **options: Unpack[ConnectionOptions],
    ) -> None:
        self.address = address
        self._connect_timeout_s = connect_timeout_s
        self._options = options
        self._backoff = backoff or Backoff()
        self._connection: PeerConnection | None = None
        self._retired: set[PeerConnection] = set()
        self._connecting = asyncio.Lock()
        self._away_until_s = 0.0
        self._why = ""
        self._closed = False

    def is_current(self, connection: PeerConnection) -> bool:
        """Whether this is the connection for the next request."""
        return connection is self._connection

    @property
    def away_s(self) -> float:
        """The seconds until the peer may be tried again; 0: now."""
        return max(0.0, self._away_until_s - asyncio.get_running_loop().time())

    async def connected(self, *, now: bool = False) -> PeerConnection:
        """Return the connection, or make one. Callers at the same time share one try.

        Args:
            now: try even if a try failed just before.

        Raises:
            PeerUnavailable: the peer cannot be reached, or a try failed just before.
            ClientClosed: close() was called.
        """
        if self._connection is not None and self._connection.is_usable:
            return self._connection
        async with self._connecting:
            self._check_open()
            if self._connection is not None and self._connection.is_usable:
                return self._connection
            self.retire()
            if self.away_s and not now:
                raise PeerUnavailable(f"{self._why} (tried again in {self.away_s:.1f} s)")
            address = self.address
            try:
                connection = await PeerConnection.connect(
                    address.host,
                    address.port,
                    timeout_s=self._connect_timeout_s,
                    server_hostname=address.name,
                    **self._options,
                )
            except PeerUnavailable as error:
                self._why = str(error)
                self._away_until_s = asyncio.get_running_loop().time() + self._backoff.failed()
                raise
            try:
                self._check_open()
            except ClientClosed:  # it was closed while the connection was made
                connection.abort()
                raise
            self._backoff.succeeded()
            self._away_until_s = 0.0
            self._connection = connection
            return connection

    def retire(self) -> None:
        """Send no more requests over the connection; requests under way go on. ``connected`` makes a new connection."""
        if self._connection is not None:
            self._connection.retire()
            self._retired = {one for one in self._retired if not one.is_closed} | {self._connection}
            self._connection = None

    def abort(self) -> None:
        """Close all connections at once, for good, without waiting."""
        self._closed = True
        for connection in self._all():
            connection.abort()

    async def close(self) -> None:
        """Close all connections for good."""
        self._closed = True
        await asyncio.gather(*(connection.close() for connection in self._all()))

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed(f"the connection to {self.address} was closed")

    def _all(self) -> list[PeerConnection]:
        return [*self._retired, *([self._connection] if self._connection is not None else ())]
