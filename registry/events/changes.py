"""The events of the change stream, one struct for each type: read by the view, ``watch``, the audit and the pipeline.

:mod:`mqregistry.events.cells` has the effect of each event on the tables. docs/events.md is the reference for readers
of the stream; :mod:`mqregistry.events.journal` has all three streams.

Each entry of ``P:changes`` has one field, ``e``: a JSON object with at least ``seq`` (counts the events of a namespace,
without a gap), ``ms`` (Redis time) and ``type``. Events have new values, so applying an event twice changes nothing. A
change of many topics comes in several events (``parts``) with consecutive ``seq``, which readers apply together
(:class:`Parts`).

The schema of a namespace (its keys, their contents, these events) has a version, *major.minor*. Releases of one
major work on a namespace side by side, in any order of upgrades and downgrades; a release of another major refuses to
start.

A minor only adds parts that older releases may ignore:

- members of events, and events of a new ``type`` with ``"ignorable":true``. An event of an unknown type that is not
  ignorable is an error (:class:`UnknownChange`), so no release gets wrong tables.
- fields of ``meta``, ``config``, ``broker:<brokerName>`` (no number) and ``live:<who>`` (not ``name:...``). Older
  scripts do not update such a field, and delete it with the whole row. So the field has the ``rev`` or ``n`` at which
  it was written, and counts only while the row has the same number. Other keys can get no new fields.
- members of values that are written as a whole (queue data, mappings, entries of the other streams). An older release
  drops the member when it changes the value: so a missing member must mean "not known".
- new keys, with a TTL, or harmless if an older release removes their broker or topic and leaves the keys.

A minor that stores more of a registration includes its number in the digest. So each release decodes a registration
again that another release stored. Every other change is a new major: it has a namespace of its own, brokers register at
the front ends of both, and then the older front ends are stopped (docs/operating.md, "Upgrading").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, get_args

import msgspec

from ..errors import RegistryError
from ..model import BrokerRow, QueueData
from .by import By

SCHEMA_MAJOR = 2
SCHEMA_MINOR = 3


class Row(msgspec.Struct, frozen=True):
    """A broker row after the change."""

    cluster: str
    addrs: dict[int, str]
    zone: str | None = None
    acting: bool = False

    def broker_row(self, rev: int) -> BrokerRow:
        """The row for the tables, with its revision."""
        return BrokerRow(self.cluster, self.addrs, self.zone, self.acting, rev)


class Live(msgspec.Struct, frozen=True):
    """Live info after the change."""

    timeout_ms: int
    counter: int
    timestamp: int
    state_version: int
    ha: str | None = None


class _Type:
    """The ``type`` of an event or of its class: the tag of the struct."""

    def __get__(self, change: Any, owner: type[Change]) -> str:
        tag = owner.__struct_config__.tag
        if tag is not None:
            return str(tag)
        return "" if change is None else str(change.unknown_type)  # "": this class is no event by itself


class Change(msgspec.Struct, frozen=True):
    """The members of all events."""

    seq: int  # counts the events of the namespace
    ms: int  # Redis time
    part: int = 1  # part, parts: of a change in several events, the number of this event, and of all
    parts: int = 1
    ignorable: bool = False  # a release that does not know the type ignores it
    # at, by, chain and after are in every entry of the stream; None: the event was made in this process
    at: int | None = None  # the bytes of all events of the namespace up to and including this event
    by: By | None = None  # who caused it
    # a hash of this event and all earlier events: two histories with the same chain are equal up to this event
    chain: str | None = None
    after: str | None = None  # the chain of the previous event
    # set if it restores a change that Redis had lost: the number of losses, and the last seq, that the worker knew
    knew: tuple[int, int] | None = None

    type = _Type()


class BrokerChange(Change, frozen=True):
    """An event of one broker process under one brokerName."""

    broker_name: str = ""
    rev: int | None = None  # the row's new revision, None: it did not change
    # the process, <cluster>|<brokerAddr>. None: the process stays alive and only lost an id; or the event is from the
    # pipeline's snapshot and only about the brokerName
    who: str | None = None
    cluster: str | None = None
    addr: str | None = None
    broker_id: int | None = None


class BrokerRegistered(BrokerChange, frozen=True, tag="broker_registered"):
    """A registration (103) that changed something."""

    new: bool = False  # the broker process was not alive before
    row: Row | msgspec.UnsetType = msgspec.UNSET  # UNSET: it did not change
    live: Live | None = None
    topics: dict[str, QueueData] = {}  # new queue data of the brokerName
    dropped: list[str] = []  # topics that the brokerName lost
    filter_servers: list[str] | None = None  # None: they did not change
    mappings: list[tuple[str, str, str]] = []  # topic, brokerName, JSON text of each new static-topic mapping


class BrokerRefused(BrokerChange, frozen=True, tag="broker_refused"):
    """A registration was refused: a process with a higher stateVersion has its id. Changes no route, ignorable.

    The process ``who`` was alive; it no longer counts as alive until it registers again.
    """


class BrokerRemoved(BrokerChange, frozen=True):
    """A process left a brokerName; the type of the event says why."""

    # UNSET: it did not change; None: the brokerName was removed with all its queue data
    row: Row | msgspec.UnsetType | None = msgspec.UNSET
    topics: dict[str, QueueData] = {}  # queue data that lost its write permission with the last master


class BrokerUnregistered(BrokerRemoved, frozen=True, tag="broker_unregistered"):
    """The broker unregistered (104)."""


class BrokerLost(BrokerRemoved, frozen=True):
    """The process did not unregister; ``cause``: what showed its end, see docs/events.md. "" = not known."""

    cause: str = ""


class BrokerClosed(BrokerLost, frozen=True, tag="broker_closed"):
    """The last connection of the process was closed, by the process or by the network."""


class BrokerExpired(BrokerLost, frozen=True, tag="broker_expired"):
    """The process sent no heartbeat for its timeout."""


class BrokerReaped(BrokerLost, frozen=True, tag="broker_reaped"):
    """The process closed a connection, the worker of its last connection ended, and it sent no heartbeat since."""


class WritePermSet(Change, frozen=True, kw_only=True, tag="write_perm_set"):
    """The write permission of a brokerName's topics was wiped or given back (205, 327; 104 without a master)."""

    broker_name: str
    rev: int | None = None
    topics: dict[str, QueueData] = {}


