"""The events of the change stream: one schema for the view, ``watch``, the audit and the pipeline.

Each entry of ``P:changes`` holds one field, ``e``: a JSON object with at least ``seq`` (counts every change of
a namespace, without a gap), ``ms`` (Redis time) and ``type``. Events hold new values, so applying one twice
changes nothing. A change of many topics comes in ``parts`` entries with consecutive ``seq``; only the whole
set counts (:class:`Parts`).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from registry.model import BrokerRow, QueueData

SCHEMA_VERSION = 1

BROKER_REGISTERED = "broker_registered"
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

REMOVALS = frozenset({BROKER_UNREGISTERED, BROKER_CLOSED, BROKER_EXPIRED, BROKER_REAPED})


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
    write_perm_set: broker_name, topics, rev. topic_deleted: topic, broker_names, rev.
    topic_registered: topic, queue_datas (by brokerName), rev.
    kv_put, kv_deleted: kv_namespace, key, value (None: the key is gone, the namespace there).
    config_set: config, config_rev.
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


_decoder = msgspec.json.Decoder(Change)


def decode_change(entry: bytes) -> Change:
    """One entry's ``e`` field as a Change.

    Raises:
        msgspec.DecodeError: not an event of this schema (also msgspec.ValidationError).
    """
    return _decoder.decode(entry)


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
