"""``pipeline audit`` and ``pipeline backfill``."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.cli import show
from registry.cli.options import config_file_option, lake_option, read_settings, setting_options, spark_options
from registry.cli.pipeline import spark_extra
from registry.cli.target import find_target, target_options

if TYPE_CHECKING:
    from pipeline.audit import Audit

FAILED = 1
_SHOWN = 50


@click.command()
@spark_options
@lake_option
@target_options
def audit(as_json: bool, config_file: Path | None, lake: str, master: str, driver_memory: str, **flags: Any) -> None:
    """Replay all changes, and compare with the tables in Redis as of the same change.

    The lake's tables (silver) are compared with the replay, too. Exit code 1: there is a difference, or a change is
    missing.
    """
    settings = find_target(flags, config_file)
    with spark_extra():
        from pipeline.audit import audit as run_audit
        from pipeline.lake import Lake
        from pipeline.session import ending, open_session
    begun = time.monotonic()
    _say("starting Spark")
    spark = open_session(master=master, driver_memory=driver_memory)
    with ending(spark):
        _say("replaying")
        found = run_audit(spark, settings.redis, settings.namespace, Lake(lake))
    if as_json:
        show.json_page(found._asdict() | {"differences": [d._asdict() for d in found.differences]})
    else:
        click.echo(audit_text(found, time.monotonic() - begun))
    if not found.ok:
        sys.exit(FAILED)


def audit_text(found: Audit, taken_s: float) -> str:
    """What an audit came to, for a reader."""
    if found.missing is not None:
        return f"NOT COMPARED: {found.missing}"
    lines = []
    for one in found.differences[:_SHOWN]:
        key = " ".join(one.key)
        history, there = ("not there" if value is None else value for value in (one.history, one.found))
        lines.append(f"{one.table} {key}: history says {history}, {one.where} has {there}")
    if len(found.differences) > _SHOWN:
        lines.append(f"... and {len(found.differences) - _SHOWN} more (--json shows all)")
    for since_ms, until_ms in found.holes:
        lost = show.duration(until_ms - since_ms)
        lines.append(f"changes of {lost} were lost; the history goes on from the snapshot after them")
    number = len(found.differences)
    of_stream = f", {found.seq - found.replayed} of them only in the stream yet" if found.seq > found.replayed else ""
    lines.append(
        f"{number or 'no'} difference{'s' * (number != 1)}: {found.seq} changes{of_stream}, {found.cells} cells, "
        f"{taken_s:.1f} s"
    )
    return "\n".join(lines)


@click.command()
@click.option("--epoch", metavar="EPOCH", help="Only this past of the namespace.  [default: all]")
@spark_options
@lake_option
@setting_options("namespace")
@config_file_option
def backfill(
    config_file: Path | None, lake: str, epoch: str | None, master: str, driver_memory: str, **flags: Any
) -> None:
    """Write silver and gold anew, from bronze; needs no Redis.

    Until it is done the old tables are read. Interrupted, it goes on from there next time. Stop 'pipeline run' before.
    """
    namespace = read_settings(flags, config_file).namespace
    with spark_extra():
        from pipeline import backfill as work
        from pipeline.lake import Lake
        from pipeline.lock import java_of, run_lock
        from pipeline.session import ending, open_session
    where = Lake(lake)
    epochs = [epoch] if epoch else work.epochs(where, namespace)
    if not epochs:
        raise click.ClickException(
            f"the lake at {where.root} holds nothing of namespace {namespace!r}: is it another --lake or --namespace? "
            "'mqregistry pipeline run' fills it"
        )
    _say("starting Spark")
    spark = open_session(master=master, driver_memory=driver_memory)
    try:
        with ending(spark), run_lock(where, java_of(spark)):
            for one in epochs:
                for step in work.backfill(spark, where, namespace, one):
                    _say(f"epoch {one}: silver up to change {step.seq}{'' if step.more else ', done'}")
                _say(f"epoch {one}: gold")
                work.gold_anew(spark, where, namespace, one)
    except KeyboardInterrupt:
        raise click.ClickException("interrupted; the next backfill goes on from here") from None
    click.echo(f"namespace {namespace}: {len(epochs)} past{'s' * (len(epochs) != 1)} written anew")


def _say(text: str) -> None:
    click.echo(text, err=True)
