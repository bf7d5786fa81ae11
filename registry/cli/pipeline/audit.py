"""``pipeline audit``: compares the history with the tables in Redis."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .. import output
from ..options import lake_option
from ..target import find_target, target_options
from .session import SparkStart, spark_options

if TYPE_CHECKING:
    from mqregistry.pipeline.past.audit import Audit

_SHOWN = 50
_LONG = 1000  # an event may have 25 kB
_COMPARED_WITH = {"bronze": "the stream has", "gold": "calculated again it is"}  # everything else: with the replay


@click.command()
@spark_options
@lake_option
@click.option("--since-last", is_flag=True, help="Compare only what came since the last audit without a difference.")
@target_options
def audit(
    as_json: bool, config_file: Path | None, lake: str, spark: SparkStart, since_last: bool, **flags: Any
) -> None:
    """Replay all changes, and compare the result with the tables in Redis as of the same change.

    The lake's tables (silver) are compared with the replay, too; its entries (bronze) with the entries that the streams
    still have; its figures (gold) with figures that are calculated again. Ends with 1 when there is a difference, or a
    change is missing.
    """
    settings = find_target(flags, config_file)
    from mqregistry.pipeline.lake.lake import Lake
    from mqregistry.pipeline.past.audit import audit as run_audit
    from mqregistry.pipeline.past.audit import check

    begun, where = time.monotonic(), Lake(lake)
    check(settings.redis, settings.namespace, where)
    click.echo("starting Spark", err=True)
    with spark.session(err=True) as session:
        click.echo("replaying", err=True)
        found = run_audit(session, settings.redis, settings.namespace, where, since_last=since_last)
    if as_json:
        output.json_page(found._asdict() | {"differences": [d._asdict() for d in found.differences]})
    else:
        click.echo(audit_text(found, time.monotonic() - begun))
    if not found.ok:
        sys.exit(1)


def audit_text(found: Audit, taken_s: float) -> str:
    """The result of an audit as text."""
    if found.missing is not None:
        return f"NOT COMPARED: {found.missing}"
    lines = []
    for one in found.differences[:_SHOWN]:
        key = " ".join(one.key)
        texts = ("not there" if value is None else str(value) for value in (one.history, one.found))
        history, there = (text if len(text) < _LONG else f"{text[:_LONG]}…" for text in texts)
        lines.append(
            f"{one.table} {key}: {_COMPARED_WITH.get(one.where, 'history says')} {history}, {one.where} has {there}"
        )
    if len(found.differences) > _SHOWN:
        lines.append(f"... and {len(found.differences) - _SHOWN} more (--json shows all)")
    for since_ms, until_ms in found.holes:
        lost = output.duration(until_ms - since_ms)
        lines.append(f"changes of {lost} were lost; the history continues with the snapshot after them")
    number = len(found.differences)
    of_stream = f", {found.seq - found.replayed} of them not yet in the lake" if found.seq > found.replayed else ""
    lines.append(
        f"{number or 'no'} difference{'s' * (number != 1)}: {found.seq} changes{of_stream}, {found.cells} cells; "
        f"{', '.join(f'{count} {name}' for name, count in found.entries.items())} of the streams; {found.figures} rows "
        f"of figures; {taken_s:.1f} s"
    )
    return "\n".join(lines)
