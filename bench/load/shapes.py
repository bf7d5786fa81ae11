"""The tables that servers are filled with: clusters, brokers, topics, their frames, and the check of an answer.

A route's body does not name its topic. So every topic has queue numbers of its own: an answer for a different topic is
noticed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from pathlib import Path

from bench.load import plan
from mqregistry.errors import RemoteProtocolError
from mqregistry.model import BrokerRow, DataVersion, QueueData, TopicRoute
from mqregistry.protocol.bodies.register import encode_register_body
from mqregistry.protocol.bodies.register_content import RegisterBody
from mqregistry.protocol.bodies.route import decode_route, encode_route
from mqregistry.protocol.command import Command
from mqregistry.protocol.headers import RegisterBroker, UnregisterBroker

VERSION = 479  # what brokers and clients of 5.3.3 send
PERM = 6
CHANGED = 1000
"""How many more read queues a changed topic has."""


class Variant(IntEnum):
    """The requests that a broker may send."""

    BASE = 0
    ONE = 1  # one topic changed against BASE
    TEN = 2
    ALL = 3
    LEAVE = 4  # 104


@dataclass(frozen=True)
class ShapeBroker:
    name: str
    addr: str
    cluster: str
    topics: tuple[int, ...]
    """Numbers of its topics."""


@dataclass(frozen=True)
class TableShape:
    """Which topics each broker has. ten_by, all_by: how many brokers have the long variants TEN and ALL.

    timeout_ms: how long a broker may be silent before it expires; None: two minutes.
    """

    name: str
    what: str
    topics: tuple[str, ...]
    brokers: tuple[ShapeBroker, ...]
    ten_by: int = 0
    all_by: int = 0
    timeout_ms: int | None = None

    @cached_property
    def owners(self) -> dict[int, list[ShapeBroker]]:
        """Topic number -> its brokers."""
        owners: dict[int, list[ShapeBroker]] = {}
        for broker in self.brokers:
            for number in broker.topics:
                owners.setdefault(number, []).append(broker)
        return owners

    def queue_numbers(self, number: int) -> tuple[int, int]:
        """Read and write queues of a topic; no other topic has the same two numbers."""
        return 1 + number % 200, 1 + number // 200

    def queue_data(self, number: int, changed: bool = False) -> QueueData:
        read, write = self.queue_numbers(number)
        return QueueData(read + (CHANGED if changed else 0), write, PERM)

    def wrongs(self, number: int, answer: plan.CheckedAnswer, may_change: bool = False) -> str:
        """What is wrong with the answer to a lookup of this topic; "" if it is right.

        may_change: topics are changed meanwhile, so the queue numbers of the changed topic are right, too.
        """
        if answer.code != 0:
            return f"{self.topics[number]}: code {answer.code}"
        try:
            route = decode_route(answer.body)
        except RemoteProtocolError as error:
            return f"{self.topics[number]}: {error}"
        owners = self.owners[number]
        addrs = {name: row.broker_addrs for name, row in route.broker_rows.items()}
        if addrs != {broker.name: {0: broker.addr} for broker in owners}:
            return f"{self.topics[number]}: brokers {addrs}"
        read, write = self.queue_numbers(number)
        right = {QueueData(read, write, PERM, 0)}
        if may_change:
            right.add(QueueData(read + CHANGED, write, PERM, 0))
        if route.queue_datas.keys() != addrs.keys() or not right.issuperset(route.queue_datas.values()):
            return f"{self.topics[number]}: queues {route.queue_datas}"
        return ""

    def changed_topics(self, broker: ShapeBroker, variant: Variant) -> frozenset[int]:
        count = {Variant.ONE: 1, Variant.TEN: 10, Variant.ALL: len(broker.topics)}.get(variant, 0)
        return frozenset(broker.topics[:count])

    def commands(self, place: int) -> list[Command | None]:
        """Every variant of one broker; None for a variant that it does not have."""
        broker = self.brokers[place]
        wanted = {
            Variant.BASE: True,
            Variant.ONE: place < self.all_by,
            Variant.TEN: place < self.ten_by,
            Variant.ALL: place < self.all_by,
        }
        return [
            *(self.registration(broker, variant) if wanted[variant] else None for variant in wanted),
            Command(
                code=104,
                opaque=plan.OPAQUE,
                version=VERSION,
                ext_fields=UnregisterBroker(
                    broker_name=broker.name, broker_addr=broker.addr, cluster_name=broker.cluster, broker_id=0
                ).to_ext_fields(),
            ),
        ]

    def registration(self, broker: ShapeBroker, variant: Variant) -> Command:
        changed = self.changed_topics(broker, variant)
        topics = {self.topics[number]: self.queue_data(number, number in changed) for number in broker.topics}
        version = DataVersion(plan.COUNTER, 1_700_000_000_000, 0)
        body = encode_register_body(RegisterBody(data_version=version, topics=topics))
        header = RegisterBroker(
            broker_name=broker.name,
            broker_addr=broker.addr,
            cluster_name=broker.cluster,
            ha_server_addr=broker.addr.replace(":10911", ":10912"),
            broker_id=0,
            heartbeat_timeout_millis=self.timeout_ms,
            enable_acting_master=False,
        )
        ext_fields = {**header.to_ext_fields(), "bodyCrc32": "0" * 10}
        return Command(code=103, opaque=plan.OPAQUE, version=VERSION, ext_fields=ext_fields, body=body)

    def route_bytes(self) -> int:
        """The size of the first topic's route in our encoding."""
        read, write = self.queue_numbers(0)
        route = TopicRoute(
            {broker.name: QueueData(read, write, PERM, 0) for broker in self.owners[0]},
            {broker.name: BrokerRow(broker.cluster, {0: broker.addr}) for broker in self.owners[0]},
            {},
        )
        return len(encode_route(route, quoted_keys=True))

    def write(self, folder: Path) -> tuple[Path, Path]:
        """The generator's files: lookups (in the order of the topics) and registrations."""
        lookups, registrations = folder / f"{self.name}.lookups", folder / f"{self.name}.registrations"
        if not registrations.exists():
            plan.write_lookups(lookups, [plan.lookup(topic, VERSION) for topic in self.topics])
            brokers: Iterator[list[Command | None]] = (self.commands(place) for place in range(len(self.brokers)))
            partial = registrations.with_suffix(".partial")
            plan.write_registrations(partial, brokers, len(self.brokers), len(Variant))
            partial.rename(registrations)
        return lookups, registrations


