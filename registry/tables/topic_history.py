"""Works out the route of one topic before and after each change, from the changes and the present tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ..events.cells import DropBroker, DropQueueData, SetQueueData, SetRow, operations
from ..events.changes import BrokerRemoved, Change, TopicDeleted
from ..model import BrokerRow, QueueData


class Place(NamedTuple):
    """A topic at one brokerName. None: unknown, because it was set before the first change that is at hand."""

    queue_data: QueueData | None
    cluster: str | None = None
    addrs: dict[int, str] | None = None


Route = dict[str, Place]


class RouteStep(NamedTuple):
    """A change of the route. ``change``: the event, without its other topics."""

    change: Change
    before: Route
    after: Route


class _Kept(NamedTuple):
    """What a change does to this topic, and to rows."""

    change: Change
    queue_datas: dict[str, QueueData]
    dropped: list[str]
    rows: dict[str, BrokerRow]
    gone: list[str]


class TopicHistory:
    """Takes changes in their order, and then returns the changes of one topic's route.

    Events have new values. A value before the first event is known if no event changed it (then it is the present
    value), or if an event has the old value. ``uncertain``: removed brokerNames that may have had the topic.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.uncertain: list[str] = []
        self._kept: list[_Kept] = []

    def add(self, changes: Sequence[Change]) -> None:
        """Apply the next change, with all its parts; UnknownChange: this release does not know its effect."""
        kept = _Kept(changes[0], {}, [], {}, [])
        for change in changes:
            for operation in operations(change):
                match operation:
                    case SetQueueData(name, queue_datas):
                        if self.topic in queue_datas:
                            kept.queue_datas[name] = queue_datas[self.topic]
                    case DropQueueData(name, topics):
                        if self.topic in topics:
                            kept.dropped.append(name)
                    case SetRow(name, row):
                        kept.rows[name] = row.broker_row(0)
                    case DropBroker(name):
                        kept.gone.append(name)
        if any(kept[1:]):
            self._kept.append(kept._replace(change=self._alone(changes[0], kept)))

    def _alone(self, change: Change, kept: _Kept) -> Change:
        """A change without its other topics."""
        mine: dict[str, Any] = {"part": 1, "parts": 1}
        if hasattr(change, "topics"):
            mine["topics"] = dict(zip([self.topic], kept.queue_datas.values(), strict=False))
        if hasattr(change, "dropped"):
            mine["dropped"] = [self.topic] if kept.dropped else []
        return msgspec.structs.replace(change, **mine)

    @property
    def broker_names(self) -> set[str]:
        """The brokerNames whose rows the steps show."""
        return {name for kept in self._kept for name in (*kept.queue_datas, *kept.dropped)}

    def steps(
        self, now: Mapping[str, QueueData], rows_now: Mapping[str, BrokerRow], *, complete: bool
    ) -> Iterator[RouteStep]:
        """Every change of the route.

        Args:
            now: the topic's queue data after the last change. rows_now: the rows of the brokerNames in ``now`` and in
                :attr:`broker_names`.
            complete: the changes begin with the namespace's first change.
        """
        queue_datas: dict[str, QueueData | None] = {} if complete else self._queue_datas_before(now)
        rows: dict[str, BrokerRow | None] = {} if complete else self._rows_before(rows_now)
        evidence, removed = self.broker_names, set[str]()
        self.uncertain = []

        def route() -> Route:
            found = {}
            for name, data in sorted(queue_datas.items()):
                row = rows.get(name)
                found[name] = Place(data, row.cluster, row.broker_addrs) if row is not None else Place(data)
            return found

        for kept in self._kept:
            change = kept.change
            if isinstance(change, BrokerRemoved) and rows.get(change.broker_name, ...) is None:
                rows[change.broker_name] = _row_before(change)
            touches = kept.queue_datas or any(name in queue_datas for name in (*kept.dropped, *kept.rows, *kept.gone))
            before = route() if touches else {}
            queue_datas.update(kept.queue_datas)
            rows.update(kept.rows)
            for name in kept.dropped:
                queue_datas.pop(name, None)
            for name in kept.gone:
                if not complete and name not in evidence and name not in removed:
                    self.uncertain.append(name)
                removed.add(name)
                queue_datas.pop(name, None)
                rows.pop(name, None)
            if touches and before != (after := route()):
                yield RouteStep(change, before, after)

    def _queue_datas_before(self, now: Mapping[str, QueueData]) -> dict[str, QueueData | None]:
        """The topic's queue data at each brokerName before the first change; None: not known, perhaps absent."""
        known: dict[str, QueueData | None] = {}
        evidence = self.broker_names
        for kept in self._kept:
            told = kept.change.before if isinstance(kept.change, TopicDeleted) else {}
            for name in (*kept.queue_datas, *kept.dropped, *kept.gone):
                if name in evidence:
                    known.setdefault(name, told.get(name))
        return {name: data for name, data in now.items() if name not in evidence} | known

    def _rows_before(self, now: Mapping[str, BrokerRow]) -> dict[str, BrokerRow | None]:
        touched = {name for kept in self._kept for name in (*kept.rows, *kept.gone)}
        return {name: row for name, row in now.items() if name not in touched} | dict.fromkeys(touched)


def _row_before(change: BrokerRemoved) -> BrokerRow | None:
    """The row before a broker was removed: the present row, and the removed address."""
    if change.row is msgspec.UNSET or change.broker_id is None or change.addr is None:
        return None
    row = change.row
    addrs = {change.broker_id: change.addr} | (row.addrs if row is not None else {})
    return BrokerRow(row.cluster if row is not None else change.cluster or "", addrs)
