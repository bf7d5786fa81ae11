"""Live info in memory (Java's brokerLiveTable), changed only by events; ``Tables`` has all other tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..events.cells import EndLive, Operation, SetLive, addr_of, operations
from ..events.changes import Change
from .tables import Tables


class LiveInfo(NamedTuple):
    """What a broker process said of itself, under one brokerName.

    Redis has no data version of a process that does not count as alive: its registration was refused
    (``broker_refused``), or it unregistered under one of several names. The three numbers are then None. A replay of
    events keeps the numbers of such a process, as silver does, so an audit compares them only where Redis has them.
    """

    cluster: str
    addr: str
    broker_id: int
    timeout_ms: int
    counter: int | None
    timestamp: int | None
    state_version: int | None
    ha: str | None


class LiveTable:
    """who -> brokerName -> live info.

    Args:
        tables: the tables to which each event is applied first.
        live_by_cluster: see ``Behaviour``.
    """

    def __init__(self, tables: Tables, *, live_by_cluster: bool = True) -> None:
        self.by_who: dict[str, dict[str, LiveInfo]] = {}
        self.tables = tables
        self._live_by_cluster = live_by_cluster

    def apply(self, change: Change) -> None:
        """Apply one event, after ``tables`` has applied it."""
        for operation in operations(change):
            self.apply_operation(operation)

    def apply_operation(self, operation: Operation) -> Iterable[tuple[str, LiveInfo | None]]:
        """Apply one operation of an event; returns each changed brokerName of its process, with the info or None."""
        if type(operation) is SetLive:
            return self._set(operation)
        return self._end(operation) if type(operation) is EndLive else ()

    def _set(self, operation: SetLive) -> Iterable[tuple[str, LiveInfo | None]]:
        live, names = operation.live, self.by_who.setdefault(operation.who, {})
        new = LiveInfo(
            operation.cluster, operation.addr, operation.broker_id, live.timeout_ms, live.counter, live.timestamp,
            live.state_version, live.ha,
        )  # fmt: skip
        for name, info in names.items():
            names[name] = new._replace(broker_id=info.broker_id)
        names[operation.broker_name] = new
        return list(names.items())

    def _end(self, operation: EndLive) -> Iterable[tuple[str, LiveInfo | None]]:
        names, addr = self.by_who.get(operation.who, {}), addr_of(operation.who)
        ended = []
        name = operation.broker_name
        if name in names and (operation.certain or not self._has_addr(name, addr)):
            ended.append(name)
        left = names.keys() - ended
        by_address = operation.goodbye and not self._live_by_cluster
        if by_address and not any(self._has_addr(name, addr) for name in left):
            ended += left  # with 4.8 an unregistration ends an address under every name
        for name in ended:
            del names[name]
        if not names:
            self.by_who.pop(operation.who, None)
        return [(name, None) for name in ended]

    def _has_addr(self, name: str, addr: str) -> bool:
        row = self.tables.brokers.get(name)
        return row is not None and addr in row.broker_addrs.values()
