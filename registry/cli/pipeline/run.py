"""``pipeline run``: brings the registry's streams into the tables of the lake.

What needs the extra ``spark`` is imported when the command runs: it takes a second.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import click

from ...queued_output import queue_children_output, queue_output
from ..options import conf_option, config_file_option, lake_option, setting_options, spark_options
from ..target import find_target
from .extras import spark_extra


@click.command()
@click.option("--once", is_flag=True, help="End when everything that is there now is in the tables.")
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0.1),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Pause between rounds.",
)
@spark_options
@conf_option
@click.option(
    "--max-entries",
    type=click.IntRange(min=1),
    default=250_000,
    show_default=True,
    metavar="N",
    help="Entries of one batch.",
)
@click.option(
    "--reader",
    default="pipeline",
    show_default=True,
    metavar="NAME",
    help="Name under which Redis keeps entries for this lake until they are in it; another lake needs another name.",
)
@click.option("--accept-gap", is_flag=True, help="Go on from a new snapshot where entries were lost.")
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="Port of /metrics, /healthz and /readyz of this pipeline; 0 = off.",
)
@lake_option
@click.option(
    "--also", "others", multiple=True, metavar="NAMESPACE",
    help="A further namespace of the same Redis; may be repeated. One that fails does not stop the others.",
)  # fmt: skip
@setting_options("redis", "namespace", "bind_address")
@config_file_option
def run(
    once: bool, interval_s: float, master: str, driver_memory: str, max_entries: int, reader: str, accept_gap: bool,
    metrics_port: int, lake: str, conf: dict[str, str], others: tuple[str, ...], config_file: Path | None, **flags: Any,
) -> None:  # fmt: skip
    """Read the registry's streams into the tables, round after round.

    It may be stopped or killed at any moment: the next run continues where this one stopped. Spark starts when there is
    much to read. With --metrics-port, /metrics says how far behind it is, and when the last round went through.
    """
    queue_output()
    queue_children_output()  # of Spark's Java
    settings = find_target(flags, config_file)
    with spark_extra():
        from mqregistry.pipeline import jobs
        from mqregistry.pipeline.lake.lake import Lake
        from mqregistry.pipeline.spark.session import ending, session_when_needed
    where = Lake(lake)
    stop = threading.Event()
    signals: list[int] = []

    def interrupted(number: int, frame: Any) -> None:
        signals.append(number)
        if len(signals) > 1 or not started:
            click.echo("mqregistry: stopped", err=True)
            raise KeyboardInterrupt
        stop.set()
        click.echo("mqregistry: stopping; once more to stop at once", err=True)

    started = False
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, interrupted)
    where.try_to_write()
    click.echo(f"tables in {where.root}")
    with contextlib.ExitStack() as stack:
        progress = None
        if metrics_port:
            from ...server.process.figures.pipeline_status import PipelineStatus
            from ...server.process.http import HttpServer

            progress = PipelineStatus()
            stack.callback(HttpServer(settings.bind_address, metrics_port, progress, flag="--metrics-port").close)
        spark = session_when_needed(master=master, driver_memory=driver_memory, config=conf)
        started = True
        with ending(spark):
            done = jobs.run(
                spark, where,
                jobs.PipelineSettings(
                    settings.redis, settings.namespace, reader=reader, accept_gap=accept_gap, limit=max_entries,
                ),
                others=others, once=once, interval_s=interval_s, tell=click.echo, stop=stop,
                progress=progress,
            )  # fmt: skip
    if once:
        if done is None:  # interrupted; a run without --once ends no other way
            sys.exit(128 + signals[0])
        counts = ", ".join(f"{count:,} {name}" for name, count in done.entries.items())
        click.echo(f"done: {counts}")
