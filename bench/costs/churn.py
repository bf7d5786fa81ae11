"""Plays a day of registrations as fast as Redis can run the scripts, to see the server's memory afterwards.

There are four clusters of eight brokers. Each broker sends its 2,880 heartbeats; each hour every cluster changes, drops
and adds topics with names of different lengths; and four or five times a day each broker leaves and comes back with all
of its topics. The same seed gives every server the same day.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from mqregistry.config.settings import Settings
from mqregistry.model import DataVersion, QueueData, Registration
from mqregistry.store import keys
from mqregistry.store.route_writes import Channel, RouteStore
from mqregistry.store.snapshot import read_head
from mqregistry.store.store import Store
from mqregistry.store.streams import StreamStore
from mqregistry.tables.registration import RegistrationDiff
from mqregistry.worker.trim import trim

HOURS = 24
BEATS_AN_HOUR = 120
_CHANNEL = Channel("front-end", "worker/1@b1")


class Memory(NamedTuple):
    """The memory in bytes that a server reports: what it uses, and what it holds of the machine's memory."""

    used: int
    resident: int


@dataclass
class _ChurningBroker:
    cluster: str
    name: str
    addr: str
    topics: dict[str, QueueData] = field(default_factory=dict)
    counter: int = 0


class Day:
    """The day of one server, played hour by hour.

    Args:
        store: an empty namespace.
        topics: how many each cluster has; all of its brokers have the same.
    """

    def __init__(self, store: Store, *, clusters: int = 4, brokers: int = 8, topics: int = 2500, seed: int = 1) -> None:
        self._store, self._random = store, Random(seed)
        self._routes, self._streams = RouteStore(store), StreamStore(store)
        self._names = 0
        self._clusters = [
            [_ChurningBroker(f"c{c}", f"broker-{c}-{b}", f"10.1.{c}.{b}:10911") for b in range(brokers)]
            for c in range(clusters)
        ]  # fmt: skip
        for cluster in self._clusters:
            known = {self._name(): self._queue_data() for _ in range(topics)}
            for broker in cluster:
                broker.topics = dict(known)

    @property
    def brokers(self) -> list[_ChurningBroker]:
        return [broker for cluster in self._clusters for broker in cluster]

    async def begin(self) -> None:
        """Every broker registers for the first time."""
        await self._store.init_namespace()
        for broker in self.brokers:
            await self._register_whole(broker)

    async def hour(self, number: int) -> None:
        for cluster in self._clusters:
            await self._change_topics(cluster)
        for beat in range(BEATS_AN_HOUR):
            await asyncio.gather(*map(self._beat, self.brokers))
            if beat % 20 == 10:
                broker = self.brokers[(number * 6 + beat // 20) % len(self.brokers)]
                await self._routes.unregister_broker(broker.cluster, broker.addr, broker.name)
                await self._register_whole(broker)
        while (await trim(self._streams, Settings())).more:
            pass

    async def memory(self) -> Memory:
        info = await self._store.client.info("memory")
        return Memory(info["used_memory"], info["used_memory_rss"])

    async def _change_topics(self, cluster: list[_ChurningBroker]) -> None:
        """Change a fiftieth of a cluster's topics, and replace another fiftieth by new ones."""
        names = list(cluster[0].topics)
        some = self._random.sample(names, len(names) // 25)
        changed, dropped = some[::2], some[1::2]
        new = {name: self._queue_data() for name in [*changed, *(self._name() for _ in dropped)]}
        for broker in cluster:
            for name in dropped:
                del broker.topics[name]
            broker.topics |= new
            await self._register(broker, new, dropped)

    async def _register_whole(self, broker: _ChurningBroker) -> None:
        await self._register(broker, broker.topics)

    async def _register(
        self, broker: _ChurningBroker, topics: dict[str, QueueData], dropped: Sequence[str] = ()
    ) -> None:
        head = await read_head(self._store)
        rev = await self._store.client.hget(keys.broker(self._store.namespace, broker.name), "rev")
        beat = await self._routes.heartbeat(broker.cluster, broker.name, 0, broker.addr, "another", _CHANNEL)
        broker.counter += 1
        registration = Registration(
            broker.cluster, broker.name, 0, broker.addr, data_version=DataVersion(broker.counter, 1, 0), topics={}
        )
        diff = RegistrationDiff(head.epoch, int(rev or 0), beat.n, head.config_rev, topics, dropped, [])
        written = await self._routes.register_broker(
            registration, diff, digest=str(broker.counter), channel=_CHANNEL, topic_count=len(broker.topics)
        )
        assert written.status == "OK", written

    async def _beat(self, broker: _ChurningBroker) -> None:
        beat = await self._routes.heartbeat(
            broker.cluster, broker.name, 0, broker.addr, str(broker.counter), _CHANNEL, 1
        )
        assert beat.same

    def _name(self) -> str:
        self._names += 1
        return f"t{self._names}-" + "x" * self._random.randrange(4, 120)

    def _queue_data(self) -> QueueData:
        return QueueData(self._random.choice((4, 8, 16, 128)), self._random.choice((4, 8, 16)), 6)
