"""Logs of the route tables what the Java NameServer logs: the KV configuration at intervals, and each removal.

Anybody who reaches the port may have written a value: so the log has only the first keys, and the beginning of values.
A broker may have tens of thousands of topics: each of the first ones gets a line, and one line counts the others.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from ...events.changes import BrokerRegistered, BrokerRemoved, TopicDeleted
from ...tables.tables import Tables
from ..view.view import Applied

logger = logging.getLogger(__name__)

SHOWN_KEYS: Final = 1000
SHOWN_CHARACTERS: Final = 200
_LINES_AT_ONCE: Final = 50
SHOWN_TOPICS: Final = 50


def kv_lines(kv: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """The log lines about the KV configuration."""
    shown = 0
    for namespace, table in sorted(kv.items()):
        for key, value in sorted(table.items()):
            if shown == SHOWN_KEYS:
                yield f"KV config: {sum(map(len, kv.values())) - shown} more keys (mqregistry kv list shows all)"
                return
            shown += 1
            if len(value) > SHOWN_CHARACTERS:
                value = f"{value[:SHOWN_CHARACTERS]}... ({len(value)} characters)"
            yield f"KV config: namespace {namespace} key {key} value {value}"


async def log_kv(kv: Mapping[str, Mapping[str, str]]) -> None:
    """Log the KV configuration with pauses, in which lookups are answered."""
    for number, line in enumerate(list(kv_lines(kv))):
        if number % _LINES_AT_ONCE == _LINES_AT_ONCE - 1:
            await asyncio.sleep(0)
        logger.info("%s", line)


def log_removal(applied: Applied, tables: Tables) -> None:
    """Log a change if it removed rows; ``tables``: as they are after the change."""
    if logger.isEnabledFor(logging.INFO):
        for line in removal_lines(applied, tables):
            logger.info("%s", line)


def removal_lines(applied: Applied, tables: Tables) -> Iterator[str]:
    """The log lines about a change: a line for each removed row."""
    change = applied.change
    if isinstance(change, BrokerRemoved):
        yield from _of_broker(change, applied, tables)
    elif isinstance(change, BrokerRegistered) and change.dropped:
        yield from _of_topics(change.broker_name, change.dropped, tables)
    elif isinstance(change, TopicDeleted):
        for name in change.broker_names[:SHOWN_TOPICS]:
            yield from _of_topics(name, (change.topic,), tables)
        if len(change.broker_names) > SHOWN_TOPICS:
            more = len(change.broker_names) - SHOWN_TOPICS
            yield f"remove from topicQueueTable: topic {change.topic} of {more} more brokerNames"


def _of_broker(change: BrokerRemoved, applied: Applied, tables: Tables) -> Iterator[str]:
    name, row = change.broker_name, applied.row_before
    if change.who is not None:
        yield f"remove from brokerLiveTable: {change.who}"
    if row is None:
        return
    if change.broker_id is not None and row.broker_addrs.get(change.broker_id) == change.addr:
        yield f"remove from brokerAddrTable: address {change.addr}, id {change.broker_id} of {name}"
    if change.row is None:
        yield f"remove from brokerAddrTable: {name}"
        yield f"remove from clusterAddrTable: {name} of cluster {row.cluster}"
        if row.cluster not in tables.clusters:
            yield f"remove from clusterAddrTable: cluster {row.cluster}"
        yield from _of_topics(name, applied.topics, tables)


def _of_topics(name: str, topics: Collection[str], tables: Tables) -> Iterator[str]:
    for topic in heapq.nsmallest(SHOWN_TOPICS, topics):
        is_gone = "" if topic in tables.topics else ", and with it the topic"
        yield f"remove from topicQueueTable: topic {topic} of {name}{is_gone}"
    if len(topics) > SHOWN_TOPICS:
        yield f"remove from topicQueueTable: {len(topics) - SHOWN_TOPICS} more topics of {name}"
