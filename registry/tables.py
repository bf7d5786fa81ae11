"""The route tables in memory: what Redis holds, changed by nothing but the events of the change stream.

The front end's view is one of these, and so is every replay (audit, time travel, tests).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from sys import intern

from msgspec import UNSET

from registry import change as kinds
from registry.change import Change
from registry.model import BrokerRow, QueueData

_NOTHING: frozenset[str] = frozenset()

Cells = dict[str, QueueData]
"""One topic's queue data by brokerName."""


class Standing:
    """That many cells of a brokerName were looked up in these tables when its row had this rev.

    As long as it has, none of them has moved: whatever changes a brokerName's queue data changes its rev.
    """

    __slots__ = ("broker_name", "rev", "tables")

    def __init__(self, tables: Tables, broker_name: str, rev: int) -> None:
        self.tables = tables
        self.broker_name = broker_name
        self.rev = rev

    def holds(self, tables: Tables, broker_name: str, row: BrokerRow | None) -> bool:
        """Whether it is so in these tables, with this row of broker_name."""
        return tables is self.tables and broker_name == self.broker_name and row is not None and row.rev == self.rev


class PlacedTopics(dict[str, QueueData]):
    """New queue data of a brokerName for topics that it has, and where they go: a dict of ``Tables.topics`` each."""

    __slots__ = ("cells", "standing")

    def __init__(self, topics: Iterable[tuple[str, QueueData]], cells: Sequence[Cells], standing: Standing) -> None:
        super().__init__(topics)
        self.cells = cells
        self.standing = standing


class Tables:
    """Topics, brokers, clusters, filter servers, static-topic mappings, KV and shared configuration.

    topics: topic -> brokerName -> queue data; brokers: brokerName -> row; clusters: cluster -> brokerNames;
    broker_topics: brokerName -> its topics (the index that a removal needs); filter_servers: who -> addresses;
    mappings: topic -> brokerName -> JSON text; kv: kv namespace -> key -> value.
    """

    def __init__(self) -> None:
        self.topics: dict[str, Cells] = {}
        self.brokers: dict[str, BrokerRow] = {}
        self.clusters: dict[str, set[str]] = {}
        self.broker_topics: dict[str, set[str]] = {}
        self.filter_servers: dict[str, list[str]] = {}
        self.mappings: dict[str, dict[str, str]] = {}
        self.kv: dict[str, dict[str, str]] = {}
        self.config: dict[str, str] = {}
        self.config_rev = 0
        self._queue_datas: dict[QueueData, QueueData] = {}

    def apply(self, change: Change) -> Collection[str]:
        """Apply one event.

        Returns:
            the topics whose route may look different now.

        Raises:
            UnknownChange: nothing was applied, and nothing that follows may be.
        """
        kind = change.type
        if kind == kinds.BROKER_REGISTERED or kind == kinds.WRITE_PERM_SET or kind in kinds.REMOVALS:
            return self._apply_broker(change)
        if kind == kinds.TOPIC_DELETED and change.topic is not None:
            for name in change.broker_names:
                self.drop_queue_data(change.topic, name)
                self._set_rev(name, change.rev)
            return (change.topic,)
        if kind == kinds.TOPIC_REGISTERED and change.topic is not None:
            for name, queue_data in change.queue_datas.items():
                self.set_queue_data(change.topic, name, queue_data)
                self._set_rev(name, change.rev)
            return (change.topic,)
        if kind in (kinds.KV_PUT, kinds.KV_DELETED) and change.kv_namespace is not None:
            table = self.kv.setdefault(change.kv_namespace, {})
            if change.key is not None:
                if change.value is None:
                    table.pop(change.key, None)
                else:
                    table[change.key] = change.value
                return (change.key,)  # ORDER_TOPIC_CONFIG: the key is a topic
        if kind == kinds.CONFIG_SET:
            self.config.update(change.config)
            self.config_rev = change.config_rev or self.config_rev
            return list(self.topics)
        if kind not in kinds.TYPES and not change.ignorable:
            raise kinds.UnknownChange(change)
        return _NOTHING

    def _apply_broker(self, change: Change) -> Collection[str]:
        name = intern(change.broker_name)
        touched: set[str] = set()
        who = change.who
        if who is not None and (change.filter_servers is not None or change.type in kinds.REMOVALS):
            servers = change.filter_servers or ()
            if list(servers) != self.filter_servers.get(who, []):
                self.set_filter_servers(who, servers)
                # an address may stand in the rows of several brokerNames
                touched.update(*(self.broker_topics.get(other, ()) for other in self._names_of(change.addr)))
        if change.type == kinds.BROKER_REGISTERED and change.cluster is not None:
            self.clusters.setdefault(change.cluster, set()).add(name)
        if change.row is None:
            return touched.union(self.drop_broker(name))
        row, topics = self.brokers.get(name), change.topics
        if change.row is not UNSET:
            self.brokers[name] = change.row.broker_row(change.rev or 0)
            touched.update(self.broker_topics.get(name, _NOTHING))
        else:
            self._set_rev(name, change.rev)
        if isinstance(topics, PlacedTopics) and topics.standing.holds(self, name, row):
            self._set_placed(name, topics)
            topics.standing.rev = self.brokers[name].rev  # all parts of a change move it to the same
        else:
            self.set_queue_datas(name, topics)
        for topic in change.dropped:
            self.drop_queue_data(topic, name)
        for topic, mapped_name, mapping in change.mappings:
            self.set_mapping(topic, mapped_name, mapping)
        if not touched and not change.dropped and not change.mappings:
            return topics.keys()
        changed = [*topics, *change.dropped, *(mapping[0] for mapping in change.mappings)]
        return changed if not touched else touched.union(changed)

    def _names_of(self, addr: str | None) -> list[str]:
        return [name for name, row in self.brokers.items() if addr in row.broker_addrs.values()]

    def set_queue_data(self, topic: str, broker_name: str, queue_data: QueueData) -> None:
        """One cell of topicQueueTable; equal values share one object."""
        topic, broker_name = intern(topic), intern(broker_name)
        queue_data = self._queue_datas.setdefault(queue_data, queue_data)
        self.topics.setdefault(topic, {})[broker_name] = queue_data
        self.broker_topics.setdefault(broker_name, set()).add(topic)

    def set_queue_datas(self, broker_name: str, queue_datas: Mapping[str, QueueData]) -> None:
        """Many topics' cells of one brokerName: the same as one by one, in a third of the time."""
        if not queue_datas:
            return
        name, new = intern(broker_name), []
        table, shared = self.topics, self._queue_datas
        for topic, queue_data in queue_datas.items():
            cells = table.get(topic)
            if cells is None:
                cells = table[intern(topic)] = {}
            if name not in cells:
                new.append(intern(topic))
            cells[name] = shared.setdefault(queue_data, queue_data)
        self.broker_topics.setdefault(name, set()).update(new)

    def _set_placed(self, broker_name: str, topics: PlacedTopics) -> None:
        """The same again when each one's place is at hand: nothing is looked up."""
        name, values = intern(broker_name), topics.values()
        for cells, queue_data in zip(topics.cells, map(self._queue_datas.setdefault, values, values), strict=True):
            cells[name] = queue_data

    def drop_queue_data(self, topic: str, broker_name: str) -> None:
        """The cell, and the topic with its last one."""
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
        """A brokerName with all its queue data and its place in every cluster; returns its topics."""
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
        """An empty list removes."""
        servers = list(filter_servers)
        if servers:
            self.filter_servers[who] = servers
        else:
            self.filter_servers.pop(who, None)

    def set_mapping(self, topic: str, broker_name: str, mapping: str) -> None:
        """One static-topic mapping (JSON text); nothing ever removes one (semantics 25)."""
        self.mappings.setdefault(topic, {})[broker_name] = mapping

    def _set_rev(self, name: str, rev: int | None) -> None:
        row = self.brokers.get(name)
        if row is not None and rev is not None and row.rev != rev:
            self.brokers[name] = BrokerRow(row.cluster, row.broker_addrs, row.zone_name, row.enable_acting_master, rev)

    def contents(self) -> dict[str, object]:
        """Everything as plain values, to compare two tables with ``==``."""
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


