"""Makes brokers and clusters for tests: they register like real brokers, and have no messages."""

from __future__ import annotations

import string
from collections.abc import Iterable
from typing import Any, Final, Self

from ..client.broker.config import BrokerConfig
from ..client.broker.registrar_sync import BrokerRegistrarSync
from ..client.broker.topic_table import TopicTable
from ..errors import PeerUnavailable
from ..model import MASTER_ID, TopicConfig

_QUEUES: Final = 4
_PERM: Final = 6
_PORT: Final = 10911


class FakeBroker:
    """A broker that is registered, and sends heartbeats, while its ``with`` lasts.

    When a method other than ``kill`` has returned, every lookup at these name servers shows the change.

    Args:
        name_servers: ``host:port;host:port``.
        broker_name, broker_addr, settings: of :class:`mqregistry.client.BrokerConfig`; no process has to listen at
            ``broker_addr``.
        topics: names (4 queues, perm 6) or topics.
        system_topics: add the system topics of a real broker, e.g. TBW102, by which clients can send to topics that do
            not exist yet.

    Raises:
        PeerUnavailable: it is not registered at every name server. Raised by ``start``, the ``with``, and
            ``put_topic``.
    """

    def __init__(
        self, name_servers: str, broker_name: str = "broker-a", broker_addr: str = f"127.0.0.1:{_PORT}",
        topics: Iterable[str | TopicConfig] = (), *, system_topics: bool = False, **settings: Any,
    ) -> None:  # fmt: skip
        self.config = BrokerConfig(broker_name=broker_name, broker_addr=broker_addr, **settings)
        own = [one if isinstance(one, TopicConfig) else TopicConfig(one, _QUEUES, _QUEUES, _PERM) for one in topics]
        self.topics = TopicTable.with_system_topics(self.config, own) if system_topics else TopicTable(own)
        self._name_servers = name_servers
        self._registrar: BrokerRegistrarSync | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Register; may be called again after ``stop`` or ``kill``."""
        if self._registrar is None:
            self._registrar = BrokerRegistrarSync(self.config, self.topics, self._name_servers)
            self._registrar.__enter__()
            self._check()

    def stop(self) -> None:
        """Shut the broker down: it unregisters (104), and leaves its routes at once."""
        self._leave(unregister=True)

    def kill(self) -> None:
        """Crash the broker: its connections close, and name servers notice it a moment later."""
        self._leave(unregister=False)

    def put_topic(
        self, name: str, read_queue_nums: int = _QUEUES, write_queue_nums: int = _QUEUES, perm: int = _PERM
    ) -> None:
        """Add or change a topic, and register it."""
        self.topics.put_topic(name, read_queue_nums, write_queue_nums, perm)
        if self._registrar is not None:
            self._registrar.register_now()
            self._check()

    def _leave(self, *, unregister: bool) -> None:
        registrar, self._registrar = self._registrar, None
        if registrar is not None:
            registrar.unregister = unregister
            registrar.close()

    def _check(self) -> None:
        assert self._registrar is not None
        results = self._registrar.results
        failed = [f"{server}: {result.status} {result.error}" for server, result in results.items() if not result.ok]
        if failed or not results:
            self.kill()
            raise PeerUnavailable(f"{self.config.broker_name} is not registered: {'; '.join(failed) or 'nowhere'}")


class FakeCluster:
    """Masters with their slaves, all registered while its ``with`` lasts.

    Args:
        name_servers: ``host:port;host:port``.
        masters: the number of broker names (broker-a, broker-b, ...). slaves: the number of slaves of each master.
        topics, system_topics, settings: of every broker.

    Attributes:
        brokers: broker name -> broker id (0 is the master) -> broker.
    """

    def __init__(
        self, name_servers: str, masters: int = 2, slaves: int = 0, topics: Iterable[str | TopicConfig] = (), *,
        system_topics: bool = False, **settings: Any,
    ) -> None:  # fmt: skip
        topics = list(topics)
        self.brokers: dict[str, dict[int, FakeBroker]] = {}
        for number, letter in enumerate(string.ascii_lowercase[:masters]):
            name = f"broker-{letter}"
            self.brokers[name] = {
                broker_id: FakeBroker(
                    name_servers, name, f"127.0.0.1:{_PORT + 100 * number + 10 * broker_id}", topics,
                    system_topics=system_topics, broker_id=broker_id, **settings,
                )
                for broker_id in range(slaves + 1)
            }  # fmt: skip

    def __enter__(self) -> Self:
        try:
            for broker in self._all():
                broker.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def master(self, broker_name: str) -> FakeBroker:
        """The master of a broker name."""
        return self.brokers[broker_name][MASTER_ID]

    def put_topic(
        self, name: str, read_queue_nums: int = _QUEUES, write_queue_nums: int = _QUEUES, perm: int = _PERM
    ) -> None:
        """Add or change a topic at every broker."""
        for broker in self._all():
            broker.put_topic(name, read_queue_nums, write_queue_nums, perm)

    def stop(self) -> None:
        """Make every broker unregister and end."""
        for broker in self._all():
            broker.stop()

    def _all(self) -> list[FakeBroker]:
        return [broker for of_name in self.brokers.values() for broker in of_name.values()]
