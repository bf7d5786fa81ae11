"""BrokerRegistrar for programs without an event loop; :mod:`mqregistry.client.sync_client` has the rules for threads,
forks, closing and Ctrl-C.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...model import DataVersion, TopicConfig, TopicQueueMapping
from ..sync_client import SyncClient, made_like, on_loop, waits_for
from .registrar import BrokerRegistrar
from .target import RegistrationResult
from .topic_table import DEFAULT_PERM


class BrokerRegistrarSync(SyncClient[BrokerRegistrar]):
    """``with BrokerRegistrarSync(config, topics, "host:9876;host:9876") as registrar: registrar.put_topic("orders")``.

    Arguments, results and errors are those of :class:`BrokerRegistrar`. A program changes the table by the methods of
    this class, or by those of the TopicTable that it gave; they return when the change is in the table.
    ``register_now`` waits for the name servers. ``on_result`` is called in the background thread.
    """

    @made_like(BrokerRegistrar)
    def __init__(self) -> None: ...

    register_now = waits_for(BrokerRegistrar.register_now)
    change = on_loop(BrokerRegistrar.change)
    use_name_servers = on_loop(BrokerRegistrar.use_name_servers)

    @property
    def results(self) -> Mapping[str, RegistrationResult]:
        """See :attr:`BrokerRegistrar.results`."""
        return self._on_loop(lambda: self._client.results)

    @property
    def unregistered(self) -> dict[str, str]:
        """See :attr:`BrokerRegistrar.unregistered`."""
        return self._client.unregistered

    @property
    def unregister(self) -> bool:
        """See :attr:`BrokerRegistrar.unregister`."""
        return self._client.unregister

    @unregister.setter
    def unregister(self, value: bool) -> None:
        self._client.unregister = value

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
        """A copy of the table: topic name -> topic."""
        table = self._client.topics

        def copy() -> dict[str, TopicConfig]:
            with table.lock:
                return dict(table)

        return self._on_loop(copy)

    @property
    def data_version(self) -> DataVersion:
        """See :attr:`TopicTable.data_version`."""
        return self._on_loop(lambda: self._client.topics.data_version)

    def put(self, *topics: TopicConfig) -> None:
        """See :meth:`TopicTable.put`."""
        self._on_loop(lambda: self._client.topics.put(*topics))

    def put_topic(
        self, name: str, read_queue_nums: int = 8, write_queue_nums: int = 8, perm: int = DEFAULT_PERM,
        topic_sys_flag: int = 0,
    ) -> None:  # fmt: skip
        """See :meth:`TopicTable.put_topic`."""
        self.put(TopicConfig(name, read_queue_nums, write_queue_nums, perm, topic_sys_flag))

    def put_mapping(self, *mappings: TopicQueueMapping) -> None:
        """See :meth:`TopicTable.put_mapping`."""
        self._on_loop(lambda: self._client.topics.put_mapping(*mappings))

    def remove(self, *names: str) -> None:
        """See :meth:`TopicTable.remove`."""
        self._on_loop(lambda: self._client.topics.remove(*names))
