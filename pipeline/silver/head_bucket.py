"""The head, the one bucket for everything but topics, replayed in the order of ``seq``.

Its tables: brokers, clusters, live info, filter servers, KV and settings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mqregistry.events.cells import (
    DropBroker,
    EndLive,
    JoinCluster,
    Operation,
    SetConfig,
    SetFilterServers,
    SetKv,
    SetLive,
    SetRow,
)
from mqregistry.model import BrokerRow
from mqregistry.tables.live_table import LiveInfo, LiveTable
from mqregistry.tables.tables import Tables

from .cell_history import CellHistory, Moment

TABLES: Final = (
    "broker_addr", "live", "kv", "broker_row", "cluster_member", "filter_server", "kv_namespace", "config",
)  # fmt: skip


class HeadBucket:
    """The head's tables. Rows, clusters and live info are also kept as the registry has them, to look up what an
    operation removes.

    Args:
        cells: one for each of TABLES.
        live_by_cluster: false with compat 4.8, where a goodbye ends an address under every name.
    """

    def __init__(self, cells: dict[str, CellHistory], *, live_by_cluster: bool = True) -> None:
        self.cells = cells
        self._live_by_cluster = live_by_cluster
        self.index()

    def index(self) -> None:
        """Make the tables from the cells."""
        held = {table: cells.held for table, cells in self.cells.items()}
        self._tables = Tables()
        self._lives = LiveTable(self._tables, live_by_cluster=self._live_by_cluster)
        addrs: dict[str, dict[int, str]] = {}
        for name, broker_id in held["broker_addr"]:
            addrs.setdefault(name, {})[broker_id] = held["broker_addr"][name, broker_id].value[1]
        for (name,), row in held["broker_row"].items():
            cluster, zone, acting = row.value
            self._tables.brokers[name] = BrokerRow(cluster, addrs.get(name, {}), zone, acting)
        for cluster, name in held["cluster_member"]:
            self._tables.clusters.setdefault(cluster, set()).add(name)
        for (who, name), info in held["live"].items():
            self._lives.by_who.setdefault(who, {})[name] = LiveInfo(*info.value)

    def apply(self, operation: Operation, at: Moment) -> None:
        """Apply one operation."""
        _APPLY[type(operation)](self, operation, at)

    def _change_live(self, of: SetLive | EndLive, at: Moment) -> None:
        cells = self.cells["live"]
        for name, info in self._lives.apply_operation(of):
            if info is None:
                cells.drop((of.who, name), at)
            else:
                cells.set((of.who, name), info, at)

    def _join_cluster(self, of: JoinCluster, at: Moment) -> None:
        self._tables.apply_operation(of)
        self.cells["cluster_member"].set((of.cluster, of.broker_name), (), at)

    def _set_filter_servers(self, of: SetFilterServers, at: Moment) -> None:
        if of.addrs:
            self.cells["filter_server"].set((of.who,), (of.addrs,), at)
        else:
            self.cells["filter_server"].drop((of.who,), at)

    def _set_row(self, of: SetRow, at: Moment) -> None:
        row, name = of.row, of.broker_name
        self.cells["broker_row"].set((name,), (row.cluster, row.zone, row.acting), at)
        self._drop_addrs(name, row.addrs, at)
        for broker_id, addr in row.addrs.items():
            self.cells["broker_addr"].set((name, broker_id), (row.cluster, addr), at)
        self._tables.apply_operation(of)

    def _drop_broker(self, of: DropBroker, at: Moment) -> None:
        name = of.broker_name
        self.cells["broker_row"].drop((name,), at)
        self._drop_addrs(name, {}, at)
        for cluster, names in self._tables.clusters.items():
            if name in names:
                self.cells["cluster_member"].drop((cluster, name), at)
        self._tables.apply_operation(of)

    def _drop_addrs(self, name: str, stay: dict[int, str], at: Moment) -> None:
        """Drop the addresses of a row, but those under ids that stay."""
        row = self._tables.brokers.get(name)
        for broker_id in row.broker_addrs if row is not None else ():
            if broker_id not in stay:
                self.cells["broker_addr"].drop((name, broker_id), at)

    def _set_kv(self, of: SetKv, at: Moment) -> None:
        self.cells["kv_namespace"].set((of.kv_namespace,), (), at)
        if of.value is not None:
            self.cells["kv"].set((of.kv_namespace, of.key), (of.value,), at)
        elif of.key is not None:
            self.cells["kv"].drop((of.kv_namespace, of.key), at)

    def _set_config(self, of: SetConfig, at: Moment) -> None:
        for key, value in of.config.items():
            self.cells["config"].set((key,), (value,), at)


_APPLY: Final[dict[type, Callable[[HeadBucket, Any, Moment], None]]] = {
    SetRow: HeadBucket._set_row,
    DropBroker: HeadBucket._drop_broker,
    JoinCluster: HeadBucket._join_cluster,
    SetFilterServers: HeadBucket._set_filter_servers,
    SetLive: HeadBucket._change_live,
    EndLive: HeadBucket._change_live,
    SetKv: HeadBucket._set_kv,
    SetConfig: HeadBucket._set_config,
}
"""What the head does for each operation that it is sent; the other operations go to the topic buckets."""
