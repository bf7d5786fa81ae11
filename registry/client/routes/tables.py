"""What a route client knows: routes, publish and subscribe info, and the addresses of brokers. No I/O.

Source of the behaviour: the tables of MQClientInstance and how updateTopicRouteInfoFromNameServer, cleanOfflineBroker
and findBrokerAddressInPublish/InSubscribe treat them (rocketmq 5.x).
"""

from __future__ import annotations

from typing import NamedTuple

from registry.client.routes.info import (
    MessageQueue,
    PublishInfo,
    publish_info,
    route_changed,
    static_endpoints,
    subscribe_info,
)
from registry.model import MASTER_ID, TopicRoute


class FoundBroker(NamedTuple):
    """A broker to read from. is_slave: whether it is another than the master (FindBrokerResult)."""

    broker_addr: str
    is_slave: bool


class RouteTables:
    """Values in it are immutable and are replaced as a whole, so any thread may read.

    Attributes:
        published, subscribed: the topics in use.
        routes: topic -> its last route.
        publish_infos, subscribe_infos: of the topics in use, once their route is known.
        broker_addrs: broker_name -> broker id -> address.
    """

    def __init__(self) -> None:
        self.published: set[str] = set()
        self.subscribed: set[str] = set()
        self.routes: dict[str, TopicRoute] = {}
        self.publish_infos: dict[str, PublishInfo] = {}
        self.subscribe_infos: dict[str, tuple[MessageQueue, ...]] = {}
        self.broker_addrs: dict[str, dict[int, str]] = {}
        self._endpoints: dict[str, dict[MessageQueue, str]] = {}

    @property
    def topics(self) -> set[str]:
        """The union of the topics in use."""
        return self.published | self.subscribed

    def needs_update(self, topic: str) -> bool:
        """Whether somebody who uses the topic still lacks its queues (isNeedUpdateTopicRouteInfo)."""
        info = self.publish_infos.get(topic)
        return (topic in self.published and (info is None or not info.is_ok)) or (
            topic in self.subscribed and topic not in self.subscribe_infos
        )

    def update(self, topic: str, route: TopicRoute) -> bool:
        """Take in a route; whether anything changed. What it means is worked out first: an error changes nothing.

        Raises:
            RemoteProtocolError: a route that no queues can be made of.
        """
        changed = route_changed(self.routes.get(topic), route)
        if not changed and not self.needs_update(topic):
            return False
        published = publish_info(topic, route) if topic in self.published else None
        subscribed = subscribe_info(topic, route) if topic in self.subscribed else None
        endpoints = static_endpoints(topic, route) if route.mappings else None
        if published is not None:
            self.publish_infos[topic] = published
        if subscribed is not None:
            self.subscribe_infos[topic] = subscribed
        if endpoints is not None:
            self._endpoints[topic] = endpoints
        else:
            self._endpoints.pop(topic, None)
        self.routes[topic] = route
        for name, row in route.broker_rows.items():
            self.broker_addrs[name] = row.broker_addrs
        if changed:
            self.drop_offline()
        return changed

    def forget(self, topic: str, *, published: bool = True, subscribed: bool = True) -> None:
        """A topic is not used any more, for sending or for reading."""
        if published:
            self.published.discard(topic)
            self.publish_infos.pop(topic, None)
        if subscribed:
            self.subscribed.discard(topic)
            self.subscribe_infos.pop(topic, None)
        if topic not in self.topics:
            self.routes.pop(topic, None)
            self._endpoints.pop(topic, None)
            self.drop_offline()

    def drop_offline(self) -> None:
        """Drop each address that is in no route (cleanOfflineBroker)."""
        known = {
            addr
            for route in self.routes.values()
            for row in route.broker_rows.values()
            for addr in row.broker_addrs.values()
        }
        kept = {}
        for name, addrs in self.broker_addrs.items():
            left = {broker_id: addr for broker_id, addr in addrs.items() if addr in known}
            if left:
                kept[name] = left
        self.broker_addrs = kept

    def broker_name_of(self, queue: MessageQueue) -> str:
        """Where the queue is; of a static topic's, the broker_name that holds it now."""
        return self._endpoints.get(queue.topic, {}).get(queue, queue.broker_name)

    def find_broker_addr_in_publish(self, broker_name: str) -> str | None:
        """The master's address; None when there is none (findBrokerAddressInPublish)."""
        return self.broker_addrs.get(broker_name, {}).get(MASTER_ID)

    def find_broker_addr_in_subscribe(
        self, broker_name: str, broker_id: int = MASTER_ID, *, only_this_broker: bool = False
    ) -> FoundBroker | None:
        """Who to read from (findBrokerAddressInSubscribe).

        Args:
            broker_id: the one that is wanted; instead of a slave also the next id.
            only_this_broker: else any other of the name will do, the smallest id first.
        """
        addrs = self.broker_addrs.get(broker_name)
        if not addrs:
            return None
        is_slave = broker_id != MASTER_ID
        addr = addrs.get(broker_id)
        if addr is None and is_slave:
            addr = addrs.get(broker_id + 1)
        if addr is not None:
            return FoundBroker(addr, is_slave)
        if only_this_broker:
            return None
        smallest = min(addrs)
        return FoundBroker(addrs[smallest], smallest != MASTER_ID)
