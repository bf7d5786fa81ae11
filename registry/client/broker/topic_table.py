"""Keeps the topics that a broker registers, and their DataVersion, by which name servers recognise a change."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Self

from ...model import DataVersion, TopicConfig, TopicQueueMapping
from ..checks import check_data_version, check_mapping, check_topic
from .config import BrokerConfig
from .system_topics import system_topics

DEFAULT_PERM: Final = 6

TableListener = Callable[[frozenset[str] | None], None]
"""Called after each change with the changed topics, or None if the whole table must be sent."""


class TopicTable(Mapping[str, TopicConfig]):
    """The content of a broker's registration: its topics, static-topic mappings and their DataVersion.

    Each call that changes something makes one new DataVersion (counter + 1, timestamp = now, stateVersion as set), for
    any number of topics; the registrars of the table then register at once. Any thread may change the table. To read
    several values of one moment, hold ``lock``.

    Args:
        topics: the topics at the start.
        mappings: static topics (5.x).
        data_version: the version to continue from; default: counter 0 and the time, as of a Java broker without files.
        now_ms: the clock, in milliseconds since the epoch.

    Raises:
        TypeError, ValueError: a topic, mapping or data version that name servers cannot store or clients cannot use:
            a name that is no text of 1 to 255 bytes, a negative number of queues, a perm above 7. Methods with topics
            or mappings as arguments raise the same errors, and then change nothing.
    Source of the behaviour: TopicConfigManager, DataVersion.nextVersion (rocketmq 4.8 to 5.x).
    """

    def __init__(
        self,
        topics: Iterable[TopicConfig] = (),
        mappings: Iterable[TopicQueueMapping] = (),
        *,
        data_version: DataVersion | None = None,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self.lock = threading.RLock()
        self._now_ms = now_ms
        self._topics: dict[str, TopicConfig] = {}
        for topic in map(check_topic, topics):
            if self._topics.setdefault(topic.topic_name, topic) != topic:
                raise ValueError(f"topic {topic.topic_name!r} is given twice, with different queues or permissions")
        self._mappings = _by_topic(mappings)
        self._order_topics: frozenset[str] = frozenset()
        self._version = DataVersion(0, now_ms(), 0) if data_version is None else check_data_version(data_version)
        self._state_version = self._version.state_version
        self._listeners: list[TableListener] = []

    @classmethod
    def with_system_topics(cls, config: BrokerConfig, topics: Iterable[TopicConfig] = ()) -> Self:
        """A table that starts with the system topics of a Java broker of this name, cluster and version.

        They include TBW102, so clients may send to topics that do not exist yet (autoCreateTopicEnable).

        Args:
            topics: more topics; a topic with the name of a system topic replaces the system topic.
        """
        own = list(topics)
        names = {topic.topic_name for topic in own if isinstance(topic, TopicConfig)}
        return cls([*(topic for topic in system_topics(config) if topic.topic_name not in names), *own])

    def __getitem__(self, topic: str) -> TopicConfig:
        return self._topics[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    def __len__(self) -> int:
        return len(self._topics)

    @property
    def data_version(self) -> DataVersion:
        """The table's present version."""
        return self._version

    @property
    def mappings(self) -> Mapping[str, TopicQueueMapping]:
        """Static topic -> its mapping at this broker."""
        return self._mappings

    @property
    def order_topics(self) -> frozenset[str]:
        """The topics of this table in the order configuration of the name servers."""
        return self._order_topics

    @property
    def state_version(self) -> int:
        """The stateVersion of the next DataVersion: the number of the broker's term (5.x)."""
        return self._state_version

    @state_version.setter
    def state_version(self, value: int) -> None:
        self._state_version = check_data_version(DataVersion(state_version=value)).state_version

    def put(self, *topics: TopicConfig) -> None:
        """Add or change topics, with one new version."""
        checked = [check_topic(topic) for topic in topics]
        with self.lock:
            changed = {topic.topic_name: topic for topic in checked if self.get(topic.topic_name) != topic}
            if changed:
                self._topics.update(changed)
                self._changed(frozenset(changed))

    def put_topic(
        self, name: str, read_queue_nums: int = 8, write_queue_nums: int = 8, perm: int = DEFAULT_PERM,
        topic_sys_flag: int = 0,
    ) -> None:  # fmt: skip
        """Add or change one topic.

        Args:
            name: 1 to 255 bytes of UTF-8, no control characters.
            read_queue_nums, write_queue_nums: 0 to 1,000,000.
            perm: 4 (read) + 2 (write) + 1 (inherited).
            topic_sys_flag: RocketMQ's TopicSysFlag.
        """
        self.put(TopicConfig(name, read_queue_nums, write_queue_nums, perm, topic_sys_flag))

    def remove(self, *names: str) -> None:
        """Remove topics; names that are not in the table are ignored.

        A name server keeps a removed topic until it is deleted there (216), unless the name server runs with
        deleteTopicWithBrokerRegistration (``docs/semantics.md`` 12).
        """
        with self.lock:
            present = [name for name in names if name in self._topics or name in self._mappings]
            for name in present:
                self._topics.pop(name, None)
                self._mappings.pop(name, None)
            if present:
                self._changed(None)

    def put_mapping(self, *mappings: TopicQueueMapping) -> None:
        """Add or change mappings of static topics; put also each topic itself into the table."""
        given = _by_topic(mappings)
        with self.lock:
            changed = {topic: mapping for topic, mapping in given.items() if self._mappings.get(topic) != mapping}
            if changed:
                self._mappings.update(changed)
                self._changed(frozenset(changed))

    def touch(self) -> None:
        """Make a new version of the same topics: name servers then store all again, e.g. permissions wiped by 205."""
        self._changed(None)

    def set_order_topics(self, topics: Iterable[str], *, only_add: bool) -> bool:
        """Store which topics the order configuration of the name servers has; returns whether that changed.

        After a change the table has a new version, and the next registration shows it.

        Args:
            only_add: keep topics that are no longer in the configuration, as a 5.x broker does (operators can also set
                its order in other ways); a 4.x broker drops them.
        """
        with self.lock:
            named = frozenset(topics) & self._topics.keys()
            if only_add:
                named |= self._order_topics
            if named == self._order_topics:
                return False
            self._order_topics = named
            self.advance()
            return True

    def advance(self) -> None:
        """Make the next version without notifying the registrars."""
        with self.lock:
            self._version = DataVersion(self._version.counter + 1, self._now_ms(), self._state_version)

    def subscribe(self, listener: TableListener) -> Callable[[], None]:
        """Call ``listener`` after each change, in the thread of the change; returns a function that unsubscribes."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _changed(self, names: frozenset[str] | None) -> None:
        with self.lock:
            self.advance()
            for listener in list(self._listeners):
                listener(names)


def _by_topic(mappings: Iterable[TopicQueueMapping]) -> dict[str, TopicQueueMapping]:
    return {str(mapping.topic): mapping for mapping in map(check_mapping, mappings)}
