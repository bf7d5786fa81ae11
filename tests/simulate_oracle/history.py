"""The tables through time, replayed from the events of one namespace."""

from __future__ import annotations

import bisect
from collections import defaultdict
from typing import Any, Final

import msgspec

from mqregistry.events.cells import DropBroker, DropQueueData, SetQueueData, SetRow, operations
from mqregistry.events.changes import BrokerChange, decode_change
from mqregistry.model import QueueData
from tests.simulate_oracle.observe import Event

_WRITE: Final = 2


class Steps:
    """A condition through time: true or false from its first moment on. Moments never decrease."""

    def __init__(self) -> None:
        self._at: list[int] = []
        self._values: list[bool] = []

    def set(self, ms: int, value: bool) -> None:
        """The value from ``ms`` on; of several in one millisecond the last counts."""
        if self._at and self._at[-1] == ms:
            self._at.pop()
            self._values.pop()
        if not self._values or self._values[-1] != value:
            self._at.append(ms)
            self._values.append(value)

    @property
    def first_ms(self) -> int:
        """The first moment at which the value is known."""
        return self._at[0]

    def spells(self, value: bool) -> list[tuple[int, int | None]]:
        """The spans with this value, as (begin, end); end None: until now."""
        ends: list[int | None] = [*self._at[1:], None] if self._at else []
        return [(begin, end) for begin, end, was in zip(self._at, ends, self._values, strict=True) if was is value]

    def lasting(self, value: bool, start_ms: int, end_ms: int) -> int:
        """For how many milliseconds it had this value between two moments."""
        return sum(
            max(0, min(end_ms if end is None else end, end_ms) - max(begin, start_ms))
            for begin, end in self.spells(value)
        )

    def last_ms(self, value: bool, until_ms: int) -> int:
        """The last moment up to ``until_ms`` at which it had this value; -1: never."""
        latest = -1
        for begin, end in self.spells(value):
            if begin <= until_ms:
                latest = until_ms if end is None else min(until_ms, end - 1)
        return latest


class _Cells:
    """The value of each of some keys through time; None: it is not there."""

    def __init__(self) -> None:
        self._at: defaultdict[Any, list[int]] = defaultdict(list)
        self._values: defaultdict[Any, list[Any]] = defaultdict(list)
        self.now: dict[Any, Any] = {}

    def set(self, ms: int, key: Any, value: Any) -> None:
        self._at[key].append(ms)
        self._values[key].append(value)
        if value is None:
            self.now.pop(key, None)
        else:
            self.now[key] = value

    def at(self, key: Any, ms: int) -> Any:
        place = bisect.bisect_right(self._at[key], ms) - 1
        return self._values[key][place] if place >= 0 else None

    def keys(self) -> list[Any]:
        return sorted(self._at)


