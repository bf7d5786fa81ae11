"""Brokers, clusters, live info, filter servers, KV and settings, replayed in the order of ``seq``."""

from __future__ import annotations

import msgspec

from pipeline.silver.cells import Cells, Moment
from pipeline.silver.ops import KINDS, ROW_GONE, ROW_SET, HeadOp
from registry.change import BROKER_REGISTERED, BROKER_UNREGISTERED, REMOVALS

TABLES = ("broker_addr", "live", "kv", "broker_row", "cluster_member", "filter_server", "kv_namespace", "config")


class Head:
    """The head's tables.

    Args:
        cells: one for each of TABLES.
        live_by_cluster: false with compat 4.8, where a goodbye ends an address under every name.
    """

    def __init__(self, cells: dict[str, Cells], *, live_by_cluster: bool = True) -> None:
        self.cells = cells
        self._live_by_cluster = live_by_cluster
        self._decode = msgspec.msgpack.Decoder(HeadOp).decode
        self.index()

    def index(self) -> None:
        """Make the look-ups from the cells."""
        self._addrs: dict[str, dict[int, str]] = {}  # brokerName -> its row's addresses
        for name, broker_id in self.cells["broker_addr"].held:
            self._addrs.setdefault(name, {})[broker_id] = self.cells["broker_addr"].held[name, broker_id].value[1]
        self._names: dict[str, set[str]] = {}  # who -> the brokerNames it stands under
        for who, name in self.cells["live"].held:
            self._names.setdefault(who, set()).add(name)
        self._clusters: dict[str, set[str]] = {}  # brokerName -> its clusters
        for cluster, name in self.cells["cluster_member"].held:
            self._clusters.setdefault(name, set()).add(cluster)

    def apply(self, payload: bytes, us: int, seq: int) -> None:
        """One operation."""
        op = self._decode(payload)
        at = Moment(us, seq, KINDS[op.kind])
        if op.kv_namespace is not None:
            self._apply_kv(op, op.kv_namespace, at)
        elif op.config is not None:
            for key, value in op.config.items():
                self.cells["config"].set((key,), (value,), at)
        else:
            self._apply_broker(op, at)

    def _apply_kv(self, op: HeadOp, namespace: str, at: Moment) -> None:
        self.cells["kv_namespace"].set((namespace,), (), at)
        if op.key is None:
            return
        if op.value is None:
            self.cells["kv"].drop((namespace, op.key), at)
        else:
            self.cells["kv"].set((namespace, op.key), (op.value,), at)

    def _apply_broker(self, op: HeadOp, at: Moment) -> None:
        name, removes = op.broker_name, at.kind in REMOVALS
        if op.who is not None and (op.filter_servers is not None or removes):
            if op.filter_servers:
                self.cells["filter_server"].set((op.who,), (op.filter_servers,), at)
            else:
                self.cells["filter_server"].drop((op.who,), at)
        if at.kind == BROKER_REGISTERED and op.cluster is not None:
            self.cells["cluster_member"].set((op.cluster, name), (), at)
            self._clusters.setdefault(name, set()).add(op.cluster)
        if op.row_state == ROW_GONE:
            self.cells["broker_row"].drop((name,), at)
            self._set_addrs(name, "", {}, at)
            for cluster in self._clusters.pop(name, ()):
                self.cells["cluster_member"].drop((cluster, name), at)
        elif op.row_state == ROW_SET and op.row is not None:
            self.cells["broker_row"].set((name,), (op.row.cluster, op.row.zone, op.row.acting), at)
            self._set_addrs(name, op.row.cluster, op.row.addrs, at)
        if op.who is not None:
            if removes:
                self._end_live(op, op.who, at)
            elif op.live is not None:
                self._set_live(op, op.who, at)

    def _set_addrs(self, name: str, cluster: str, addrs: dict[int, str], at: Moment) -> None:
        for broker_id in self._addrs.pop(name, {}):
            if broker_id not in addrs:
                self.cells["broker_addr"].drop((name, broker_id), at)
        for broker_id, addr in addrs.items():
            self.cells["broker_addr"].set((name, broker_id), (cluster, addr), at)
        if addrs:
            self._addrs[name] = addrs

    def _set_live(self, op: HeadOp, who: str, at: Moment) -> None:
        """What a process says of itself holds under every name that it stands under."""
        live, cells = op.live, self.cells["live"]
        assert live is not None
        names = self._names.setdefault(who, set())
        names.add(op.broker_name)
        addr = op.addr if op.addr is not None else who.rpartition("|")[2]
        said = (live.timeout_ms, live.counter, live.timestamp, live.state_version, live.ha)
        for name in names:
            broker_id = op.broker_id if name == op.broker_name else cells.held[who, name].value[2]
            cells.set((who, name), (op.cluster or "", addr, broker_id or 0, *said), at)

    def _end_live(self, op: HeadOp, who: str, at: Moment) -> None:
        """It stands there no more; but an id that a 4.8 broker took from itself leaves it where it has another one."""
        names = self._names.get(who)
        if names is None:
            return
        addr = who.rpartition("|")[2]
        if op.row_state == ROW_GONE or not self._stands(op.broker_name, addr):
            names.discard(op.broker_name)
            self.cells["live"].drop((who, op.broker_name), at)
        by_address = at.kind == BROKER_UNREGISTERED and not self._live_by_cluster
        if by_address and not any(self._stands(name, addr) for name in names):
            for name in names:
                self.cells["live"].drop((who, name), at)
            names.clear()
        if not names:
            del self._names[who]

    def _stands(self, name: str, addr: str) -> bool:
        return addr in self._addrs.get(name, {}).values()
