"""The events of the change stream: one schema for the view, ``watch``, the audit and the pipeline.

(The entries of the other two streams, and the table of all three: ``registry/journal.py``.)

Each entry of ``P:changes`` holds one field, ``e``: a JSON object with at least ``seq`` (counts every change of
a namespace, without a gap), ``ms`` (Redis time) and ``type``. Events hold new values, so applying one twice
changes nothing. A change of many topics comes in ``parts`` entries with consecutive ``seq``; only the whole
set counts (:class:`Parts`).

The schema of a namespace (its keys, what stands in them, these events) has a version, *major.minor*. Releases of one
major work on a namespace side by side, in any order, forth and back; another major is refused when it starts.

A minor only adds, and what it adds may be overlooked:

- members of events, and events of a new ``type`` with ``"ignorable":true``. An older release passes both over; an
  event of an unknown type that is not ignorable is an error (:class:`UnknownChange`), never a wrong table.
- fields of ``meta``, ``config``, ``broker:<brokerName>`` (no number) and ``live:<who>`` (not ``name:...``). Older
  scripts leave them alone, delete them with the whole row, and do not renew them: such a field carries the ``rev`` or
  ``n`` it was written at, and counts only while that is the row's. What stands in other keys is names and values alone.
- members of values that are written as a whole (queue data, mappings, entries of the other streams). An older release
  keeps what it does not change and drops the member with the value that it changes: absent must mean "not known".
- keys of its own, with a TTL or such that it is no harm when an older release leaves them behind its broker or topic.

A minor that keeps more of a registration mixes its number into the digest, so that no release takes a registration that
another one wrote for all there is to know. Everything else is a new major: it has a namespace of its own, brokers
register at the front ends of both, and the older ones are then stopped (README, "Upgrading").
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from registry.errors import RegistryError
from registry.model import BrokerRow, QueueData

SCHEMA_MAJOR = 1
SCHEMA_MINOR = 0

BROKER_REGISTERED = "broker_registered"
BROKER_REFUSED = "broker_refused"
BROKER_UNREGISTERED = "broker_unregistered"
BROKER_CLOSED = "broker_closed"
BROKER_EXPIRED = "broker_expired"
BROKER_REAPED = "broker_reaped"
WRITE_PERM_SET = "write_perm_set"
TOPIC_DELETED = "topic_deleted"
TOPIC_REGISTERED = "topic_registered"
KV_PUT = "kv_put"
KV_DELETED = "kv_deleted"
CONFIG_SET = "config_set"
STREAM_ALARM = "stream_alarm"

REMOVALS = frozenset({BROKER_UNREGISTERED, BROKER_CLOSED, BROKER_EXPIRED, BROKER_REAPED})
TYPES = REMOVALS | {
    BROKER_REGISTERED, BROKER_REFUSED, WRITE_PERM_SET, TOPIC_DELETED, TOPIC_REGISTERED, KV_PUT, KV_DELETED, CONFIG_SET,
    STREAM_ALARM,
}  # fmt: skip


class UnknownChange(RegistryError):
    """An event that changed the tables in a way that this release does not know: only reading them anew helps."""

    def __init__(self, change: Change) -> None:
        super().__init__(
            f"event {change.seq} is a {change.type!r}, which this release (schema {SCHEMA_MAJOR}.{SCHEMA_MINOR}) "
            "neither knows nor may pass over"
        )


class Row(msgspec.Struct, frozen=True):
    """A broker row after the change."""

    cluster: str
    addrs: dict[int, str]
    zone: str | None = None
    acting: bool = False

    def broker_row(self, rev: int) -> BrokerRow:
        """The same as the tables hold it."""
        return BrokerRow(self.cluster, self.addrs, self.zone, self.acting, rev)


class Live(msgspec.Struct, frozen=True):
    """Live info after the change."""

    timeout_ms: int
    counter: int
    timestamp: int
    state_version: int
    ha: str | None = None


class Change(msgspec.Struct, frozen=True):
    """One event; which fields are set depends on ``type``.

    broker_*: broker_name, who, cluster, addr, broker_id; ``row`` is UNSET when the row did not change and None
    when the brokerName is gone with all its queue data; ``topics`` are new queue data of broker_name, ``dropped``
    topics that it lost. ``rev`` is the row's new revision.
    broker_refused (changes no route, ignorable): the process of who, which was alive, counts as not alive until it
    registers again, for its id is held by one with a higher stateVersion. It also counts so after a broker_unregistered
    that leaves it under another name.
    write_perm_set: broker_name, topics, rev. topic_deleted: topic, broker_names, rev.
    topic_registered: topic, queue_datas (by brokerName), rev.
    kv_put, kv_deleted: kv_namespace, key, value (None: the key is gone, the namespace there).
    config_set: config, config_rev.
    stream_alarm (changes no table, ignorable): alarm, reader, stream (None: silent, it is about the reader as a whole);
    lua/trim_streams says what the kinds of alarm are.
    ``at``: the bytes of all events of the namespace up to this one, itself included (None: an older release wrote it).
    ``ignorable``: whoever does not know the type passes it over.
    """

    seq: int
    ms: int
    type: str
    part: int = 1
    parts: int = 1
    broker_name: str = ""
    rev: int | None = None
    who: str | None = None
    cluster: str | None = None
    addr: str | None = None
    broker_id: int | None = None
    new: bool = False
    row: Row | msgspec.UnsetType | None = msgspec.UNSET
    live: Live | None = None
    topics: dict[str, QueueData] = {}
    dropped: list[str] = []
    filter_servers: list[str] | None = None
    mappings: list[tuple[str, str, str]] = []
    topic: str | None = None
    broker_names: list[str] = []
    queue_datas: dict[str, QueueData] = {}
    kv_namespace: str | None = None
    key: str | None = None
    value: str | None = None
    config: dict[str, str] = {}
    config_rev: int | None = None
    ignorable: bool = False
    alarm: str | None = None
    reader: str | None = None
    stream: str | None = None
    at: int | None = None


_decoder = msgspec.json.Decoder(Change)


def decode_change(entry: bytes) -> Change:
    """One entry's ``e`` field as a Change.

    Raises:
        msgspec.DecodeError: not an event of this schema (also msgspec.ValidationError).
    """
    return _decoder.decode(entry)


def with_topics(change: Change, topics: dict[str, QueueData]) -> Change:
    """The same with these topics; the dict is taken as it is."""
    return msgspec.structs.replace(change, topics=topics)


class Parts:
    """Collects the parts of one change until it is whole."""

    def __init__(self) -> None:
        self._waiting: list[Change] = []

    def add(self, change: Change) -> Iterator[Change]:
        """Give one event; yields the events that may be applied now: all parts of a change, or none."""
        if change.parts == 1:
            self._waiting.clear()
            yield change
            return
        if change.part == 1:
            self._waiting.clear()
        if change.part != len(self._waiting) + 1:
            return  # the reader began in the middle of this set
        self._waiting.append(change)
        if change.part == change.parts:
            whole, self._waiting = self._waiting, []
            yield from whole
