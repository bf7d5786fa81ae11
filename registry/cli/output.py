"""Prints what the operators' commands found: aligned plain text, or JSON.

Names, addresses and values come from outside: text output escapes control characters. JSON is left as it is.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

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
    """Print lines of text; a line end within a line is escaped."""
    click.echo("\n".join(map(printable, lines)))


def answer(as_json: bool, value: Any, *lines: str) -> None:
    """Print what a command did or found: as one line of JSON, or as lines of text."""
    if as_json:
        json_line(value)
    else:
        show(*lines)


def listing(
    as_json: bool, value: Any, headings: Sequence[str], rows: Iterable[Sequence[object]], *, none: str,
    right: Sequence[str] = (),
) -> None:  # fmt: skip
    """Print a list as JSON or as a table; if it has no rows, print the text ``none`` on stderr."""
    rows = list(rows)
    if as_json:
        json_page(value)
    elif rows:
        click.echo(table(headings, rows, right=right))
    else:
        click.echo(none, err=True)


def show_value(value: str) -> None:
    """Print a value: on a terminal its lines as :func:`show` does; to a file or pipe unchanged."""
    if sys.stdout.isatty():
        show(*value.split("\n"))
    else:
        click.echo(value)


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> str:
    """Columns under their headings, two blanks apart; ``right``: headings of the columns that are aligned right."""
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


CLUSTER_HEADINGS: Final = ("CLUSTER", "BROKER NAME", "ID", "ADDRESS")


def cluster_rows(clusters: Mapping[str, Sequence[str]], rows: Mapping[str, BrokerRow]) -> list[tuple[object, ...]]:
    """Clusters, broker names, ids and addresses, one row for each address."""
    lines: list[tuple[object, ...]] = []
    for cluster, names in clusters.items():
        for name in names:
            row = rows.get(name)
            if row is None or not row.broker_addrs:
                lines.append((cluster, name, "", ""))
                continue
            lines += ((cluster, name, broker_id, addr) for broker_id, addr in sorted(row.broker_addrs.items()))
    return lines


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
    return "\n".join((text, *map(printable, route_notes(route))))


def route_notes(route: TopicRoute) -> list[str]:
    """The other parts of a route: filter servers, static queues, the order configuration."""
    told = [f"filter servers of {addr}: {', '.join(servers)}" for addr, servers in sorted(route.filter_servers.items())]
    told += [f"static queues at {name}: {mapping}" for name, mapping in sorted((route.mappings or {}).items())]
    return told if route.order_topic_conf is None else [*told, f"order configuration: {route.order_topic_conf}"]
