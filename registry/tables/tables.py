"""The route tables of Redis in memory, changed only by the events of the change stream.

A front end's view has such tables, and so has every replay (audit, time travel, tests).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from sys import intern
from typing import Any, Final

import msgspec

from ..events import cells
from ..events.cells import Operation, addr_of, operations
from ..events.changes import Change
from ..model import BrokerRow, QueueData

_NOTHING: frozenset[str] = frozenset()


class Tables:
    """Topics, brokers, clusters, filter servers, static-topic mappings, KV and shared configuration."""

    def __init__(self) -> None:
        self.topics: dict[str, dict[str, QueueData]] = {}  # topic -> brokerName -> queue data
        self.brokers: dict[str, BrokerRow] = {}  # brokerName -> row
        self.clusters: dict[str, set[str]] = {}  # cluster -> brokerNames
        self.broker_topics: dict[str, set[str]] = {}  # brokerName -> its topics (the index that a removal needs)
        self.filter_servers: dict[str, list[str]] = {}  # who -> addresses
        self.mappings: dict[str, dict[str, str]] = {}  # topic -> brokerName -> JSON text
        self.kv: dict[str, dict[str, str]] = {}  # kv namespace -> key -> value
        self.config: dict[str, str] = {}
        self.config_rev = 0
        self._queue_datas: dict[QueueData, QueueData] = {}

    def apply(self, change: Change) -> Collection[str]:
        """Apply one event; returns the topics whose route may have changed.

        UnknownChange: nothing was applied, and no later event may be applied.
        """
        touched = [topics for operation in operations(change) if (topics := self.apply_operation(operation))]
        return touched[0] if len(touched) == 1 else _NOTHING.union(*touched)

    def apply_operation(self, operation: Operation) -> Collection[str]:
        """Apply one operation of an event; returns the topics whose route may have changed."""
        apply = _APPLY.get(type(operation))  # a match statement takes four times as long
        return _NOTHING if apply is None else apply(self, operation)

    def _set_row(self, of: cells.SetRow) -> Collection[str]:
        self.brokers[intern(of.broker_name)] = of.row.broker_row(of.rev or 0)
        return set(self.broker_topics.get(of.broker_name, _NOTHING))

    def _set_rev(self, of: cells.SetRev) -> Collection[str]:
        row = self.brokers.get(of.broker_name)
        if row is not None and row.rev != of.rev:
            self.brokers[of.broker_name] = msgspec.structs.replace(row, rev=of.rev)
        return _NOTHING

    def _join_cluster(self, of: cells.JoinCluster) -> Collection[str]:
        self.clusters.setdefault(of.cluster, set()).add(intern(of.broker_name))
        return _NOTHING

    def _set_filter_servers(self, of: cells.SetFilterServers) -> Collection[str]:
        if list(of.addrs) == self.filter_servers.get(of.who, []):
            return _NOTHING
        self.set_filter_servers(of.who, of.addrs)
        addr = addr_of(of.who)  # may be in the rows of several brokerNames
        names = [name for name, row in self.brokers.items() if addr in row.broker_addrs.values()]
        return _NOTHING.union(*(self.broker_topics.get(name, _NOTHING) for name in names))

    def _set_queue_data(self, of: cells.SetQueueData) -> Collection[str]:
        self.set_queue_datas(of.broker_name, of.queue_datas)
        return of.queue_datas.keys()

    def _drop_queue_data(self, of: cells.DropQueueData) -> Collection[str]:
        for topic in of.topics:
            self.drop_queue_data(topic, of.broker_name)
        return of.topics

    def _set_mappings(self, of: cells.SetMappings) -> Collection[str]:
        for topic, name, mapping in of.mappings:
            self.set_mapping(topic, name, mapping)
        return [mapping[0] for mapping in of.mappings]

    def _set_kv(self, of: cells.SetKv) -> Collection[str]:
        table = self.kv.setdefault(of.kv_namespace, {})
        if of.key is None:
            return _NOTHING
        if of.value is None:
            table.pop(of.key, None)
        else:
            table[of.key] = of.value
        return (of.key,)  # in ORDER_TOPIC_CONFIG the key is a topic

    def _set_config(self, of: cells.SetConfig) -> Collection[str]:
        self.config.update(of.config)
        self.config_rev = of.config_rev or self.config_rev
        return list(self.topics)

    def set_queue_data(self, topic: str, broker_name: str, queue_data: QueueData) -> None:
        """Set one cell of topicQueueTable; equal values share one object."""
        topic, broker_name = intern(topic), intern(broker_name)
        queue_data = self._queue_datas.setdefault(queue_data, queue_data)
        self.topics.setdefault(topic, {})[broker_name] = queue_data
        self.broker_topics.setdefault(broker_name, set()).add(topic)

    def set_queue_datas(self, broker_name: str, queue_datas: Mapping[str, QueueData]) -> None:
        """Set the cells of many topics at one brokerName, in a third of the time that single calls take."""
        if not queue_datas:
            return
        values = queue_datas.values()
        self.set_cells(broker_name, queue_datas, map(self._queue_datas.setdefault, values, values))

    def set_cells(self, broker_name: str, topics: Iterable[str], queue_datas: Iterable[QueueData]) -> None:
        """Do what set_queue_datas does, faster: there is at least one topic, and equal queue datas are one object."""
        name, table, interned = intern(broker_name), self.topics, list(map(intern, topics))
        for topic, queue_data in zip(interned, queue_datas, strict=True):
            cells = table.get(topic)
            if cells is None:
                table[topic] = {name: queue_data}
            else:
                cells[name] = queue_data
        self.broker_topics.setdefault(name, set()).update(interned)

    def drop_queue_data(self, topic: str, broker_name: str) -> None:
        """Remove one cell of topicQueueTable, and the topic if it has no other cell."""
        queue_datas = self.topics.get(topic)
        if queue_datas is None or queue_datas.pop(broker_name, None) is None:
            return
        if not queue_datas:
            del self.topics[topic]
        topics = self.broker_topics.get(broker_name)
        if topics is not None:
            topics.discard(topic)
            if not topics:
                del self.broker_topics[broker_name]

    def drop_broker(self, name: str) -> Collection[str]:
        """Remove a brokerName with all its queue data and its place in every cluster; returns its topics."""
        self.brokers.pop(name, None)
        for cluster in [c for c, names in self.clusters.items() if name in names]:
            self.clusters[cluster].discard(name)
            if not self.clusters[cluster]:
                del self.clusters[cluster]
        topics = list(self.broker_topics.get(name, _NOTHING))
        for topic in topics:
            self.drop_queue_data(topic, name)
        return topics

    def set_filter_servers(self, who: str, filter_servers: Iterable[str]) -> None:
        """Set the filter servers of a process; an empty list removes them."""
        servers = list(filter_servers)
        if servers:
            self.filter_servers[who] = servers
        else:
            self.filter_servers.pop(who, None)

    def set_mapping(self, topic: str, broker_name: str, mapping: str) -> None:
        """Set one static-topic mapping (JSON text); no event removes a mapping (``docs/semantics.md 25``)."""
        self.mappings.setdefault(topic, {})[broker_name] = mapping

    def contents(self) -> dict[str, object]:
        """All tables, to compare with ``==``."""
        return {
            "topics": self.topics,
            "brokers": self.brokers,
            "clusters": self.clusters,
            "broker_topics": {name: topics for name, topics in self.broker_topics.items() if topics},
            "filter_servers": self.filter_servers,
            "mappings": self.mappings,
            "kv": self.kv,
            "config": self.config,
        }


_APPLY: Final[dict[type, Callable[[Tables, Any], Collection[str]]]] = {
    cells.SetRow: Tables._set_row,
    cells.SetRev: Tables._set_rev,
    cells.DropBroker: lambda tables, of: tables.drop_broker(of.broker_name),
    cells.JoinCluster: Tables._join_cluster,
    cells.SetFilterServers: Tables._set_filter_servers,
    cells.SetQueueData: Tables._set_queue_data,
    cells.DropQueueData: Tables._drop_queue_data,
    cells.SetMappings: Tables._set_mappings,
    cells.SetKv: Tables._set_kv,
    cells.SetConfig: Tables._set_config,
}
"""What these tables do for each operation; they ignore operations on live infos."""
