"""Replays operations on the head's tables (brokers, clusters, live info, filter servers, KV, settings) by ``seq``.

One task of Spark replays all of them, because what an operation removes depends on the operations before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa

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

from ..garbage import collection_paused
from ..lake.schema import SILVER, SILVER_VALUES
from .cells import AT, CELLS, to_batch

TABLES: Final = (
    "broker_addr", "live", "kv", "broker_row", "cluster_member", "filter_server", "kv_namespace", "config",
)  # fmt: skip
KNOWN: Final = ("broker_row", "broker_addr", "cluster_member", "live")
"""The tables whose rows a replay begins with."""

_VALUES: Final = {field.name: field.type for table in TABLES for field in SILVER[table] if field.name in
                  SILVER_VALUES[table]}  # fmt: skip
HEAD_CELLS: Final = pa.schema([("target", pa.string()), *_VALUES.items(), *(CELLS.field(name) for name in AT)])
_PLACES: Final = {table: [HEAD_CELLS.get_field_index(name) for name in SILVER_VALUES[table]] for table in TABLES}
_FIRST_AT: Final = HEAD_CELLS.get_field_index(AT[0])


class HeadReplay:
    """Applies operations to the head's tables in memory, and collects the cells that they set or end.

    Args:
        live_by_cluster: false with compat 4.8, where an unregistration ends an address under every name.
    """

    def __init__(self, *, live_by_cluster: bool = True) -> None:
        self.tables = Tables()
        self.lives = LiveTable(self.tables, live_by_cluster=live_by_cluster)
        self.cells: list[tuple[Any, ...]] = []
        self._at: tuple[Any, ...] = ()

    def know(self, table: str, row: dict[str, Any]) -> None:
        """Add a row that holds before the first operation; rows of brokers come before their addresses."""
        values: list[Any] = [row.get(name) for name in SILVER_VALUES[table]]
        match table:
            case "broker_row":
                name, cluster, zone, acting = values
                self.tables.brokers[name] = BrokerRow(cluster, {}, zone, acting)
            case "broker_addr":
                name, broker_id, _, addr = values
                self.tables.brokers[name].broker_addrs[broker_id] = addr
            case "cluster_member":
                self.tables.clusters.setdefault(values[0], set()).add(values[1])
            case "live":
                self.lives.by_who.setdefault(values[0], {})[values[1]] = LiveInfo(*values[2:])

    def apply(self, operation: Operation, at: tuple[Any, ...]) -> None:
        """Apply one operation; ``at``: the columns seq, step, ms, kind and by of its cells."""
        self._at = at
        match operation:
            case SetLive() | EndLive():
                for name, info in self.lives.apply_operation(operation):
                    self._cell("live", operation.who, name, *(info or ()), gone=info is None)
            case SetRow():
                self._set_row(operation)
            case DropBroker():
                self._drop_broker(operation)
            case JoinCluster():
                self.tables.apply_operation(operation)
                self._cell("cluster_member", operation.cluster, operation.broker_name)
            case SetFilterServers():
                self._cell("filter_server", operation.who, operation.addrs or None, gone=not operation.addrs)
            case SetKv():
                self._cell("kv_namespace", operation.kv_namespace)
                if operation.key is not None:
                    gone = operation.value is None
                    self._cell("kv", operation.kv_namespace, operation.key, operation.value, gone=gone)
            case SetConfig():
                for key, value in operation.config.items():
                    self._cell("config", key, value)
            case _:
                raise AssertionError(f"{operation} is not of the head")

    def _cell(self, table: str, *values: Any, gone: bool = False) -> None:
        row: list[Any] = [None] * len(HEAD_CELLS)
        row[0] = table
        for place, value in zip(_PLACES[table], values, strict=False):  # a cell that is gone has only its key
            row[place] = value
        row[_FIRST_AT:] = (gone, *self._at)
        self.cells.append(tuple(row))

    def _set_row(self, of: SetRow) -> None:
        row, name = of.row, of.broker_name
        self._cell("broker_row", name, row.cluster, row.zone, row.acting)
        self._drop_addrs(name, row.addrs)
        for broker_id, addr in row.addrs.items():
            self._cell("broker_addr", name, broker_id, row.cluster, addr)
        self.tables.apply_operation(of)

    def _drop_broker(self, of: DropBroker) -> None:
        name = of.broker_name
        self._cell("broker_row", name, gone=True)
        self._drop_addrs(name, {})
        for cluster, names in self.tables.clusters.items():
            if name in names:
                self._cell("cluster_member", cluster, name, gone=True)
        self.tables.apply_operation(of)

    def _drop_addrs(self, name: str, stay: dict[int, str]) -> None:
        """Drop the addresses of a broker row, except those under ids in ``stay``."""
        row = self.tables.brokers.get(name)
        for broker_id in row.broker_addrs if row is not None else ():
            if broker_id not in stay:
                self._cell("broker_addr", name, broker_id, gone=True)


def replay(batches: Iterator[pa.RecordBatch], *, live_by_cluster: bool) -> Iterator[pa.RecordBatch]:
    """Turn rows (columns known, operations, seq, step, ms, kind, by) into rows of HEAD_CELLS.

    First come rows of tables that hold before the operations: ``known`` is the row as JSON, ``kind`` its table.
    """
    head = HeadReplay(live_by_cluster=live_by_cluster)
    decode = msgspec.msgpack.Decoder(list[Operation]).decode
    for batch in batches:
        with collection_paused():
            for known, done, *at in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if known is not None:
                    head.know(at[-2], msgspec.json.decode(known))
                    continue
                for operation in decode(done):
                    head.apply(operation, tuple(at))
            cells, head.cells = head.cells, []
        yield to_batch(cells, HEAD_CELLS)