class TopicDeleted(Change, frozen=True, kw_only=True, tag="topic_deleted"):
    """A topic was removed from these brokerNames (216)."""

    topic: str
    broker_names: list[str] = []
    rev: int | None = None
    before: dict[str, QueueData] = {}  # its queue data until now, by brokerName; {} for more than 500 brokerNames


class TopicRegistered(Change, frozen=True, kw_only=True, tag="topic_registered"):
    """An operator set queue data of a topic (217); ``queue_datas``: by brokerName."""

    topic: str
    queue_datas: dict[str, QueueData] = {}
    rev: int | None = None


class KvPut(Change, frozen=True, kw_only=True, tag="kv_put"):
    """A KV value was set (100); key None: the kv namespace exists now."""

    kv_namespace: str
    key: str | None = None
    value: str | None = None


class KvDeleted(Change, frozen=True, kw_only=True, tag="kv_deleted"):
    """A key was deleted; its kv namespace stays (102)."""

    kv_namespace: str
    key: str | None = None


class ConfigSet(Change, frozen=True, tag="config_set"):
    """The shared configuration of all front ends was changed (318); ``config``: the new values."""

    config: dict[str, str] = {}
    config_rev: int | None = None


class StreamAlarm(Change, frozen=True, tag="stream_alarm"):
    """A reader of a stream will soon lose entries, or lost some. Changes no table, ignorable."""

    alarm: str | None = None  # its kind, see lua/trim_streams
    reader: str | None = None
    stream: str | None = None  # None: the alarm is about all streams (silent)


class AuthChanged(Change, frozen=True, tag="auth_changed"):
    """Users, rules or the mode of authentication were changed. Changes no table, ignorable."""

    revision: int = 0  # of the policy, which only Redis has, for processes that may read it


