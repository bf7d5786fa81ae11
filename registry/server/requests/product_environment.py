"""Asks the product environment's name servers for topics that a front end in cluster-test mode does not know.

Only lookups (105) are passed on (docs/differences.md D15). Java finds those name servers by NAMESRV_ADDR, or at an
address server (productEnvName is part of its URL). Here ``productEnvNamesrvAddr`` has their addresses, or
``productEnvNamesrvDomain`` that of the address server; no request can change these settings.
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

if TYPE_CHECKING:  # few front ends have such an environment, so the client is imported at the first lookup
    from ...client.name_servers import NameServers

logger = logging.getLogger(__name__)

# Clients wait three seconds for a route.
LOOKUP_S: Final = 2.0
ADDRESS_S: Final = 1.0
# After a failed lookup no name server there is asked for this time.
AWAY_S: Final = 5.0


class ProductEnvironment:
    """A client of the product environment's name servers. It connects at the first lookup.

    Simultaneous lookups of one topic are sent once.

    Args:
        addresses: ``host:port;host:port``, the setting productEnvNamesrvAddr.
        domain: the setting productEnvNamesrvDomain, of an address server; used if ``addresses`` is empty.
        env_name: the setting productEnvName.
    """

    def __init__(self, addresses: str, domain: str = "", env_name: str = "") -> None:
        self._where = addresses, domain, env_name
        self._servers: NameServers | None = None
        self._asking: dict[str, asyncio.Task[TopicRoute | None]] = {}
        self._away_until = 0.0
        self._away = False

    async def route(self, topic: str, env_name: str) -> TopicRoute | None:
        """The topic's route there, within LOOKUP_S; None: the topic has none there, or no name server there answers."""
        if not any(self._where[:2]):
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
        """Close the connections, if there are any."""
        if self._servers is not None:
            await self._servers.close()

    async def _opened(self) -> NameServers:
        if self._servers is not None:
            return self._servers
        from ...client.address_server import AddressServer
        from ...client.name_servers import NameServers

        addresses, domain, env_name = self._where
        self._servers = NameServers(addresses or AddressServer.at(domain, unit_name=env_name))
        return await self._servers.__aenter__()  # does not wait

    async def _ask(self, topic: str, env_name: str) -> TopicRoute | None:
        try:
            async with asyncio.timeout(LOOKUP_S):
                servers = await self._opened()
                reply = await servers.request(
                    RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, timeout_s=ADDRESS_S, now=True
                )
        except (PeerUnavailable, RemoteProtocolError, TimeoutError) as error:
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
