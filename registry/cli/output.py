"""Prints what the operators' commands found: aligned plain text, or JSON.

Names, addresses and values come from outside: in text nothing of them acts on the terminal. JSON is left as it is.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
import msgspec

from ..model import BrokerRow, TopicRoute
from ..names import printable
from ..operators.words import duration as duration
from ..operators.words import moment as moment
from ..operators.words import perm as perm


def json_line(value: Any) -> None:
    """Print one value as JSON on one line."""
    click.echo(msgspec.json.encode(value).decode())


def json_page(value: Any) -> None:
    """Print one value as indented JSON."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def show(*lines: str) -> None:
    """Print lines of text; a line end within one of them is escaped, too."""
    click.echo("\n".join(map(printable, lines)))


def show_value(value: str) -> None:
    """Print a value as it is for a program that reads it, and its lines as :func:`show` does on a terminal."""
    if sys.stdout.isatty():
        show(*value.split("\n"))
    else:
        click.echo(value)


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> str:
    """Columns under their headings, two blanks apart; ``right`` names the headings of those that align right."""
    cells = [list(headings), *([printable(str(cell)) if cell != "" else "-" for cell in row] for row in rows)]
    widths = [max(_columns(row[at]) for row in cells) for at in range(len(headings))]
    return "\n".join(
        "  ".join(
            _blanks(cell, width) + cell if heading in right else cell + _blanks(cell, width)
            for cell, width, heading in zip(row, widths, headings, strict=True)
        ).rstrip()
        for row in cells
    )


def _columns(text: str) -> int:
    """How many columns of a terminal a text takes: a wide character (Chinese, emoji) two, a combining one none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text
    )


def _blanks(cell: str, width: int) -> str:
    return " " * (width - _columns(cell))


def clusters_text(clusters: Mapping[str, Sequence[str]], rows: Mapping[str, BrokerRow]) -> str:
    """Clusters, broker names, ids and addresses, one line for each address."""
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
    """A topic's queues at each broker name, and the addresses there."""
    lines: list[tuple[object, ...]] = []
    for name, data in sorted(route.queue_datas.items()):
        row = route.broker_rows.get(name)
        addrs = sorted(row.broker_addrs.items()) if row else []
        facts = (data.read_queue_nums, data.write_queue_nums, perm(data.perm))
        cluster = row.cluster if row else ""
        first = addrs[0] if addrs else ("", "")
        lines.append((name, cluster, *facts, *first))
        lines += ((" ", " ", " ", " ", " ", *other) for other in addrs[1:])
    text = f"topic {printable(topic)}\n" + table(
        ("BROKER NAME", "CLUSTER", "READ", "WRITE", "PERM", "ID", "ADDRESS"), lines, right=("READ", "WRITE", "ID")
    )
    more = [f"filter servers of {addr}: {', '.join(servers)}" for addr, servers in sorted(route.filter_servers.items())]
    more += [f"static queues at {name}: {mapping}" for name, mapping in sorted((route.mappings or {}).items())]
    if route.order_topic_conf is not None:
        more.append(f"order configuration: {route.order_topic_conf}")
    return "\n".join((text, *map(printable, more)))