class LaterChange(Change, frozen=True):
    """An event of a type that this release does not know."""

    unknown_type: str = msgspec.field(default="", name="type")


Event = (
    BrokerRegistered | BrokerRefused | BrokerUnregistered | BrokerClosed | BrokerExpired | BrokerReaped
    | WritePermSet | TopicDeleted | TopicRegistered | KvPut | KvDeleted | ConfigSet | StreamAlarm
    | AuthChanged
)  # fmt: skip
EVENTS: Final[tuple[type[Change], ...]] = get_args(Event)
TYPES: Final = frozenset(event.type for event in EVENTS)


class UnknownChange(RegistryError):
    """An event with an effect that this release does not know."""

    def __init__(self, change: Change) -> None:
        super().__init__(
            f"event {change.seq} is a {change.type!r}, which this release (schema {SCHEMA_MAJOR}.{SCHEMA_MINOR}) "
            "neither knows nor may pass over"
        )


_decoder: msgspec.json.Decoder[Change] = msgspec.json.Decoder(Event)
_later_decoder = msgspec.json.Decoder(LaterChange)


def decode_change(entry: bytes) -> Change:
    """Decode an entry's ``e`` field into the struct of its type, or LaterChange if this release does not know the type.

    Raises:
        msgspec.DecodeError, UnicodeDecodeError: not an event of this schema (also msgspec.ValidationError).
    """
    try:
        return _decoder.decode(entry)
    except msgspec.ValidationError:
        later = _later_decoder.decode(entry)
        if not later.unknown_type or later.unknown_type in TYPES:
            raise
        return later


# JSON escapes quotes within a string, so no string contains these texts.
_TOPICS: Final = b',"topics":'
_BEHIND_TOPICS: Final = b',"at":'
_LARGE_BYTES: Final = 4096
_topics_decoder: Final = msgspec.json.Decoder(dict[str, QueueData])


class ChangeDecoder:
    """Decodes entries of the change stream, and equal topics of several entries only once.

    When a whole fleet registers, the brokers of a cluster mostly send the same topics. The events share one dict of
    these topics, so nobody may change it.

    Args:
        most_bytes: of the texts of topics that are kept; the decoded topics take about five times as much.
    """

    def __init__(self, most_bytes: int = 3 << 20) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._known: dict[bytes, dict[str, QueueData]] = {}

    def decode(self, entry: bytes) -> Change:
        """As :func:`decode_change`."""
        begin, end = entry.find(_TOPICS), entry.rfind(_BEHIND_TOPICS)
        if begin < 0 or end - begin < _LARGE_BYTES:
            return decode_change(entry)
        text = entry[begin + len(_TOPICS) : end]
        topics = self._known.pop(text, None)
        try:
            head = decode_change(entry[:begin] + entry[end:])
            if topics is None:
                topics = _topics_decoder.decode(text)
                self._bytes += len(text)
            self._known[text] = topics  # at the end: the least recently used comes first
            while self._bytes > self._most_bytes:
                oldest = next(iter(self._known))
                self._bytes -= len(oldest)
                del self._known[oldest]
            return msgspec.structs.replace(head, topics=topics)
        except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
            # our scripts did not write this entry, or its type has no topics
            self.forget()
            return decode_change(entry)

    def forget(self) -> None:
        """Forget the topics of all earlier entries."""
        self._known.clear()
        self._bytes = 0


def may_pass_over(change: Change) -> bool:
    """Whether a reader may continue after an event that it does not apply."""
    return change.ignorable or not isinstance(change, LaterChange)


class Parts:
    """Collects the parts (events) of one change until it is complete."""

    def __init__(self) -> None:
        self._waiting: list[Change] = []

    def add(self, change: Change) -> Iterator[Change]:
        """Add one event; yields the events that may be applied now: all parts of a change, or none."""
        if change.parts == 1:
            self._waiting.clear()
            yield change
            return
        if change.part == 1:
            self._waiting.clear()
        if change.part != len(self._waiting) + 1:
            return  # the reader began in the middle of this change
        self._waiting.append(change)
        if change.part == change.parts:
            whole, self._waiting = self._waiting, []
            yield from whole
