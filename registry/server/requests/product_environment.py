"""Asks the product environment's name servers for topics that a front end in cluster-test mode does not know.

Only lookups (105) are passed on (docs/differences.md D15). Java finds those name servers by NAMESRV_ADDR, or at an
address server (productEnvName is part of its URL); here ``productEnvNamesrvAddr`` names them, or
``productEnvNamesrvDomain`` the address server, and no request can change that.
Source of the behaviour: ClusterTestRequestProcessor (RocketMQ 4.8, 5.x).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from ...errors import PeerUnavailable, RemoteProtocolError
from ...model import TopicRoute
from ...protocol.bodies.route import decode_route
from ...protocol.codes import RequestCode, ResponseCode, with_name
from ...protocol.command import Command

if TYPE_CHECKING:  # few front ends have such an environment: what asks it is imported when it is asked first
    from ...client.addresses import NameServerAddresses
    from ...client.connection import PeerConnection

logger = logging.getLogger(__name__)

# Clients wait three seconds for a route.
LOOKUP_S: Final = 2.0
ADDRESS_S: Final = 1.0
# After all of its name servers failed, no lookup waits for them for this long.
AWAY_S: Final = 5.0


def parse_addresses(text: str) -> list[tuple[str, int]]:
    """``host:port;host:port`` as (host, port); the setting's form was checked when it was read."""
    pairs = (address.rpartition(":") for address in text.split(";") if address)
    return [(host.strip("[]"), int(port)) for host, _, port in pairs]


def _listed_at(domain: str, env_name: str) -> NameServerAddresses:
    from ...client.address_server import AddressServer
    from ...client.addresses import NameServerAddresses

    return NameServerAddresses(AddressServer.at(domain, unit_name=env_name))


class ProductEnvironment:
    """A client of the product environment's name servers. It connects at the first lookup.

    Lookups of one topic that are under way at the same time are sent once.

    Args:
        addresses: ``host:port;host:port``, the setting productEnvNamesrvAddr.
        domain: of an address server that lists them, productEnvNamesrvDomain; used without addresses.
        env_name: productEnvName.
    """

    def __init__(self, addresses: str, domain: str = "", env_name: str = "") -> None:
        self._addresses = parse_addresses(addresses)
        self._listed = _listed_at(domain, env_name) if domain and not addresses else None
        self._listed_until = 0.0
        self._listing = asyncio.Lock()
        self._connection: PeerConnection | None = None
        self._connecting = asyncio.Lock()
        self._asking: dict[str, asyncio.Task[TopicRoute | None]] = {}
        self._away_until = 0.0
        self._away = False

    async def route(self, topic: str, env_name: str) -> TopicRoute | None:
        """The topic's route there; None when it does not exist there, or none of its name servers answers.

        Takes LOOKUP_S at most.
        """
        if not self._addresses and self._listed is None:
            if not self._away:
                logger.warning(
                    "clusterTest without productEnvNamesrvAddr or productEnvNamesrvDomain: "
                    "topics unknown here do not exist"
                )
            self._away = True
            return None
        if asyncio.get_running_loop().time() < self._away_until:
            return None
        asking = self._asking.get(topic)
        if asking is None:
            asking = self._asking[topic] = asyncio.create_task(self._ask(topic, env_name))
            asking.add_done_callback(lambda _: self._asking.pop(topic, None))
        return await asyncio.shield(asking)

    async def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            await self._connection.close()

    async def _ask(self, topic: str, env_name: str) -> TopicRoute | None:
        try:
            async with asyncio.timeout(LOOKUP_S):
                if self._listed is not None:
                    await self._look_up(self._listed)
                reply = await self._ask_each(topic)
        except (PeerUnavailable, RemoteProtocolError, TimeoutError, UnicodeError) as error:
            self._listed_until = 0.0
            self._away_until = asyncio.get_running_loop().time() + AWAY_S
            if not self._away:
                why = str(error) or f"no answer within {LOOKUP_S:g} s"
                logger.warning("environment %s is away, topics unknown here do not exist: %s", env_name, why)
            self._away = True
            return None
        if self._away:
            logger.warning("environment %s is back", env_name)
            self._away = False
        if reply.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if reply.code != ResponseCode.SUCCESS:
            answered = with_name(reply.code, ResponseCode)
            logger.warning("environment %s, topic %s: code %s, %s", env_name, topic, answered, reply.remark)
            return None
        try:
            return decode_route(reply.body)
        except RemoteProtocolError as error:
            logger.warning("environment %s, topic %s: %s", env_name, topic, error)
            return None

    async def _look_up(self, listed: NameServerAddresses) -> None:
        """Ask the address server, again after LOOKUP_EVERY_S. Without an answer the last list stays."""
        from ...client.addresses import LOOKUP_EVERY_S

        async with self._listing:
            now = asyncio.get_running_loop().time()
            if now < self._listed_until:
                return
            found = [(address.host, address.port) for address in await listed.refresh()]
            self._listed_until = now + LOOKUP_EVERY_S
            if set(found) == set(self._addresses):  # in the order in which they proved good
                return
            logger.info("environment's name servers: %s", ";".join(f"{host}:{port}" for host, port in found))
            self._addresses = found
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.retire()

    async def _ask_each(self, topic: str) -> Command:
        """Ask the name server that answered last; when it fails, the others in turn.

        Raises:
            PeerUnavailable, RemoteProtocolError: none of them answers; the last one's failure.
        """
        for left in range(len(self._addresses) - 1, -1, -1):
            connection = None
            try:
                connection = await self._connected()
                return await connection.request(
                    RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, timeout_s=ADDRESS_S
                )
            except (PeerUnavailable, RemoteProtocolError):
                await self._turn_from(connection)
                if not left:
                    raise
        raise PeerUnavailable("there is no name server to ask")

    async def _connected(self) -> PeerConnection:
        async with self._connecting:
            if self._connection is None or self._connection.is_closed:
                self._connection = None
                from ...client.connection import PeerConnection

                try:
                    host, port = self._addresses[0]
                    self._connection = await PeerConnection.connect(host, port, timeout_s=ADDRESS_S)
                except PeerUnavailable:
                    self._addresses.append(self._addresses.pop(0))
                    raise
            return self._connection

    async def _turn_from(self, failed: PeerConnection | None) -> None:
        """Make the next lookup ask another name server, unless another lookup has done so already."""
        if failed is not None and failed is self._connection:
            self._connection = None
            self._addresses.append(self._addresses.pop(0))
            await failed.close()
