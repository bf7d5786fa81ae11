"""Changes, times, permissions and lists of names in words, for people who read a terminal or a page."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from ..events import changes
from ..events.changes import BrokerChange, Change
from ..model import PERM_READ, PERM_WRITE, QueueData
from .language import marked, say, say_number
from .time_zone import local_datetime

_NAMES_SHOWN: Final = 5


def what(change: Change) -> str:
    """What a change was made to, on one line."""
    match change:
        case changes.KvPut() | changes.KvDeleted():
            value = f" = {change.value}" if isinstance(change, changes.KvPut) and change.value is not None else ""
            return f"{change.kv_namespace}/{change.key}{value}"
        case changes.ConfigSet():
            return ", ".join(f"{key}={value}" for key, value in change.config.items())
        case changes.AuthChanged():
            return say("revision {number}", number=change.revision)
        case changes.StreamAlarm():
            told = say("reader {reader}: {alarm}", reader=change.reader, alarm=change.alarm)
            return told + (say(" on {stream}", stream=change.stream) if change.stream else "")
        case changes.TopicDeleted():
            return say("{name} at {places}", name=change.topic, places=some_of(change.broker_names))
        case changes.TopicRegistered():
            return say("{name} at {places}", name=change.topic, places=some_of(list(change.queue_datas)))
        case changes.WritePermSet():
            return change.broker_name + _topics(change.topics)
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
    if isinstance(change, changes.BrokerRegistered):
        text += say("; new") if change.new else ""
        text += _topics(change.topics)
        text += _topics(change.dropped, marked("; dropped {number} topic(s): {names}"))
    elif isinstance(change, changes.BrokerRemoved):
        text += say("; the broker name is gone with its topics") if change.row is None else ""
        text += _topics(change.topics)
    return text


def _topics(topics: Collection[str], sentence: str = marked("; {number} topic(s): {names}")) -> str:
    return say(sentence, number=len(topics), names=some_of(list(topics))) if topics else ""


def perm(value: int) -> str:
    """A permission as RocketMQ writes it, with its meaning: ``6 RW``."""
    letters = ("R" if value & PERM_READ else "") + ("W" if value & PERM_WRITE else "")
    return f"{value} {letters or '-'}"


def queues_text(data: QueueData) -> str:
    """The queues of a topic at a broker name, with its permission there."""
    return say("{read} read, {write} write, {perm}", read=data.read_queue_nums, write=data.write_queue_nums,
               perm=perm(data.perm))  # fmt: skip


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
    """The first few names in alphabetical order, and how many more there are."""
    return some_of(sorted(names))


def some_of(names: Sequence[str]) -> str:
    """The first few names in the given order, and how many more there are."""
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (say(" and {number} more", number=more) if more > 0 else "")


def counted(number: int, what: str, plural: str = "") -> str:
    """``1 topic``, ``2 topics``."""
    return say_number(f"{{number}} {what}", f"{{number}} {plural or what + 's'}", number)