class TopicsLoader:
    """Puts the topics of a whole snapshot into tables; ``broker_topics`` is right when :meth:`finish` was called.

    Most topics are on the same brokerNames as many others, with the same queues on each: one index for those, and a
    dict at once. Cell by cell it takes three times as long.

    Args:
        decode: a cell from its text; equal texts had better give one object.
    """

    def __init__(self, tables: Tables, decode: Callable[[str], QueueData]) -> None:
        self._tables, self._decode = tables, decode
        self._groups: dict[tuple[str, ...], tuple[dict[str, None], list[str]]] = {}

    def add(self, rows: Iterable[tuple[str, list[str]]]) -> None:
        """Topics, each with its HASH: a brokerName, the text of its cell, the next brokerName. One may come twice."""
        table, groups, decode = self._tables.topics, self._groups, self._decode
        for topic, flat in rows:
            group = groups.get(tuple(flat[::2]))
            if group is None:
                key = tuple(map(intern, flat[::2]))
                group = groups[key] = dict.fromkeys(key), []
            names, topics = group
            texts = flat[1::2]
            if texts.count(texts[0]) == len(texts):
                cells = dict.fromkeys(names, decode(texts[0]))
            else:
                cells = dict(zip(names, map(decode, texts), strict=True))
            topic = intern(topic)
            there = table.setdefault(topic, cells)
            if there is not cells:
                there.update(cells)
            topics.append(topic)

    def finish(self) -> None:
        """Index what was added."""
        index = self._tables.broker_topics
        for names, topics in self._groups.values():
            found = set(topics)
            for name in names:
                there = index.get(name)
                if there is None:
                    index[name] = found.copy()
                else:
                    there |= found
