"""A list of name servers as one: one of them is asked as long as it answers, then the next.

As the Java client chooses (NettyRemotingClient.getAndCreateNameserverChannel, updateNameServerAddressList): the
first by chance, then always the same, the next in turn when that fails; one that leaves the list is left.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Any, Self

from registry.client.addresses import Address, Addresses, Given
from registry.client.connection import REQUEST_TIMEOUT_S, Connection
from registry.client.reconnecting import Backoff, ReconnectingConnection
from registry.errors import ClientClosed, PeerGoesAway, PeerUnavailable, RemoteProtocolError
from registry.protocol.command import Command

logger = logging.getLogger(__name__)


class NameServers:
    """An async context manager; addresses may change while it is open (see :class:`Addresses`).

    Args:
        addresses: a list in any form that Addresses takes, or an Addresses.
        backoff_first_s, backoff_most_s: how long a server that cannot be reached is left alone.
        connect_timeout_s: for one server.
        options: for :meth:`Connection.connect`: ``tls``, ``encoding``, ``on_request``, ``max_in_flight``.

    Raises:
        ConfigError: no address was given, here or by the environment.
    """

    def __init__(
        self,
        addresses: Addresses | Given = None,
        *,
        backoff_first_s: float = 0.1,
        backoff_most_s: float = 10.0,
        connect_timeout_s: float = REQUEST_TIMEOUT_S,
        **options: Any,
    ) -> None:
        self.addresses = addresses if isinstance(addresses, Addresses) else Addresses(addresses)
        self._backoff_s = backoff_first_s, backoff_most_s
        self._options = {"connect_timeout_s": connect_timeout_s, **options}
        self._servers: dict[Address, ReconnectingConnection] = {}
        self._index = random.randrange(1 << 16)
        self._chosen: Address | None = None
        self._following: asyncio.Task[None] | None = None
        self._open = False
        self.on_addresses: list[Callable[[], None]] = []
        """Are called when the list is another one."""

    @property
    def chosen(self) -> Address | None:
        """The one that is asked; None before the first request, and after it failed."""
        return self._chosen

    async def __aenter__(self) -> Self:
        self._open = True
        self._following = asyncio.create_task(self.addresses.follow(self._use), name="name server addresses")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Hang up; what is under way fails. Cancelled, it hangs up all the same."""
        self._open = False
        task, self._following = self._following, None
        servers, self._servers = list(self._servers.values()), {}
        for server in servers:
            server.abort()
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await asyncio.gather(*(server.close() for server in servers))

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
        """Ask the chosen server; when it cannot be reached, does not answer or goes away, the others in turn.

        Args:
            timeout_s: for the answer of one server.
            now: try also those that failed just before; else that they are away is told at once.

        Raises:
            PeerUnavailable: none answers; the message has the reason of each.
            RemoteProtocolError: the last one answers with something that is no frame.
            ClientClosed: not open.
        """
        failures: dict[Address, Exception] = {}
        while True:
            server = await self._choose(failures)
            try:
                return await server.request(code, ext_fields, body, timeout_s=timeout_s, now=now, **fields)
            except (PeerUnavailable, RemoteProtocolError) as error:
                self._turn_from(server, error)
                failures[server.address] = error
            if not self._open:
                raise ClientClosed("these name servers were closed")
            if not self._others(failures):
                self.addresses.look_again_soon()
                raise self._none_answers(failures)

    async def connection(self, *, now: bool = False) -> Connection:
        """The connection to the chosen server, made if need be; for what has to stay with one server.

        Raises:
            PeerUnavailable, ClientClosed: as ``request``.
        """
        failures: dict[Address, Exception] = {}
        while True:
            server = await self._choose(failures)
            try:
                return await server.connected(now=now)
            except PeerUnavailable as error:
                self._turn_from(server, error)
                failures[server.address] = error
            if not self._others(failures):
                self.addresses.look_again_soon()
                raise self._none_answers(failures)

    def turn_from(self, connection: Connection) -> None:
        """What this connection's server answers is of no use: the next request goes to the next one."""
        for server in self._servers.values():
            if server.is_current(connection):
                self._turn_from(server, PeerUnavailable("left"))

    async def _choose(self, failures: dict[Address, Exception]) -> ReconnectingConnection:
        """The chosen server, unless it is among the failures: then the next."""
        if not self._open:
            raise ClientClosed("these name servers are not open: use them within 'async with'")
        addresses = self.addresses.current or await self.addresses.refresh()
        if self._chosen is None or self._chosen in failures or self._chosen not in addresses:
            for _ in addresses:
                self._index += 1
                self._chosen = addresses[self._index % len(addresses)]
                if self._chosen not in failures:
                    break
        if not self._open:  # closed while the addresses were looked up
            raise ClientClosed("these name servers were closed")
        assert self._chosen is not None
        server = self._servers.get(self._chosen)
        if server is None:
            first_s, most_s = self._backoff_s
            server = ReconnectingConnection(self._chosen, backoff=Backoff(first_s, most_s), **self._options)
            self._servers[self._chosen] = server
        return server

    def _others(self, failures: dict[Address, Exception]) -> bool:
        return any(address not in failures for address in self.addresses.current)

    def _turn_from(self, server: ReconnectingConnection, error: Exception) -> None:
        # A server that did not answer one request may be a connection that leads nowhere.
        server.retire()
        if self._chosen == server.address:
            self._chosen = None
        if not isinstance(error, PeerGoesAway):
            logger.debug("name server %s: %s", server.address, error)

    def _none_answers(self, failures: dict[Address, Exception]) -> Exception:
        if len(failures) == 1:
            return next(iter(failures.values()))
        return PeerUnavailable("no name server answers: " + "; ".join(map(str, failures.values())))

    def _use(self, addresses: tuple[Address, ...]) -> None:
        """The list is another one: leave those that are not in it."""
        for address in [known for known in self._servers if known not in addresses]:
            self._servers.pop(address).retire()
        if self._chosen not in addresses:
            self._chosen = None
        for listener in list(self.on_addresses):
            listener()
