"""Changes of the route tables: one method a script, typed arguments and results."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from registry.behaviour import behaviour_of
from registry.model import DEFAULT_HEARTBEAT_TIMEOUT_MS, DataVersion, QueueData, Registration
from registry.store import keys
from registry.store.sent import Sent, SentTopics
from registry.store.store import Store, text
from registry.tables import Cells, PlacedTopics, Standing

# At most this many topics stand in one event (10,000 would be 520 kB).
TOPICS_PER_EVENT = 500

# What a heartbeat timeout may be: Java adds it to a long and overflows, Redis refuses such a TTL.
_TIMEOUT_MS = (1, 10**12)

_encode = msgspec.json.encode
_pack = msgspec.msgpack.encode
_flat = itertools.chain.from_iterable


class Channel(NamedTuple):
    """The connection that a broker speaks over: ``value`` is ``<worker incarnation>/<connection>@<opened_ms>``.

    opened_ms is the clock of the machine that the front end's workers share.
    """

    front_end: str
    value: str


NO_CHANNEL = Channel("", "")


class Heartbeat(NamedTuple):
    """What the heartbeat script says.

    same: the registration is the one of last time; master_addr and ha_server_addr then answer it.
    Otherwise n and data_version (None: the broker is not known) are what a full registration compares with.
    """

    same: bool
    seq: int
    master_addr: str = ""
    ha_server_addr: str = ""
    n: str = "0"
    data_version: DataVersion | None = None


class EncodedTopics(NamedTuple):
    """Up to TOPICS_PER_EVENT topics as the script wants them: packed keys and queue data, and the event's body."""

    topics: dict[str, QueueData]
    cells: bytes
    body: bytes


class RegistrationDiff(NamedTuple):
    """What a registration changes, as computed against the tables at (epoch, rev, n, config_rev).

    before: what each of ``topics`` replaces in those tables, in their order, None where there was nothing; the whole
    is None when that is not known, and the script then asks for each key's type before it writes.
    place: where each of ``topics``, all of them known, stands in tables that follow the change stream; may be left out.
    encoded: ``topics``, if they are encoded already, by :meth:`RouteStore.encode`; their order is that of ``before``.
    """

    epoch: str
    rev: int
    n: str
    config_rev: int
    topics: dict[str, QueueData]
    dropped: Sequence[str]
    mappings: Sequence[tuple[str, str, str]]
    before: Sequence[QueueData | None] | None = None
    place: tuple[Standing, Sequence[Cells]] | None = None
    encoded: Sequence[EncodedTopics] | None = None


class Registered(NamedTuple):
    """Outcome of register_broker; n and data_version are set for RETRY alone."""

    status: Literal["OK", "RETRY", "REFRESHED", "REFUSED_STATE", "REFUSED_ONE_TOPIC"]
    seq: int
    master_addr: str = ""
    ha_server_addr: str = ""
    changed: bool = False
    n: str = "0"
    data_version: DataVersion | None = None


class Touched(NamedTuple):
    """Outcome of a heartbeat without registration; data_version None: the broker is not known.

    refreshed: it counted as a sign of life.
    """

    seq: int
    data_version: DataVersion | None
    refreshed: bool = False


def _data_version(counter: bytes, timestamp: bytes, state_version: bytes) -> DataVersion | None:
    return DataVersion(int(counter), int(timestamp), int(state_version)) if counter else None


