"""``pipeline sql``: answers a query about the past, in SQL."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import click
import msgspec

from .. import output
from ..extras import extra
from ..options import lake_option
from .session import namespace_options

_MOST_ROWS = 1000  # of the table on the terminal


def _names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The query with its last word completed to the name of a table."""
    from mqregistry.pipeline.sql.views import ABOUT, LAYERED

    before, blank, word = incomplete.rpartition(" ")
    return [f"{before}{blank}{name}" for name in sorted([*ABOUT, *LAYERED]) if name.startswith(word)]


@click.command()
@click.argument("query", required=False, shell_complete=_names)
@click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")
@click.option("--csv", "as_csv", is_flag=True, help="CSV instead of a table.")
@click.option(
    "--time-zone", metavar="ZONE", help="Time zone of days and times: Europe/Berlin, UTC.  [default: this machine's]"
)
@lake_option
@namespace_options
def sql(
    query: str | None, as_json: bool, as_csv: bool, time_zone: str | None, lake: str, namespace: str
) -> None:  # fmt: skip
    """Answer QUERY, SQL of DuckDB, from the pipeline's tables, without Spark and Redis. - reads QUERY from stdin.

    Without QUERY the tables are listed; 'DESCRIBE routes' lists the columns of one. A query can only
    read these tables: no file of this machine, no network.

    \b
    mqregistry pipeline sql "SELECT * FROM broker_by_day ORDER BY availability LIMIT 5"
    """  # noqa: D301 (\\b is for click)
    if as_json and as_csv:
        raise click.UsageError("--json and --csv: give one of them")
    with extra("sql"):
        from mqregistry.pipeline.lake.lake import Lake
        from mqregistry.pipeline.sql.door import Door
        from mqregistry.pipeline.sql.views import ABOUT
    if query is None:
        click.echo(output.table(("TABLE", "A ROW IS"), list(ABOUT.items())))
        return
    if query == "-":
        query = sys.stdin.read()
    rows = Door(Lake(lake), namespace, time_zone=time_zone).answer(query)
    if as_json:
        output.json_page([dict(zip(rows.column_names, row, strict=True)) for row in _rows(rows)])
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(rows.column_names)
        writer.writerows([_plain(value) for value in row] for row in _rows(rows))
    else:
        _show(rows)


def _rows(rows: Any) -> list[tuple[Any, ...]]:
    columns = [[_whole(value) for value in column.to_pylist()] for column in rows.columns]
    return list(zip(*columns, strict=True)) if columns else []


def _whole(value: Any) -> Any:
    """Return a whole decimal as an int: a sum of whole numbers is a decimal in DuckDB."""
    return int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value


def _show(rows: Any) -> None:
    shown = rows.slice(0, _MOST_ROWS)
    cells = [[_text(value) for value in row] for row in _rows(shown)]
    headings = [name.replace("_", " ").upper() for name in rows.column_names]
    right = [heading for heading, values in zip(headings, zip(*_rows(shown), strict=True), strict=False)
             if any(_is_number(value) for value in values)]  # fmt: skip
    click.echo(output.table(headings, cells, right=right))
    if rows.num_rows > shown.num_rows:
        left = rows.num_rows - shown.num_rows
        click.echo(f"mqregistry: {left:,} more rows are not shown; --csv and --json give all", err=True)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds")
    if isinstance(value, float):
        return str(round(value, 4))
    text = _plain(value)
    return "" if text is None else str(text)


def _plain(value: Any) -> Any:
    """A value as the text of one CSV cell: times in ISO 8601, lists and booleans as JSON."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bool | Sequence | dict) and not isinstance(value, str):
        return msgspec.json.encode(value).decode()
    return value
