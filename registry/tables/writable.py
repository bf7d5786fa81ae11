"""Says which topics a producer can write to, and which topics RocketMQ itself uses. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..model import MASTER_ID, PERM_WRITE, BrokerRow, QueueData
from .tables import Tables

# The names that RocketMQ reserves (TopicValidator, TopicConfigManager): a broker registers them by itself.
_SYSTEM_TOPICS: Final = frozenset({
    "TBW102", "SELF_TEST_TOPIC", "BenchmarkTest", "OFFSET_MOVED_EVENT", "SCHEDULE_TOPIC_XXXX",
    "TRANS_CHECK_MAX_TIME_TOPIC",
})  # fmt: skip
_SYSTEM_PREFIXES: Final = ("rmq_sys_", "RMQ_SYS_")
_REPLY_SUFFIX: Final = "_REPLY_TOPIC"


def is_system_topic(tables: Tables, topic: str) -> bool:
    """Whether RocketMQ itself uses a topic: a reserved name, or the name of a broker or a cluster.

    Some of these are never writable, for example ``rmq_sys_SYNC_BROKER_MEMBER_<brokerName>`` of a healthy 5.x broker.
    """
    return (
        topic in _SYSTEM_TOPICS
        or topic.startswith(_SYSTEM_PREFIXES)
        or topic in tables.brokers
        or topic.removesuffix(_REPLY_SUFFIX) in tables.clusters
    )


def is_writable(brokers: Mapping[str, BrokerRow], queue_datas: Mapping[str, QueueData]) -> bool:
    """Whether a producer finds a queue: write permission and write queues at a brokerName with a master.

    ``queue_datas``: of one topic, by brokerName.
    """
    return any(
        data.perm & PERM_WRITE
        and data.write_queue_nums > 0
        and (row := brokers.get(name)) is not None
        and MASTER_ID in row.broker_addrs
        for name, data in queue_datas.items()
    )


def is_unwritable(tables: Tables, topic: str) -> bool:
    """Whether an application's topic has no queue to write to. RocketMQ's own topics never count."""
    return not is_writable(tables.brokers, tables.topics.get(topic, {})) and not is_system_topic(tables, topic)


def is_read_only(tables: Tables, broker_name: str) -> bool:
    """Whether a brokerName with a master has topics, and none with write permission, as after a 205."""
    topics, row = tables.broker_topics.get(broker_name, ()), tables.brokers.get(broker_name)
    if not topics or row is None or MASTER_ID not in row.broker_addrs:
        return False
    return not any(tables.topics[topic][broker_name].perm & PERM_WRITE for topic in topics)