class History:
    """Every broker and topic from its first event on.

    present: brokerName -> has it an address; writable: and one under id 0, and a topic that takes messages.
    routable: topic -> has it queues anywhere; topic_writable: at a broker that is writable for it.
    events: brokerName -> (moment, type). queue_changes: (moment, topic, cluster), one for each queue data that began
    or ended.
    """

    def __init__(self, events: list[Event]) -> None:
        self.present: dict[str, Steps] = {}
        self.writable: defaultdict[str, Steps] = defaultdict(Steps)
        self.routable: dict[str, Steps] = {}
        self.topic_writable: dict[str, Steps] = {}
        self.events: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        self.queue_changes: list[tuple[int, str, str]] = []
        self._rows = _Cells()  # brokerName -> (cluster, addresses)
        self._queues = _Cells()  # (brokerName, topic) -> queue data
        self._topics_of: defaultdict[str, set[str]] = defaultdict(set)
        self._brokers_of: defaultdict[str, set[str]] = defaultdict(set)
        self._clusters: dict[str, str] = {}
        now_ms = 0
        for event in events:
            now_ms = max(now_ms, event["ms"])
            self._apply(now_ms, event)

    def cluster_at(self, name: str, ms: int) -> str:
        """The cluster of the brokerName's row; of the last one it had, when it is gone."""
        before = [row for row in self._rows_until(name, ms) if row is not None]
        return before[-1][0] if before else ""

    def clusters(self) -> set[str]:
        """All that ever were."""
        return set(self._clusters.values())

    def cluster_lasting(self, cluster: str, start_ms: int, end_ms: int) -> bool:
        """Whether one of its brokers was present between two moments."""
        return any(
            self.present[name].lasting(True, start_ms, end_ms) for name, its in self._clusters.items() if its == cluster
        )

    def brokers_at(self, cluster: str, ms: int) -> list[str]:
        """Those that are present."""
        rows = ((name, self._rows.at(name, ms)) for name in self._rows.keys())  # noqa: SIM118 - no dict
        return [name for name, row in rows if row is not None and row[0] == cluster]

    def topics_at(self, name: str, ms: int) -> dict[str, int]:
        """Topic -> write queues, of one broker."""
        cells = ((topic, self._queues.at((name, topic), ms)) for topic in sorted(self._topics_of[name]))
        return {topic: data.write_queue_nums for topic, data in cells if data is not None}

    def queues_at(self, topic: str, ms: int) -> list[int]:
        """Write queues at each of its brokers."""
        cells = (self._queues.at((name, topic), ms) for name in sorted(self._brokers_of[topic]))
        return [data.write_queue_nums for data in cells if data is not None]

    def _rows_until(self, name: str, ms: int) -> list[Any]:
        return self._rows._values[name][: bisect.bisect_right(self._rows._at[name], ms)]

    def _apply(self, ms: int, event: Event) -> None:
        change = decode_change(msgspec.json.encode(event))
        if isinstance(change, BrokerChange) and change.broker_name:
            self.events[change.broker_name].append((ms, change.type))
        names, topics = set(), set()
        for operation in operations(change):
            match operation:
                case SetRow(name, row):
                    self._rows.set(ms, name, (row.cluster, row.addrs))
                    self._clusters[name] = row.cluster
                case DropBroker(name):
                    self._rows.set(ms, name, None)
                    held = {topic for topic in self._topics_of[name] if (name, topic) in self._queues.now}
                    topics |= held
                    for topic in sorted(held):
                        self._queue(ms, name, topic, None)
                case SetQueueData(name, queue_datas):
                    for topic, data in queue_datas.items():
                        self._queue(ms, name, topic, data)
                case DropQueueData(name, dropped):
                    for topic in dropped:
                        self._queue(ms, name, topic, None)
                case _:
                    continue
            names.add(name)
        for name in names:
            self._see_broker(ms, name)
        for topic in topics | {topic for name in names for topic in self._topics_of[name]}:
            self._see_topic(ms, topic)

    def _queue(self, ms: int, name: str, topic: str, data: QueueData | None) -> None:
        key = name, topic
        before = self._queues.now.get(key)
        if before == data:
            return
        ended_and_begun = (before is not None) + (data is not None)
        self.queue_changes += [(ms, topic, self._clusters.get(name, ""))] * ended_and_begun
        self._queues.set(ms, key, data)
        self._topics_of[name].add(topic)
        self._brokers_of[topic].add(name)

    def _takes_messages(self, name: str, topic: str) -> bool:
        row, data = self._rows.now.get(name), self._queues.now.get((name, topic))
        if row is None or 0 not in row[1] or data is None:
            return False
        return data.write_queue_nums > 0 and bool(data.perm & _WRITE)

    def _see_broker(self, ms: int, name: str) -> None:
        row = self._rows.now.get(name)
        is_present = row is not None and bool(row[1])
        if name not in self.present:
            if not is_present:
                return
            self.present[name] = Steps()
        self.present[name].set(ms, is_present)
        self.writable[name].set(ms, any(self._takes_messages(name, topic) for topic in self._topics_of[name]))

    def _see_topic(self, ms: int, topic: str) -> None:
        names = self._brokers_of[topic]
        self.routable.setdefault(topic, Steps()).set(ms, any((name, topic) in self._queues.now for name in names))
        self.topic_writable.setdefault(topic, Steps()).set(ms, any(self._takes_messages(name, topic) for name in names))
