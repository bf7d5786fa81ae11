"""What the operators' commands print: aligned plain text, or JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
import msgspec

from registry.model import PERM_READ, PERM_WRITE, BrokerRow, TopicRoute


def json_line(value: Any) -> None:
    """One value on one line."""
    click.echo(msgspec.json.encode(value).decode())


def json_page(value: Any) -> None:
    """One value, indented."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> str:
    """Columns under their headings, two blanks apart; ``right`` names those that align right."""
    cells = [list(headings), *([str(cell) if cell != "" else "-" for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(headings))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if heading in right else cell.ljust(width)
            for cell, width, heading in zip(row, widths, headings, strict=True)
        ).rstrip()
        for row in cells
    )


def perm(value: int) -> str:
    """A permission as RocketMQ writes it, with its meaning: ``6 RW``."""
    letters = ("R" if value & PERM_READ else "") + ("W" if value & PERM_WRITE else "")
    return f"{value} {letters or '-'}"


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


def clusters_text(clusters: Mapping[str, Sequence[str]], rows: Mapping[str, BrokerRow]) -> str:
    """One line for each address."""
    lines: list[tuple[object, ...]] = []
    for cluster, names in clusters.items():
        for name in names:
            row = rows.get(name)
            if row is None or not row.broker_addrs:
                lines.append((cluster, name, "", ""))
                continue
            lines += ((cluster, name, broker_id, addr) for broker_id, addr in sorted(row.broker_addrs.items()))
    return table(("CLUSTER", "BROKER NAME", "ID", "ADDRESS"), lines, right=("ID",))


def clusters_json(clusters: Mapping[str, Sequence[str]], rows: Mapping[str, BrokerRow]) -> dict[str, Any]:
    """The answer of 106, with quoted broker ids."""
    return {
        "brokerAddrTable": {name: _broker_json(name, row) for name, row in rows.items()},
        "clusterAddrTable": clusters,
    }


def _broker_json(name: str, row: BrokerRow) -> dict[str, Any]:
    found: dict[str, Any] = {
        "brokerAddrs": {str(broker_id): addr for broker_id, addr in sorted(row.broker_addrs.items())},
        "brokerName": name,
        "cluster": row.cluster,
        "enableActingMaster": row.enable_acting_master,
    }
    if row.zone_name is not None:
        found["zoneName"] = row.zone_name
    return found


def route_text(topic: str, route: TopicRoute) -> str:
    """A topic's queues, and where its brokers are."""
    lines: list[tuple[object, ...]] = []
    for name, data in sorted(route.queue_datas.items()):
        row = route.broker_rows.get(name)
        addrs = sorted(row.broker_addrs.items()) if row else []
        facts = (data.read_queue_nums, data.write_queue_nums, perm(data.perm))
        cluster = row.cluster if row else ""
        first = addrs[0] if addrs else ("", "")
        lines.append((name, cluster, *facts, *first))
        lines += ((" ", " ", " ", " ", " ", *other) for other in addrs[1:])
    text = f"topic {topic}\n" + table(
        ("BROKER NAME", "CLUSTER", "READ", "WRITE", "PERM", "ID", "ADDRESS"), lines, right=("READ", "WRITE", "ID")
    )
    for addr, servers in sorted(route.filter_servers.items()):
        text += f"\nfilter servers of {addr}: {', '.join(servers)}"
    for name, mapping in sorted((route.mappings or {}).items()):
        text += f"\nstatic queues at {name}: {mapping}"
    if route.order_topic_conf is not None:
        text += f"\norder configuration: {route.order_topic_conf}"
    return text
