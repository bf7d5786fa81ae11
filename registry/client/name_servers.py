"""Sends requests to one of several name servers: to the same server as long as it answers, then to the next.

Source of the behaviour: NettyRemotingClient.getAndCreateNameserverChannel and updateNameServerAddressList (rocketmq
5.x): the first server is random; if it fails or leaves the list, the client uses the next server of the list.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final, Self, TypeVar, Unpack

from ..errors import ClientClosed, PeerGoesAway, PeerUnavailable, RemoteProtocolError
from ..protocol.command import Command
from .addresses import AddressSpec, NameServerAddress, NameServerAddresses
from .checks import check_seconds
from .connection import REQUEST_TIMEOUT_S, ConnectionOptions, PeerConnection, check_connection_options
from .reconnecting import Backoff, ReconnectingConnection

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")

BACKOFF_FIRST_S: Final = 0.1
BACKOFF_MOST_S: Final = 10.0


class NameServersOptions(ConnectionOptions, total=False):
    """Arguments of :class:`NameServers` besides the addresses."""

    backoff_first_s: float
    backoff_most_s: float
    connect_timeout_s: float


class NameServers:
    """Name servers of one registry: if one fails, the next one is asked. Open during an ``async with``.

    The addresses may change during that time.

    Args:
        addresses: a list in any form that :class:`NameServerAddresses` takes, or a NameServerAddresses.
        backoff_first_s, backoff_most_s: the pause after a failed connection to a server: the first and the longest.
        connect_timeout_s: for a connection to one server.
        tls, encoding, max_in_flight, on_request: see :meth:`PeerConnection.connect`.

    Raises:
        ConfigError: no address was given, here or by the environment.
        TypeError, ValueError: an argument of another type, or a duration that is not positive.
    """

    def __init__(
        self,
        addresses: NameServerAddresses | AddressSpec = None,
        *,
        backoff_first_s: float = BACKOFF_FIRST_S,
        backoff_most_s: float = BACKOFF_MOST_S,
        connect_timeout_s: float = REQUEST_TIMEOUT_S,
        **options: Unpack[ConnectionOptions],
    ) -> None:
        check_seconds(
            backoff_first_s=backoff_first_s, backoff_most_s=backoff_most_s, connect_timeout_s=connect_timeout_s
        )
        check_connection_options(options)
        self.addresses = addresses if isinstance(addresses, NameServerAddresses) else NameServerAddresses(addresses)
        self._backoff_s = backoff_first_s, backoff_most_s
        self._connect_timeout_s = connect_timeout_s
        self._options = options
        self._servers: dict[NameServerAddress, ReconnectingConnection] = {}
        self._index = random.randrange(1 << 16)
        self._chosen: NameServerAddress | None = None
        self._following: asyncio.Task[None] | None = None
        self._open = False
        self.on_addresses: list[Callable[[], None]] = []
        """Functions to call when the list of addresses has changed."""

    @property
    def chosen(self) -> NameServerAddress | None:
        """The server for the next request; None: the next request chooses a server (at first, and after a failure)."""
        return self._chosen

    async def __aenter__(self) -> Self:
        self._open = True
        self._following = asyncio.create_task(self.addresses.follow(self._use), name="name server addresses")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections, even if the caller is cancelled; requests under way fail."""
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
        """Ask the chosen server; if it cannot be reached, does not answer or shuts down, ask the others one by one.

        Args:
            code: a RequestCode.
            timeout_s: for the answer of one server.
            now: try also servers that failed just before; if false, they count as failed without a try.

        Raises:
            PeerUnavailable: no server answers; the message has the reason for each server.
            RemoteProtocolError: there is only one server, and it sends bytes that are no frame.
            ClientClosed: these name servers are not open.
        """

        async def ask(server: ReconnectingConnection) -> Command:
            connection = await server.connected(now=now)
            return await connection.request(code, ext_fields, body, timeout_s=timeout_s, **fields)

        return await self._in_turn(ask)

    async def connection(self, *, now: bool = False) -> PeerConnection:
        """Return the connection to the chosen server, or make one. It raises what ``request`` raises."""
        return await self._in_turn(lambda server: server.connected(now=now))

    async def _in_turn(self, ask: Callable[[ReconnectingConnection], Awaitable[_Result]]) -> _Result:
        failures: dict[NameServerAddress, Exception] = {}
        while True:
            server = await self._choose(failures)
            try:
                return await ask(server)
            except (PeerUnavailable, RemoteProtocolError) as error:
                self._turn_from(server, error)
                failures[server.address] = error
            if not self._open:
                raise ClientClosed("these name servers were closed")
            if all(address in failures for address in self.addresses.current):
                self.addresses.look_again_soon()
                if len(failures) == 1:
                    raise failures[server.address]
                raise PeerUnavailable("no name server answers: " + "; ".join(map(str, failures.values())))

    def turn_from(self, connection: PeerConnection) -> None:
        """Send the next request to another server than that of this connection, as its answers cannot be used."""
        for server in self._servers.values():
            if server.is_current(connection):
                self._turn_from(server, PeerUnavailable("another name server is asked"))

    async def _choose(self, failures: dict[NameServerAddress, Exception]) -> ReconnectingConnection:
        """The chosen server, or the next server that is not among the failures."""
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
            server = ReconnectingConnection(
                self._chosen,
                backoff=Backoff(first_s, most_s),
                connect_timeout_s=self._connect_timeout_s,
                **self._options,
            )
            self._servers[self._chosen] = server
        return server

    def _turn_from(self, server: ReconnectingConnection, error: Exception) -> None:
        server.retire()  # perhaps only this connection is broken
        if self._chosen == server.address:
            self._chosen = None
        if not isinstance(error, PeerGoesAway):
            logger.debug("name server %s: %s", server.address, error)

    def _use(self, addresses: tuple[NameServerAddress, ...]) -> None:
        """Close the connections to servers that are not in the new list."""
        for address in [known for known in self._servers if known not in addresses]:
            self._servers.pop(address).retire()
        if self._chosen not in addresses:
            self._chosen = None
        for listener in list(self.on_addresses):
            listener()
