"""Makes the bodies of a registration: the whole topic table, or only the topics that changed."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

import msgspec

from ...model import DataVersion, QueueData, TopicConfig, TopicQueueMapping
from ...protocol.bodies.register import encode_register_body
from ...protocol.bodies.register_content import RegisterBody
from ...protocol.codes import VERSION_V5_0_0
from ..checks import check_mapping
from .config import BrokerConfig
from .topic_table import TopicTable

logger = logging.getLogger(__name__)


class RegistrationPayload:
    """One registration: one body, or several bodies, sent in order, if it is split."""

    def __init__(self, bodies: tuple[RegisterBody, ...], config: BrokerConfig, order_topics: frozenset[str]) -> None:
        self.bodies = bodies
        self._config = config
        self._order_topics = order_topics
        self._encoded: tuple[bytes, ...] | None = None

    @property
    def data_version(self) -> DataVersion:
        """The version of the last body: a server that accepted all bodies has it."""
        return self.bodies[-1].data_version

    @property
    def has_one_topic(self) -> bool:
        """Whether a body has one topic: a 5.x server refuses it from an unknown broker (``docs/semantics.md`` 16)."""
        return any(len(body.topics) == 1 for body in self.bodies)

    def encoded(self) -> tuple[bytes, ...]:
        """The bodies as bytes; encoded once, for all servers."""
        if self._encoded is None:
            config = self._config
            self._encoded = tuple(
                encode_register_body(
                    body, compressed=config.compressed_register, version=config.version, order_topics=self._order_topics
                )
                for body in self.bodies
            )
        return self._encoded

    def introduction(self) -> RegistrationPayload:
        """A registration without topics, with a DataVersion that is 1 ms older.

        A server that accepted it knows the broker, and so accepts a registration with a single topic.
        """
        version = self.bodies[0].data_version
        older = DataVersion(version.counter, version.timestamp - 1, version.state_version)
        empty = RegisterBody(older, filter_servers=self.bodies[0].filter_servers)
        return RegistrationPayload((empty,), self._config, frozenset())


class PayloadBuilder:
    """Makes payloads of a table; keeps the last payload of the whole table, which is sent each period.

    A static topic's mapping that cannot be sent is left out and logged once. The table refuses such mappings, but a
    program can change a mapping after it put the mapping into the table.
    """

    def __init__(self, table: TopicTable, config: BrokerConfig) -> None:
        self.table = table
        self._config = config
        self._whole: RegistrationPayload | None = None
        self._left_out: dict[str, str] = {}

    def use(self, config: BrokerConfig) -> None:
        """Use other settings from now on."""
        self._config = config
        self._whole = None

    def whole(self) -> RegistrationPayload:
        """The whole table. If it is split, each body has a version of its own: servers ignore a known version."""
        with self.table.lock:
            if self._whole is None or self._whole.data_version != self.table.data_version:
                bodies = self._split() if self._config.enable_split_registration else (self._body(self.table.values()),)
                self._whole = RegistrationPayload(bodies, self._config, self.table.order_topics)
            return self._whole

    def increment(self, names: Collection[str]) -> RegistrationPayload:
        """Only these topics, with the version that the table has now."""
        with self.table.lock:
            body = self._body((self.table[name] for name in sorted(names) if name in self.table), names)
            return RegistrationPayload((body,), self._config, self.table.order_topics)

    def _split(self) -> tuple[RegisterBody, ...]:
        """Split as a Java broker does: full bodies, then one with the remaining topics and all mappings."""
        topics, size = list(self.table.values()), self._config.split_registration_size
        rest = len(topics) // size * size
        bodies = []
        for at in range(0, rest, size):
            self.table.advance()
            bodies.append(self._body(topics[at : at + size], mapped=()))
        self.table.advance()
        return (*bodies, self._body(topics[rest:]))

    def _body(self, topics: Iterable[TopicConfig], mapped: Collection[str] | None = None) -> RegisterBody:
        """A body of these topics, and of the mappings of the topics in ``mapped`` (None: all mappings)."""
        sent = {topic.topic_name: self._with_broker_perm(topic.queue_data()) for topic in topics}
        mappings = {
            name: mapping
            for name, mapping in self.table.mappings.items()
            if (mapped is None or name in mapped) and self._is_sendable(mapping)
        }
        return RegisterBody(self.table.data_version, sent, mappings, list(self._config.filter_servers))

    def _with_broker_perm(self, queue_data: QueueData) -> QueueData:
        """The queue data with the permission to register.

        If broker_permission lacks read or write, a 4.x broker registers it for each topic, and a 5.x broker registers
        what both it and the topic's own allow. (Java brokers then also send topicSysFlag 0; this broker the topic's.)
        """
        config = self._config
        if not config.overrides_perm:
            return queue_data
        own, narrows = config.broker_permission, config.version >= VERSION_V5_0_0
        return msgspec.structs.replace(queue_data, perm=queue_data.perm & own if narrows else own)

    def _is_sendable(self, mapping: TopicQueueMapping) -> bool:
        try:
            check_mapping(mapping)
        except (TypeError, ValueError) as error:
            what, why = f"the mapping of static topic {mapping.topic!r}", str(error)
            if self._left_out.get(what) != why:
                logger.error("%s of broker %s is not registered: %s", what, self._config.broker_name, why)
            self._left_out[what] = why
            return False
        return True