def clusters(
    name: str, what: str, count: int, brokers_each: int, topics_each: int, ten_by: int = 0, all_by: int = 0
) -> TableShape:
    """Clusters whose topics are on all of their brokers."""
    topics, brokers = [], []
    for cluster in range(count):
        numbers = tuple(range(cluster * topics_each, (cluster + 1) * topics_each))
        topics += [f"topic-{cluster:02}-{number - numbers[0]:05}" for number in numbers]
        brokers += [
            ShapeBroker(
                f"broker-{cluster:02}-{place}", f"10.1.{cluster}.{place + 1}:10911", f"cluster-{cluster:02}", numbers
            )
            for place in range(brokers_each)
        ]
    return TableShape(name, what, tuple(topics), tuple(brokers), ten_by, all_by)


def narrow(name: str, what: str, count: int, brokers: int, width: int) -> TableShape:
    """One cluster in which every topic is on `width` of the brokers."""
    mine: Mapping[int, list[int]] = {place: [] for place in range(brokers)}
    for number in range(count):
        for k in range(width):
            mine[(number + k) % brokers].append(number)
    return TableShape(
        name,
        what,
        tuple(f"topic-{number:05}" for number in range(count)),
        tuple(
            ShapeBroker(f"broker-{place}", f"10.0.0.{place + 1}:10911", "cluster", tuple(mine[place]))
            for place in range(brokers)
        ),
    )


S1 = narrow("S1", "100 topics on 4 of 10 brokers each", 100, 10, 4)
S2 = clusters("S2", "40,000 topics: 4 clusters × 8 brokers × 10,000 topics", 4, 8, 10_000, ten_by=32, all_by=1)
GROWTH = (
    clusters("S8-10k", "10,000 topics, 8 brokers", 1, 8, 10_000, all_by=1),
    clusters("S8-40k", "40,000 topics, 32 brokers", 4, 8, 10_000, all_by=1),
    clusters("S8-160k", "160,000 topics, 128 brokers", 16, 8, 10_000, all_by=1),
)
