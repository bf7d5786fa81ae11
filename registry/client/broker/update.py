"""What is sent: the whole table or what changed, with the broker's permission, in one body or several."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from registry.client.broker.config import BrokerConfig
from registry.client.broker.topics import TopicTable
from registry.model import DataVersion, TopicConfig
from registry.protocol.codes import VERSION_V5_0_0
from registry.protocol.register_body import RegisterBody, encode_register_body


class Update:
    """One registration: ``bodies`` go out in order, all of them. ``data_version`` is the last one's."""

    def __init__(self, bodies: tuple[RegisterBody, ...], config: BrokerConfig, order_topics: frozenset[str]) -> None:
        self.bodies = bodies
        self._config = config
        self._order_topics = order_topics
        self._encoded: tuple[bytes, ...] | None = None

    @property
    def data_version(self) -> DataVersion:
        """What a server that took it knows the table by."""
        return self.bodies[-1].data_version

    @property
    def has_one_topic(self) -> bool:
        """Whether a 5.x name server refuses it from a broker that it does not know."""
        return any(len(body.topics) == 1 for body in self.bodies)

    def encoded(self) -> tuple[bytes, ...]:
        """The bodies as bytes; written once, for all servers."""
        if self._encoded is None:
            config = self._config
            self._encoded = tuple(
                encode_register_body(
                    body, compressed=config.compressed_register, version=config.version, order_topics=self._order_topics
                )
                for body in self.bodies
            )
        return self._encoded

    def introduction(self) -> Update:
        """The same broker without topics, one version older: who is known with no topic may have one."""
        version = self.bodies[0].data_version
        older = DataVersion(version.counter, version.timestamp - 1, version.state_version)
        empty = RegisterBody(older, filter_servers=self.bodies[0].filter_servers)
        return Update((empty,), self._config, frozenset())


class Updates:
    """Makes updates of a table; keeps the last whole one, as it is what goes out each period."""

    def __init__(self, table: TopicTable, config: BrokerConfig) -> None:
        self.table = table
        self._config = config
        self._whole: Update | None = None

    def use(self, config: BrokerConfig) -> None:
        """Other settings from now on."""
        self._config = config
        self._whole = None

    def whole(self) -> Update:
        """Everything. Split, each body has a version of its own, or servers would not look at the later ones."""
        if self._whole is None or self._whole.data_version != self.table.data_version:
            bodies = self._split() if self._config.enable_split_registration else (self._body(self.table.values()),)
            self._whole = Update(bodies, self._config, self.table.order_topics)
        return self._whole

    def _split(self) -> tuple[RegisterBody, ...]:
        """As a Java broker: full bodies first, then what is left, be it nothing, with the mappings."""
        topics, size = list(self.table.values()), self._config.split_registration_size
        rest = len(topics) // size * size
        bodies = []
        for at in range(0, rest, size):
            self.table.advance()
            bodies.append(msgspec.structs.replace(self._body(topics[at : at + size]), mappings={}))
        self.table.advance()
        return (*bodies, self._body(topics[rest:]))

    def _body(self, topics: Iterable[TopicConfig]) -> RegisterBody:
        return RegisterBody(
            self.table.data_version, self._topics(topics), dict(self.table.mappings), list(self._config.filter_servers)
        )

    def increment(self, names: Collection[str]) -> Update:
        """These topics alone, with the version that the table has now."""
        body = self._body(self.table[name] for name in sorted(names) if name in self.table)
        mappings = {name: mapping for name, mapping in body.mappings.items() if name in names}
        return Update((msgspec.structs.replace(body, mappings=mappings),), self._config, self.table.order_topics)

    def _topics(self, topics: Iterable[TopicConfig]) -> dict[str, TopicConfig]:
        """The topics with the permission that counts.

        A 4.x broker registers its own in place of each topic's, a 5.x broker what both have. (Both Java brokers
        also lose the topicSysFlag while they do so; here it stays.)
        """
        config = self._config
        if not config.overrides_perm:
            return {topic.topic_name: topic for topic in topics}
        own, narrows = config.broker_permission, config.version >= VERSION_V5_0_0
        return {
            topic.topic_name: msgspec.structs.replace(topic, perm=topic.perm & own if narrows else own)
            for topic in topics
        }
