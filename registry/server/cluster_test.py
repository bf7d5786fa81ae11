"""Cluster-test mode: what this environment does not know is asked of the product environment's name servers.

Only lookups (105) are (semantics D15). Java finds those name servers by NAMESRV_ADDR, or at an address server
(productEnvName is part of its URL); here ``productEnvNamesrvAddr`` names them, or ``productEnvNamesrvDomain`` the
address server, and no request can change that.
Source of the behaviour: ClusterTestRequestProcessor (rocketmq 4.8, 5.x).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from registry.client.address_server import AddressServer
from registry.client.addresses import LOOKUP_EVERY_S, Addresses
from registry.client.connection import Connection
from registry.errors import PeerUnavailable, RemoteProtocolError
from registry.model import TopicRoute
from registry.protocol.bodies import decode_route, encode_route
from registry.protocol.codes import VERSION_V4_9_4, RequestCode, ResponseCode
from registry.protocol.command import Command
from registry.protocol.headers import GetRouteInfo
from registry.route import in_zone

if TYPE_CHECKING:
    from registry.server.front_end import FrontEnd, Peer

logger = logging.getLogger(__name__)

# Clients wait three seconds for a route.
LOOKUP_S: Final = 2.0
ADDRESS_S: Final = 1.0
# After all of its name servers failed, nobody has to wait for them again for so long.
AWAY_S: Final = 5.0


async def get_routeinfo_elsewhere(front_end: FrontEnd, command: Command, opaque: int, peer: Peer) -> bytes:
    """105 of a topic that is not in the view; any failure is code 17, as in Java."""
    header = GetRouteInfo.from_ext_fields(command.ext_fields)
    env_name = front_end.settings.product_env_name
    route = await front_end.product.route(header.topic, env_name) if header.topic else None
    if route is None or header.topic is None:
        front_end.counters.lookups_not_found += 1
        front_end.lookup_counts.missing(header.topic)
        return front_end.replies.topic_not_exist(opaque, header.topic)
    front_end.counters.lookups_found += 1
    front_end.lookup_counts.found(header.topic)
    behaviour = front_end.behaviour
    quoted = behaviour.standard_json and (command.version >= VERSION_V4_9_4 or header.accept_standard_json_only)
    if header.zone_filter is not None and behaviour.zones:
        route, quoted = in_zone(route, header.zone_filter), False
    body = encode_route(route, quoted_keys=quoted, topic_syn_flag=behaviour.old_bodies)
    return front_end.replies.success.reply(opaque, body)


def parse_addresses(text: str) -> list[tuple[str, int]]:
    """``host:port;host:port`` as (host, port); the setting's form was checked when it was read."""
    pairs = (address.rpartition(":") for address in text.split(";") if address)
    return [(host.strip("[]"), int(port)) for host, _, port in pairs]


class ProductEnvironment:
    """A client of the product environment's name servers; connects when first asked.

    Equal questions that are under way at the same time are asked once.
    """

    def __init__(self, addresses: str, domain: str = "", env_name: str = "") -> None:
        self._addresses = parse_addresses(addresses)
        self._listed = None if addresses or not domain else Addresses(AddressServer.at(domain, unit_name=env_name))
        self._listed_until = 0.0
        self._listing = asyncio.Lock()
        self._connection: Connection | None = None
        self._connecting = asyncio.Lock()
        self._asking: dict[str, asyncio.Task[TopicRoute | None]] = {}
        self._away_until = 0.0
        self._away = False

    async def route(self, topic: str, env_name: str) -> TopicRoute | None:
        """The topic's route there; None when it does not exist there or nobody there can tell. At most LOOKUP_S."""
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
        """Hang up."""
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
            logger.warning("environment %s, topic %s: code %d, %s", env_name, topic, reply.code, reply.remark)
            return None
        try:
            return decode_route(reply.body)
        except RemoteProtocolError as error:
            logger.warning("environment %s, topic %s: %s", env_name, topic, error)
            return None

    async def _look_up(self, listed: Addresses) -> None:
        """Ask the address server, again after LOOKUP_EVERY_S; when it does not answer, what it said before counts."""
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

    async def _connected(self) -> Connection:
        async with self._connecting:
            if self._connection is None or self._connection.is_closed:
                self._connection = None
                try:
                    host, port = self._addresses[0]
                    self._connection = await Connection.connect(host, port, timeout_s=ADDRESS_S)
                except PeerUnavailable:
                    self._addresses.append(self._addresses.pop(0))
                    raise
            return self._connection

    async def _turn_from(self, failed: Connection | None) -> None:
        """The next one asks another name server, unless somebody else found that one failing before."""
        if failed is not None and failed is self._connection:
            self._connection = None
            self._addresses.append(self._addresses.pop(0))
            await failed.close()
