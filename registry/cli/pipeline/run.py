"""``pipeline run``: brings the registry's streams into the tables of the lake.

Modules that need the extra ``spark`` are imported when the command runs: this takes a second.
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
from ..options import also_option, config_file_option, lake_option, setting_options
from ..target import find_target
from .session import SparkStart, conf_option, spark_options


@click.command()
@click.option("--once", is_flag=True, help="End when the tables have everything that is in the streams now.")
@click.option(
    "--interval", "interval_s", type=click.FloatRange(min=0.1), default=60.0, show_default=True, metavar="SECONDS",
    help="Time between two batches of a stream.",
)  # fmt: skip
@spark_options
@conf_option
@click.option(
    "--max-entries", type=click.IntRange(min=1), default=250_000, show_default=True, metavar="N",
    help="The most entries of one batch.",
)  # fmt: skip
@click.option(
    "--reader", default="pipeline", show_default=True, metavar="NAME",
    help="Name of this lake as a reader: Redis keeps entries until the reader has them. Each lake needs its own name.",
)  # fmt: skip
@click.option("--accept-gap", is_flag=True, help="If entries were lost, continue with a new snapshot of the tables.")
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), default=0, metavar="PORT",
    help="Port of /metrics, /healthz and /readyz of this pipeline; 0 = off.",
)  # fmt: skip
@lake_option
@also_option("A namespace that fails does not stop the others.")
@setting_options("redis", "namespace", "bind_address")
@config_file_option
def run(
    once: bool, interval_s: float, spark: SparkStart, max_entries: int, reader: str, accept_gap: bool,
    metrics_port: int, lake: str, others: tuple[str, ...], config_file: Path | None, **flags: Any,
) -> None:  # fmt: skip
    """Read the registry's streams into the tables, as one application of Spark, until it is stopped.

    It may be stopped or killed at any moment: the next run continues where this one stopped. With --metrics-port,
    /metrics says how far behind the tables are.
    """
    queue_output()
    queue_children_output()  # Spark's Java process writes to it
    settings = find_target(flags, config_file)
    from mqregistry.pipeline.lake.lake import Lake
    from mqregistry.pipeline.namespace import RunSettings
    from mqregistry.pipeline.run import run as work

    where = Lake(lake)
    stop = threading.Event()
    signals: list[int] = []

    def interrupted(number: int, frame: Any) -> None:
        signals.append(number)
        if len(signals) > 1 or not started:
            click.echo("mqregistry: stopped", err=True)
            raise KeyboardInterrupt
        stop.set()
        click.echo("mqregistry: stopping; Ctrl-C once more stops at once", err=True)

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
        session = stack.enter_context((spark if once else spark.for_small_batches()).session())
        started = True
        wanted = RunSettings(settings.redis, (settings.namespace, *others), reader, accept_gap, max_entries)
        done = work(
            session, where, wanted, once=once, interval_s=interval_s, tell=click.echo, stop=stop, progress=progress
        )
    if once:
        if done is None:  # interrupted; a run without --once ends no other way
            sys.exit(128 + signals[0])
        counts = ", ".join(f"{count:,} {name}" for name, count in done.items())
        click.echo(f"done: {counts}")
