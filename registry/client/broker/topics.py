"""The topics of a broker, and how new they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from registry.model import DataVersion, TopicConfig, TopicQueueMapping

DEFAULT_PERM: Final = 6

Listener = Callable[[frozenset[str] | None], None]
"""Told of each change: the topics that changed, or None when only the whole table can say what did."""


class TopicTable(Mapping[str, TopicConfig]):
    """What a broker registers: its topics, static-topic mappings and their DataVersion.

    Every change moves the DataVersion once (counter + 1, timestamp = now, stateVersion as set), however many topics
    it is about; a change that changes nothing moves nothing. Registrars that were given the table are told, and
    register at once. Not safe for threads: change it on the event loop of its registrar.

    Args:
        topics: what it starts with.
        mappings: static topics (5.x).
        data_version: to go on from; without it counter 0 and the clock, as a Java broker without files.
        now_ms: the clock.
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
        self._now_ms = now_ms
        self._topics = {topic.topic_name: _checked(topic) for topic in topics}
        self._mappings = {_topic_of(mapping): mapping for mapping in mappings}
        self._order_topics: frozenset[str] = frozenset()
        self._version = data_version or DataVersion(0, now_ms(), 0)
        self._state_version = self._version.state_version
        self._listeners: list[Listener] = []

    def __getitem__(self, topic: str) -> TopicConfig:
        return self._topics[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    def __len__(self) -> int:
        return len(self._topics)

    @property
    def data_version(self) -> DataVersion:
        """How new it is."""
        return self._version

    @property
    def mappings(self) -> Mapping[str, TopicQueueMapping]:
        """Static topic -> its mapping at this broker."""
        return self._mappings

    @property
    def order_topics(self) -> frozenset[str]:
        """Topics of this table that the name servers' order configuration names."""
        return self._order_topics

    @property
    def state_version(self) -> int:
        """What the DataVersion carries from the next change on: the number of the broker's term (5.x)."""
        return self._state_version

    @state_version.setter
    def state_version(self, value: int) -> None:
        self._state_version = value

    def put(self, *topics: TopicConfig) -> None:
        """Add or change topics: one new version for all."""
        changed = {topic.topic_name: topic for topic in map(_checked, topics) if self.get(topic.topic_name) != topic}
        if changed:
            self._topics.update(changed)
            self._changed(frozenset(changed))

    def put_topic(
        self, name: str, read_queue_nums: int = 8, write_queue_nums: int = 8, perm: int = DEFAULT_PERM,
        topic_sys_flag: int = 0,
    ) -> None:  # fmt: skip
        """Add or change one topic."""
        self.put(TopicConfig(name, read_queue_nums, write_queue_nums, perm, topic_sys_flag))

    def remove(self, *names: str) -> None:
        """Take topics out. Name servers keep them until they are deleted there (216), unless they run with
        deleteTopicWithBrokerRegistration.
        """
        present = [name for name in names if name in self._topics or name in self._mappings]
        if present:
            for name in present:
                self._topics.pop(name, None)
                self._mappings.pop(name, None)
            self._changed(None)

    def put_mapping(self, *mappings: TopicQueueMapping) -> None:
        """Add or change static topics' mappings; each needs its topic in the table, too."""
        changed = {_topic_of(mapping): mapping for mapping in mappings}
        changed = {topic: mapping for topic, mapping in changed.items() if self._mappings.get(topic) != mapping}
        if changed:
            self._mappings.update(changed)
            self._changed(frozenset(changed))

    def touch(self) -> None:
        """A new version of the same topics: name servers write them all again, e.g. a permission wiped there."""
        self._changed(None)

    def set_order_topics(self, topics: Iterable[str], *, only_add: bool) -> bool:
        """What a name server's order configuration names; moves the version, which the next registration shows.

        Args:
            only_add: a 5.x broker forgets none (its operators set them by other means, too), a 4.x broker does.

        Returns:
            whether that was news.
        """
        named = frozenset(topics) & self._topics.keys()
        if only_add:
            named |= self._order_topics
        if named == self._order_topics:
            return False
        self._order_topics = named
        self.advance()
        return True

    def advance(self) -> DataVersion:
        """The next version, without telling anybody."""
        self._version = DataVersion(self._version.counter + 1, self._now_ms(), self._state_version)
        return self._version

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Be told of changes; returns what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _changed(self, names: frozenset[str] | None) -> None:
        self.advance()
        for listener in list(self._listeners):
            listener(names)


def _checked(topic: TopicConfig) -> TopicConfig:
    if not topic.topic_name:
        raise ValueError("a topic without a name")
    return topic


def _topic_of(mapping: TopicQueueMapping) -> str:
    if not mapping.topic:
        raise ValueError("a static topic mapping without a topic")
    return mapping.topic
