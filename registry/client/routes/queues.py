"""Computes from a topic's route the queues that an application sends to and reads from.

Source of the behaviour: MQClientInstance.topicRouteData2TopicPublishInfo and topicRouteData2TopicSubscribeInfo,
ClientMetadata.topicRouteData2EndpointsForStaticTopic and TopicRouteData.topicRouteDataChanged (rocketmq 5.x). A 4.x
client computes the same, but does not know static topics.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from ...errors import RemoteProtocolError
from ...model import MASTER_ID, PERM_READ, PERM_WRITE, QueueData, TopicQueueMapping, TopicRoute
from ...protocol.bodies.wire_json import decode_mapping
from ...protocol.numbers import parse_int
from ..checks import MAX_QUEUES

DEFAULT_TOPIC: Final = "TBW102"
DEFAULT_TOPIC_QUEUE_NUMS: Final = 4

# Queues of a static topic have a logical broker name with this prefix, not the name of the broker that holds them.
LOGICAL_BROKER_PREFIX: Final = "__syslo__"
NO_LOGICAL_BROKER: Final = "__syslo__none__"
_GLOBAL_SCOPE: Final = "__global__"


class MessageQueue(NamedTuple):
    """One queue of a topic at a broker_name."""

    topic: str
    broker_name: str
    queue_id: int


class PublishInfo(msgspec.Struct, frozen=True):
    """The queues to which an application may send the messages of a topic (TopicPublishInfo).

    ``order``: the queues come from the topic's order configuration, which also has the queues of brokers that are away.
    ``queues``: sorted by broker_name, of a static topic by queue id; with ``order`` in the order of the configuration.
    """

    order: bool
    queues: tuple[MessageQueue, ...]

    @property
    def is_ok(self) -> bool:
        """Whether there is a queue to send to (TopicPublishInfo.ok)."""
        return bool(self.queues)


def publish_info(topic: str, route: TopicRoute) -> PublishInfo:
    """The queues of ``topic`` to which an application can send.

    Raises:
        RemoteProtocolError: an order configuration that is not like ``broker-a:4;broker-b:4`` (in Java this is also an
            error), or more than MAX_QUEUES.
    """
    if route.order_topic_conf:
        return PublishInfo(True, tuple(_ordered_queues(topic, route.order_topic_conf)))
    if route.order_topic_conf is None and route.mappings:
        endpoints = static_endpoints(topic, route)
        # Several scopes may have queues of one id; Java has these in the order of their hashes.
        return PublishInfo(False, tuple(sorted(endpoints, key=lambda queue: (queue.queue_id, queue.broker_name))))
    writable = {
        name: data.write_queue_nums
        for name, data in route.queue_datas.items()
        if data.perm & PERM_WRITE and name in route.broker_rows and MASTER_ID in route.broker_rows[name].broker_addrs
    }
    return PublishInfo(False, _queues(topic, writable))


def subscribe_info(topic: str, route: TopicRoute) -> tuple[MessageQueue, ...]:
    """The queues of ``topic`` that an application can read, sorted by broker_name and queue id."""
    if route.mappings:
        return tuple(sorted(static_endpoints(topic, route), key=lambda queue: (queue.broker_name, queue.queue_id)))
    readable = {name: data.read_queue_nums for name, data in route.queue_datas.items() if data.perm & PERM_READ}
    return _queues(topic, readable)


def static_endpoints(topic: str, route: TopicRoute) -> dict[MessageQueue, str]:
    """Logical queue of a static topic -> the broker_name that holds it now, or NO_LOGICAL_BROKER.

    Each scope numbers its own queues. If two brokers claim one queue, the broker with the higher epoch has it.
    """
    scopes: dict[str, list[TopicQueueMapping]] = {}
    for _, text in sorted((route.mappings or {}).items()):
        mapping = decode_mapping(text.encode())
        if mapping.scope is not None:
            scopes.setdefault(mapping.scope, []).append(mapping)
    totals = {
        scope: max((mapping.total_queues for mapping in mappings if mapping.epoch >= -1), default=0)
        for scope, mappings in scopes.items()
    }
    _check_number(topic, totals)
    endpoints = {}
    for scope, mappings in scopes.items():
        holders: dict[int, str] = {}
        for mapping in sorted(mappings, key=lambda mapping: mapping.epoch):
            holders |= dict.fromkeys(mapping.curr_id_map or (), mapping.bname or NO_LOGICAL_BROKER)
        name = logical_broker_name(scope)
        for queue_id in range(totals[scope]):
            endpoints[MessageQueue(topic, name, queue_id)] = holders.get(queue_id, NO_LOGICAL_BROKER)
    return endpoints


def logical_broker_name(scope: str) -> str:
    """The broker_name in static queues of a scope; of the usual scope ``__global__`` it is ``__syslo__global__``."""
    return LOGICAL_BROKER_PREFIX + (scope[2:] if scope == _GLOBAL_SCOPE else scope)


def default_topic_route(route: TopicRoute, default_topic_queue_nums: int = DEFAULT_TOPIC_QUEUE_NUMS) -> TopicRoute:
    """The route for a topic that does not exist yet: the route of TBW102 with fewer queues at each broker."""
    queue_datas = {}
    for name, data in route.queue_datas.items():
        nums = min(default_topic_queue_nums, data.read_queue_nums)
        queue_datas[name] = QueueData(nums, nums, data.perm, data.topic_sys_flag)
    return msgspec.structs.replace(route, queue_datas=queue_datas)


def route_changed(old: TopicRoute | None, new: TopicRoute) -> bool:
    """Whether two routes differ for a client (TopicRouteData.topicRouteDataChanged), regardless of order.

    As in Java, a broker's cluster, zone and acting-master flag do not count.
    """
    return old is None or (
        old.queue_datas != new.queue_datas
        or _addresses(old) != _addresses(new)
        or old.filter_servers != new.filter_servers
        or old.order_topic_conf != new.order_topic_conf
        or old.mappings != new.mappings
    )


def _addresses(route: TopicRoute) -> dict[str, dict[int, str]]:
    return {name: row.broker_addrs for name, row in route.broker_rows.items()}


def _queues(topic: str, numbers: dict[str, int]) -> tuple[MessageQueue, ...]:
    _check_number(topic, numbers)
    names = sorted(numbers, key=lambda name: name.encode("utf-16-be", "surrogatepass"))  # Java's order
    return tuple(MessageQueue(topic, name, queue_id) for name in names for queue_id in range(numbers[name]))


def _check_number(topic: str, numbers: dict[str, int]) -> None:
    if sum(number for number in numbers.values() if number > 0) > MAX_QUEUES:
        raise RemoteProtocolError(f"the route of {topic} has more than {MAX_QUEUES} queues: {numbers}")


def _ordered_queues(topic: str, order_topic_conf: str) -> Iterator[MessageQueue]:
    entries = [_order_entry(topic, order_topic_conf, entry) for entry in _split(order_topic_conf, ";")]
    if sum(number for _, number in entries if number > 0) > MAX_QUEUES:
        raise RemoteProtocolError(
            f"the order configuration of {topic} asks for more than {MAX_QUEUES} queues: {order_topic_conf[:200]!r}"
        )
    for name, number in entries:
        for queue_id in range(number):
            yield MessageQueue(topic, name, queue_id)


def _order_entry(topic: str, order_topic_conf: str, entry: str) -> tuple[str, int]:
    parts = _split(entry, ":")
    number = parse_int(parts[1]) if len(parts) > 1 else None
    if number is None:
        raise RemoteProtocolError(
            f"the order configuration of {topic} is not like broker-a:4;broker-b:4 at {entry[:200]!r}: "
            f"{order_topic_conf[:200]!r}"
        )
    return parts[0], number


def _split(text: str, mark: str) -> list[str]:
    """Split like Java's String.split: without empty parts at the end; an empty text gives one empty part."""
    parts = text.split(mark)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return [] if parts == [""] and text else parts