class RouteStore:
    """The route tables' write side; ``behaviour`` is that of the store's compat mode."""

    def __init__(self, store: Store) -> None:
        self._call = store.call
        self.behaviour = behaviour_of(store.compat)
        self._live_by_cluster = self.behaviour.live_by_cluster
        self._topic_prefix = keys.topic(store.namespace, "")
        self.sent = SentTopics()
        """For the ChangeReader of this process."""

    async def heartbeat(
        self, cluster: str, broker_name: str, broker_id: int, broker_addr: str, digest: str,
        channel: Channel = NO_CHANNEL, body_bytes: int = 0,
    ) -> Heartbeat:  # fmt: skip
        """Ask whether this is the same registration as last time. One round trip, O(1)."""
        reply = await self._call(
            "heartbeat", self.behaviour.who(cluster, broker_addr), cluster if self._live_by_cluster else "",
            broker_name, broker_id, digest, *channel, body_bytes,
        )  # fmt: skip
        if reply[0] == b"SAME":
            return Heartbeat(True, reply[1], text(reply[2]), text(reply[3]))
        return Heartbeat(False, reply[1], n=reply[2].decode(), data_version=_data_version(*reply[3:6]))

    async def register_broker(
        self, registration: Registration, diff: RegistrationDiff, *, digest: str = "",
        channel: Channel = NO_CHANNEL, body_bytes: int = 0, topics: int | None = None,
        default_timeout_ms: int = DEFAULT_HEARTBEAT_TIMEOUT_MS,
    ) -> Registered:  # fmt: skip
        """Write a registration's difference, if what it was compared with still stands. O(topics of the diff).

        Args:
            topics: how many it names, when ``registration`` holds only some of them.
        """
        r, version = registration, registration.data_version
        one_topic = (len(r.topics) if topics is None else topics) == 1 and self.behaviour.refuses_first_single_topic
        encoded = diff.encoded if diff.encoded is not None else [self.encode(part) for part in cut(diff)]
        # Topics that are new are decoded from the event again: texts that stay in the tables for ever, taken out of
        # the middle of a large body that goes, leave holes, and later bodies are decoded into those, at half the speed.
        # Not so where somebody else keeps those texts.
        sent = None
        if (diff.place or diff.encoded is not None) and len(encoded) > 1:
            sent = Sent(r.broker_name, [part.body for part in encoded], [part.topics for part in encoded])
        before = b"" if diff.before is None else _pack(diff.before if any(diff.before) else ())
        filters = r.filter_servers
        timeout_ms = default_timeout_ms if r.heartbeat_timeout_ms is None else r.heartbeat_timeout_ms
        if sent is not None:
            self.sent.add(sent)
        try:
            reply = await self._call(
                "register_broker",
                self.behaviour.who(r.cluster, r.broker_addr), diff.epoch, diff.rev, diff.n, diff.config_rev,
                r.cluster, r.broker_name, r.broker_id, r.broker_addr, r.ha_server_addr or "", r.zone_name or "",
                "1" if r.enable_acting_master else "0", min(max(timeout_ms, _TIMEOUT_MS[0]), _TIMEOUT_MS[1]),
                version.counter, version.timestamp, version.state_version,
                digest, *channel, body_bytes, "1" if one_topic else "0",
                -1 if filters is None else len(filters), len(encoded), len(diff.dropped), len(diff.mappings),
                before, *(filters or ()), *_flat((part.cells, part.body) for part in encoded), *diff.dropped,
                *_flat(diff.mappings),
            )  # fmt: skip
        except BaseException:
            if sent is not None:
                self.sent.drop(sent)
            raise
        status = reply[0].decode()
        if sent is not None and status != "OK":
            self.sent.drop(sent)
        if status in ("OK", "REFRESHED"):
            changed = status == "OK" and reply[4] == 1
            return Registered(status, reply[1], text(reply[2]), text(reply[3]), changed)
        if status == "RETRY":
            return Registered(
                status, reply[1], n=reply[2].decode(), data_version=_data_version(*reply[3:6])
            )  # fmt: skip
        return Registered(status, reply[1])

    def encode(self, topics: dict[str, QueueData]) -> EncodedTopics:
        """Encode no more topics than an event holds.

        Keys and queue data travel as one argument (MessagePack): 20,000 arguments would cost redis-py, and the Redis
        parser, more than the script itself. Nothing here is done topic by topic in Python but the keys.
        """
        # queue data is numbers alone, so this text stands only between two of them
        queue_datas = _encode(list(topics.values()))[1:-1].decode().replace("},{", "}\n{").split("\n")
        prefix = self._topic_prefix
        cells = _pack(([prefix + topic for topic in topics], queue_datas))
        return EncodedTopics(topics, cells, _encode(topics)[1:-1])

    async def touch_broker(
        self,
        cluster: str,
        broker_addr: str,
        channel: Channel = NO_CHANNEL,
        body_bytes: int = 0,
        *,
        only_version: DataVersion | None = None,
    ) -> Touched:
        """A heartbeat without registration (322, 904). One round trip, O(1).

        Args:
            only_version: it counts only if this is the broker's data version; None: always.
        """
        v = only_version
        reply = await self._call(
            "touch_broker", self.behaviour.who(cluster, broker_addr), *channel, body_bytes,
            "" if v is None else f"{v.counter} {v.timestamp} {v.state_version}",
        )  # fmt: skip
        known = reply[0] != b"UNKNOWN"
        return Touched(reply[1], _data_version(*reply[2:5]) if known else None, reply[0] == b"OK")

    async def unregister_broker(
        self, cluster: str, broker_addr: str, broker_name: str, broker_id: int | None = None
    ) -> int:
        """A broker leaves (104); returns the seq from which the tables show it.

        Args:
            broker_id: says who goes in a namespace of compat 4.8, where the address only ends a live info.
        """
        if self.behaviour.unregisters_by_id and broker_id is not None:
            identity = self.behaviour.who(cluster, broker_addr)
            reply = await self._call("unregister_broker_id", identity, broker_addr, broker_name, broker_id, cluster)
        else:
            scope = cluster if self._live_by_cluster else ""
            reply = await self._call("unregister_broker", scope, broker_addr, broker_name)
        return int(reply[1])

    async def channel_destroyed(self, broker: str, channel: Channel) -> str:
        """A broker's connection closed; REMOVED, KEPT or STALE."""
        return text((await self._call("channel_destroyed", broker, *channel))[0])

    async def set_write_perm(self, broker_name: str, mode: Literal["wipe", "add"]) -> tuple[int, int]:
        """Wipe or add write permission; returns (seq, topics of the brokerName)."""
        _, seq, count = await self._call("set_write_perm", broker_name, mode)
        return seq, count

    async def delete_topic(self, topic: str, cluster: str = "") -> int:
        """Delete a topic, everywhere or from one cluster's brokers (5.x); returns the seq."""
        if not self.behaviour.deletes_in_one_cluster:
            cluster = ""
        return int((await self._call("delete_topic", topic, cluster))[1])

    async def register_topic(self, topic: str, queue_datas: Iterable[tuple[str, QueueData]]) -> int:
        """Give a topic queues at known brokers (217); returns the seq."""
        flat: list[Any] = []
        for broker_name, queue_data in queue_datas:
            flat += (broker_name, _encode(queue_data))
        return int((await self._call("register_topic", topic, *flat))[1])


def cut(diff: RegistrationDiff) -> list[dict[str, QueueData]]:
    """The topics of a difference, as many together as one event holds."""
    topics, place = diff.topics, diff.place
    if len(topics) <= TOPICS_PER_EVENT:
        return [topics] if topics else []
    items, starts = iter(topics.items()), range(0, len(topics), TOPICS_PER_EVENT)
    if place is None:
        return [dict(itertools.islice(items, TOPICS_PER_EVENT)) for _ in starts]
    standing, cells = place
    return [
        PlacedTopics(itertools.islice(items, TOPICS_PER_EVENT), cells[at : at + TOPICS_PER_EVENT], standing)
        for at in starts
    ]
