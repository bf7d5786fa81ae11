"""Changes, times, permissions and lists of names in words, for people who read a terminal or a page."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from ..events.changes import (
    AuthChanged,
    BrokerChange,
    BrokerRegistered,
    BrokerRemoved,
    Change,
    ConfigSet,
    KvDeleted,
    KvPut,
    StreamAlarm,
    TopicDeleted,
    TopicRegistered,
    WritePermSet,
)
from ..model import PERM_READ, PERM_WRITE
from .zone import local_datetime

_NAMES_SHOWN: Final = 5


def what(change: Change) -> str:
    """What a change was made to, on one line."""
    match change:
        case KvPut() | KvDeleted():
            value = f" = {change.value}" if isinstance(change, KvPut) and change.value is not None else ""
            return f"{change.kv_namespace}/{change.key}{value}"
        case ConfigSet():
            return ", ".join(f"{key}={value}" for key, value in change.config.items())
        case AuthChanged():
            return f"revision {change.revision}"
        case StreamAlarm():
            return f"reader {change.reader}: {change.alarm}" + (f" on {change.stream}" if change.stream else "")
        case TopicDeleted():
            return f"{change.topic} at {some_of(change.broker_names)}"
        case TopicRegistered():
            return f"{change.topic} at {some_of(list(change.queue_datas))}"
        case WritePermSet():
            return change.broker_name + _topics("", change.topics)
        case BrokerChange():
            return _what_of_broker(change)
    return ""


def _what_of_broker(change: BrokerChange) -> str:
    facts = [change.broker_name if change.cluster is None else f"{change.cluster}/{change.broker_name}"]
    if change.broker_id is not None:
        facts.append(f"id {change.broker_id}")
    if change.addr is not None:
        facts.append(change.addr)
    text = " ".join(facts)
    if isinstance(change, BrokerRegistered):
        text += "; new" if change.new else ""
        text += _topics("", change.topics) + _topics("dropped ", change.dropped)
    elif isinstance(change, BrokerRemoved):
        text += "; the broker name is gone with its topics" if change.row is None else ""
        text += _topics("", change.topics)
    return text


def _topics(verb: str, topics: Collection[str]) -> str:
    return f"; {verb}{len(topics)} topic(s): {some_of(list(topics))}" if topics else ""


def perm(value: int) -> str:
    """A permission as RocketMQ writes it, with its meaning: ``6 RW``."""
    letters = ("R" if value & PERM_READ else "") + ("W" if value & PERM_WRITE else "")
    return f"{value} {letters or '-'}"


def moment(ms: int) -> str:
    """A time in the zone in use, to the millisecond."""
    return local_datetime(ms).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def duration(ms: float) -> str:
    """Milliseconds for a reader: ``850ms``, ``4.2s``, ``3m20s``, ``5h02m``."""
    if abs(ms) < 1000:
        return f"{ms:.0f}ms"
    seconds = ms / 1000
    if abs(seconds) < 60:
        return f"{seconds:.1f}s"
    sign, whole = ("-" if seconds < 0 else ""), int(abs(seconds))
    if whole < 3600:
        return f"{sign}{whole // 60}m{whole % 60:02}s"
    return f"{sign}{whole // 3600}h{whole % 3600 // 60:02}m"


def some(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    return some_of(sorted(names))


def some_of(names: Sequence[str]) -> str:
    """The same, in the order in which they are given."""
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def counted(number: int, what: str, plural: str = "") -> str:
    """``1 topic``, ``2 topics``."""
    return f"{number} {what if number == 1 else plural or what + 's'}"
