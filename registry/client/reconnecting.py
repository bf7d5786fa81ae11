"""A connection that is made when it is needed, again after it was lost, and not too often.

Source of the numbers: a Java client tries at every request; here a peer that cannot be reached is left alone for a
moment, longer each time, so that callers learn at once that it is away instead of waiting one after the other.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from registry.client.addresses import Address
from registry.client.connection import REQUEST_TIMEOUT_S, Connection
from registry.errors import ClientClosed, PeerUnavailable
from registry.protocol.command import Command


class Backoff:
    """Pauses that grow from ``first_s`` to ``most_s``, each somewhere in its upper half so that clients spread."""

    def __init__(self, first_s: float = 0.1, most_s: float = 10.0) -> None:
        self.first_s, self.most_s = first_s, most_s
        self._failures = 0

    def failed(self) -> float:
        """How long to leave it alone now, in seconds."""
        pause_s: float = min(self.most_s, self.first_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return pause_s * (0.5 + random.random() / 2)

    def succeeded(self) -> None:
        """The next pause is the first again."""
        self._failures = 0


class ReconnectingConnection:
    """One peer, and at most one connection to it at a time.

    Args:
        options: for :meth:`Connection.connect`, such as ``tls``, ``encoding``, ``on_request``.
        connect_timeout_s: for making a connection; a request's own timeout begins after it.
    """

    def __init__(
        self,
        address: Address,
        *,
        connect_timeout_s: float = REQUEST_TIMEOUT_S,
        backoff: Backoff | None = None,
        **options: Any,
    ) -> None:
        self.address = address
        self._connect_timeout_s = connect_timeout_s
        self._options = options
        self._backoff = backoff or Backoff()
        self._connection: Connection | None = None
        self._retired: set[Connection] = set()
        self._connecting = asyncio.Lock()
        self._away_until_s = 0.0
        self._why = ""
        self._closed = False

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection that is worth asking."""
        return self._connection is not None and self._connection.is_usable

    def is_current(self, connection: Connection) -> bool:
        """Whether this is the connection that it has now."""
        return connection is self._connection

    @property
    def away_s(self) -> float:
        """For how long it is still left alone; 0 when it may be tried."""
        return max(0.0, self._away_until_s - asyncio.get_running_loop().time())

    async def connected(self, *, now: bool = False) -> Connection:
        """The connection; callers at the same time share one attempt.

        Args:
            now: also when the peer was tried and failed just before.

        Raises:
            PeerUnavailable: it cannot be reached, or is left alone for now.
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
                connection = await Connection.connect(
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
            except ClientClosed:  # meanwhile
                connection.abort()
                raise
            self._backoff.succeeded()
            self._away_until_s = 0.0
            self._connection = connection
            return connection

    async def request(
        self,
        code: int,
        ext_fields: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        now: bool = False,
        **fields: Any,
    ) -> Command:
        """As :meth:`Connection.request`, over a connection that is made if need be."""
        connection = await self.connected(now=now)
        return await connection.request(code, ext_fields, body, timeout_s=timeout_s, **fields)

    def retire(self) -> None:
        """Let go of the connection; what is under way on it is still answered. The next request makes another."""
        if self._connection is not None:
            self._connection.retire()
            self._retired = {one for one in self._retired if not one.is_closed} | {self._connection}
            self._connection = None

    def abort(self) -> None:
        """Hang up at once, for good; waits for nothing."""
        self._closed = True
        for connection in self._all():
            connection.abort()

    async def close(self) -> None:
        """Hang up, for good."""
        self._closed = True
        await asyncio.gather(*(connection.close() for connection in self._all()))

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed(f"the connection to {self.address} was closed")

    def _all(self) -> list[Connection]:
        return [*self._retired, *([self._connection] if self._connection is not None else ())]
