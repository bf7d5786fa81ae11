"""Live info in memory, changed by nothing but events: what :class:`registry.tables.Tables` leaves out."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import UNSET

from registry import change as kinds
from registry.change import Change
from registry.tables import Tables


class LiveInfo(NamedTuple):
    """What a broker process told of itself, under one brokerName.

    The three numbers of its data version are None where Redis has none: a process whose registration was refused
    (``broker_refused``), or that said goodbye under one of several names, does not count as alive. A replay passes
    these events over and keeps the numbers that the process had, as silver does: an audit compares them only where
    Redis has some.
    """

    cluster: str
    addr: str
    broker_id: int
    timeout_ms: int
    counter: int | None
    timestamp: int | None
    state_version: int | None
    ha: str | None


class Lives:
    """who -> brokerName -> live info.

    Args:
        tables: the tables that the same events are applied to, first.
        live_by_cluster: see ``Behaviour``.
    """

    def __init__(self, tables: Tables, *, live_by_cluster: bool = True) -> None:
        self.by_who: dict[str, dict[str, LiveInfo]] = {}
        self.tables = tables
        self._live_by_cluster = live_by_cluster

    def apply(self, change: Change) -> None:
        """Apply one event that the tables have had already."""
        who = change.who
        if who is None:
            return
        if change.type == kinds.BROKER_REGISTERED and change.live is not None:
            self._register(change, who)
        elif change.type in kinds.REMOVALS:
            names = self.by_who.get(who, {})
            addr = who.rpartition("|")[2]
            if change.row is not UNSET or not self._stands(change.broker_name, addr):
                names.pop(change.broker_name, None)
            by_address = change.type == kinds.BROKER_UNREGISTERED and not self._live_by_cluster
            if by_address and not any(self._stands(name, addr) for name in names):
                names.clear()  # with 4.8 a goodbye ends an address under every name
            if not names:
                self.by_who.pop(who, None)

    def _register(self, change: Change, who: str) -> None:
        live = change.live
        assert live is not None
        names = self.by_who.setdefault(who, {})
        ids = {name: info.broker_id for name, info in names.items()} | {change.broker_name: change.broker_id or 0}
        for name, broker_id in ids.items():
            names[name] = LiveInfo(
                change.cluster or "", change.addr or "", broker_id, live.timeout_ms, live.counter, live.timestamp,
                live.state_version, live.ha,
            )  # fmt: skip

    def _stands(self, name: str, addr: str) -> bool:
        row = self.tables.brokers.get(name)
        return row is not None and addr in row.broker_addrs.values()
