"""Finds the row of docs/differences.md for a deliberate difference between a Java NameServer and this project.

The values of both sides must fit the row: a broker, for example, may also be missing for another reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..config.java_keys import KNOWN_TO_JAVA
from ..model import BrokerRow
from ..names import fault_of_address, fault_of_name
from .content import Content
from .differences import Cell

ROWS: Final = ("D3", "D4", "D6.1", "D7", "D9", "D10", "D13", "D13.1", "D16", "D23", "D27", "D27.1", "D29")
"""The rows that this module names."""

_OF_CONFIG: Final[Mapping[str, str]] = {
    "enableShutdownGracefully": "D13",
    "shutdownWaitTimeSeconds": "D13.1",
    "needWaitForService": "D10",
    "waitSecondsForService": "D10",
} | dict.fromkeys(KNOWN_TO_JAVA, "D23")
_MOST_CLUSTERS: Final = 1000
_MOST_IDS: Final = 256
_MOST_VALUE_BYTES: Final = 64 * 1024


def row_of(cell: Cell, java: Content, ours: Content) -> str:
    """The row of differences.md for a difference between these two sides; "" = the difference is not deliberate."""
    match cell.kind:
        case "cluster":
            return _of_member(cell.name, cell.at, java, ours)
        case "broker":
            return _of_broker(cell.name, java, ours)
        case "topic":
            return _of_topic(cell, java, ours)
        case "kv":
            return _of_kv(cell.name, cell.at, java, ours)
        case "answer":
            return _of_answer(cell, java)
        case _:
            return _OF_CONFIG.get(cell.name, "")


def _of_member(cluster: str, name: str, java: Content, ours: Content) -> str:
    if name not in java.clusters.get(cluster, ()):
        return ""
    if fault_of_name(cluster) or fault_of_name(name):
        return "D9"
    row = java.brokers.get(name)
    if row is None:
        return "D4"
    if not row.broker_addrs and name not in ours.brokers:
        return "D16"
    return "D27.1" if cluster not in ours.clusters and len(java.clusters) > _MOST_CLUSTERS else ""


def _of_broker(name: str, java: Content, ours: Content) -> str:
    row = java.brokers.get(name)
    if row is None:
        return ""
    if fault_of_name(name) or fault_of_name(row.cluster):
        return "D9"
    if not row.broker_addrs:
        return "" if name in ours.brokers else "D16"
    return _of_addresses(name, row, ours.brokers.get(name), java)


def _of_addresses(name: str, java_row: BrokerRow, our_row: BrokerRow | None, java: Content) -> str:
    """The row for addresses that only Java has; "" if the addresses differ in another way."""
    there, here = java_row.broker_addrs, our_row.broker_addrs if our_row else {}
    if here == there or not here.items() <= there.items():
        return ""
    if all(fault_of_address(addr) for broker_id, addr in there.items() if broker_id not in here):
        return "D9"
    if len(there) > _MOST_IDS <= len(here):
        return "D27"
    return "D3" if sum(name in names for names in java.clusters.values()) > 1 else ""


def _of_topic(cell: Cell, java: Content, ours: Content) -> str:
    route = java.routes.get(cell.name)
    if route is not None and fault_of_name(cell.name):
        return "D9"
    match cell.part:
        case "filter servers":
            clusters = {row.cluster for row in java.brokers.values() if cell.at in row.broker_addrs.values()}
            return "D7" if len(clusters) > 1 else ""
        case "static queues":
            gone = route is not None and cell.at not in (route.mappings or {}) and cell.at not in route.broker_rows
            return "D6.1" if gone else ""
        case "" if route is not None:
            rows = {_of_broker(name, java, ours) for name in route.queue_datas}
            return rows.pop() if len(rows) == 1 else ""
    return _of_broker(cell.at, java, ours)


def _of_kv(namespace: str, key: str, java: Content, ours: Content) -> str:
    value = java.kv.get(namespace, {}).get(key)
    if value is None or key in ours.kv.get(namespace, {}):
        return ""
    if fault_of_name(namespace) or fault_of_name(key):
        return "D9"
    return "D29" if len(value.encode("utf-8", "surrogatepass")) > _MOST_VALUE_BYTES else ""


def _of_answer(cell: Cell, java: Content) -> str:
    """D7: the broker address of 304; in 311 to 313, topics that only ours lists (Java reads one broker's flags)."""
    code = cell.name.partition(" ")[0]
    if cell.part == "brokerAddr" and code == "304":
        return "D7"
    listed_here = cell.part == "listed" and (cell.part, cell.at) not in java.answers.get(cell.name, {})
    return "D7" if listed_here and code in ("311", "312", "313") else ""
