"""Keeps the routes that a client knows, and the queues and broker addresses in them. No I/O.

Source of the behaviour: updateTopicRouteInfoFromNameServer, cleanOfflineBroker and
findBrokerAddressInPublish/InSubscribe of MQClientInstance (rocketmq 5.x).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ...model import MASTER_ID, TopicRoute
from ..checks import check_topic_name
from .queues import MessageQueue, PublishInfo, publish_info, route_changed, static_endpoints, subscribe_info


class FoundBroker(NamedTuple):
    """A broker process to read from (FindBrokerResult). ``is_slave``: it is not the master."""

    broker_addr: str
    is_slave: bool


class RouteTables:
    """The tables of a route client. Values are immutable and are replaced as a whole, so any thread may read.

    Attributes:
        published, subscribed: topics in use for sending, for reading.
        routes: topic -> its last route.
        publish_infos, subscribe_infos: topic in use whose route is known -> its queues.
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
        """Topics in use for sending or reading."""
        return self.published | self.subscribed

    def publish(self, topics: Iterable[str]) -> bool:
        """Use topics for sending; returns whether one of them is new. TypeError, ValueError: not a topic name."""
        return _add(self.published, topics)

    def subscribe(self, topics: Iterable[str]) -> bool:
        """Use topics for reading; otherwise as ``publish``."""
        return _add(self.subscribed, topics)

    def needs_update(self, topic: str) -> bool:
        """Whether the topic is in use and its queues are not known (isNeedUpdateTopicRouteInfo)."""
        info = self.publish_infos.get(topic)
        return (topic in self.published and (info is None or not info.is_ok)) or (
            topic in self.subscribed and topic not in self.subscribe_infos
        )

    def update(self, topic: str, route: TopicRoute) -> bool:
        """Store a topic's route; returns whether it changed.

        Raises:
            RemoteProtocolError: the route has no valid queues; nothing was changed.
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

    def forget(self, topic: str) -> None:
        """End the use of a topic, for sending and for reading."""
        self.published.discard(topic)
        self.subscribed.discard(topic)
        for table in (self.publish_infos, self.subscribe_infos, self.routes, self._endpoints):
            table.pop(topic, None)
        self.drop_offline()

    def drop_offline(self) -> None:
        """Drop the addresses that are in no route (cleanOfflineBroker)."""
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
        """The broker_name of a queue; of a static topic's queue, the broker_name that holds it now."""
        return self._endpoints.get(queue.topic, {}).get(queue, queue.broker_name)

    def find_broker_addr_in_publish(self, broker_name: str) -> str | None:
        """The address (host:port) of the master; None when there is none (findBrokerAddressInPublish)."""
        return self.broker_addrs.get(broker_name, {}).get(MASTER_ID)

    def find_broker_addr_in_subscribe(
        self, broker_name: str, broker_id: int = MASTER_ID, *, only_this_broker: bool = False
    ) -> FoundBroker | None:
        """Find a broker process to read from; None if there is none (findBrokerAddressInSubscribe).

        Args:
            broker_id: the wanted process; if it is a slave that is away, the slave with the next id is used.
            only_this_broker: if both are away, return None; if false, use the smallest id of the broker_name.
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


def _add(used: set[str], topics: Iterable[str]) -> bool:
    names = {check_topic_name(topic) for topic in topics}
    added = not names <= used
    used |= names
    return added
