"""BrokerRegistrar for programs without an event loop.

About threads, forks, closing and Ctrl-C see :mod:`registry.client.sync`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from registry.client.addresses import Addresses, Given
from registry.client.broker.registrar import BrokerConfig, BrokerRegistrar, ServerResult, TopicTable
from registry.client.sync import SyncFace
from registry.model import DataVersion, TopicConfig, TopicQueueMapping


class BrokerRegistrarSync(SyncFace[BrokerRegistrar]):
    """``with BrokerRegistrarSync(config, topics, "host:9876;host:9876") as registrar: registrar.put_topic("orders")``.

    Arguments, results and errors are those of :class:`BrokerRegistrar`. The table is the registrar's own, made of
    ``topics``: it is changed by the methods here, which return once the change is in the table; ``register_now``
    waits for the name servers. ``on_result`` is called in the background thread.
    """

    def __init__(
        self,
        config: BrokerConfig,
        topics: Iterable[TopicConfig] = (),
        name_servers: Addresses | Given = None,
        **options: Any,
    ) -> None:
        super().__init__(BrokerRegistrar(config, TopicTable(topics), name_servers, **options))

    @property
    def results(self) -> Mapping[str, ServerResult]:
        """See :attr:`BrokerRegistrar.results`."""
        return self._on_loop(lambda: self._client.results)

    @property
    def unregistered(self) -> dict[str, str]:
        """After the end: server -> what went wrong with its goodbye, "" = nothing."""
        return self._client.unregistered

    @property
    def master_addr(self) -> str:
        """See :attr:`BrokerRegistrar.master_addr`."""
        return self._on_loop(lambda: self._client.master_addr)

    @property
    def ha_server_addr(self) -> str:
        """See :attr:`BrokerRegistrar.ha_server_addr`."""
        return self._on_loop(lambda: self._client.ha_server_addr)

    @property
    def order_topic_config(self) -> dict[str, str]:
        """See :attr:`BrokerRegistrar.order_topic_config`."""
        return self._on_loop(lambda: self._client.order_topic_config)

    @property
    def topics(self) -> dict[str, TopicConfig]:
        """A copy of the table."""
        return self._on_loop(lambda: dict(self._client.topics))

    @property
    def data_version(self) -> DataVersion:
        """See :attr:`TopicTable.data_version`."""
        return self._on_loop(lambda: self._client.topics.data_version)

    def put(self, *topics: TopicConfig) -> None:
        """See :meth:`TopicTable.put`."""
        self._on_loop(lambda: self._client.topics.put(*topics))

    def put_topic(self, name: str, *numbers: int, **fields: int) -> None:
        """See :meth:`TopicTable.put_topic`."""
        self._on_loop(lambda: self._client.topics.put_topic(name, *numbers, **fields))

    def put_mapping(self, *mappings: TopicQueueMapping) -> None:
        """See :meth:`TopicTable.put_mapping`."""
        self._on_loop(lambda: self._client.topics.put_mapping(*mappings))

    def remove(self, *names: str) -> None:
        """See :meth:`TopicTable.remove`."""
        self._on_loop(lambda: self._client.topics.remove(*names))

    def register_now(self) -> Mapping[str, ServerResult]:
        """See :meth:`BrokerRegistrar.register_now`."""
        return self._call(self._client.register_now)

    def change(self, **fields: Any) -> None:
        """See :meth:`BrokerRegistrar.change`."""
        self._on_loop(lambda: self._client.change(**fields))

    def use_name_servers(self, name_servers: Given) -> None:
        """See :meth:`BrokerRegistrar.use_name_servers`."""
        self._on_loop(lambda: self._client.use_name_servers(name_servers))
