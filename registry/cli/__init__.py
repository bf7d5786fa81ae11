"""The command line: ``mqregistry``.

Exit codes: 0 done, 1 failed, 2 wrong usage, 253 could not start.
"""

from __future__ import annotations

import importlib
import sys
from typing import Final

import click

from registry import __version__
from registry.errors import RegistryError, StartError

FAILED: Final = 1
COULD_NOT_START: Final = 253

# Where each command is: a command imports only what it needs itself, or the start would be slow.
_COMMANDS: Final = {
    "up": "registry.cli.up",
    "serve": "registry.cli.serve",
    "sweep": "registry.cli.sweep",
    "clusters": "registry.cli.tables",
    "brokers": "registry.cli.tables",
    "topics": "registry.cli.tables",
    "route": "registry.cli.tables",
    "kv": "registry.cli.kv",
    "config": "registry.cli.config",
    "watch": "registry.cli.watch",
    "streams": "registry.cli.streams",
    "broker": "registry.cli.broker",
    "pipeline": "registry.cli.pipeline",
    "demo": "registry.cli.demo",
    "simulate": "registry.cli.simulate",
    "completion": "registry.cli.completion",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _COMMANDS.get(cmd_name)
        if module is None:
            return None
        command = getattr(importlib.import_module(module), cmd_name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="mqregistry")
def cli() -> None:
    """A RocketMQ name server whose route tables live in Redis.

    \b
    On one machine:     mqregistry up
    In production:      mqregistry serve --redis URL
    Without a broker:   mqregistry demo
    Look at the tables: mqregistry clusters | brokers | topics | route TOPIC | watch
    The journal:        mqregistry streams
    KV configuration:   mqregistry kv list | get | put | delete | export | import
    Its past, by Spark: mqregistry pipeline run
    A broker for drills: mqregistry broker run --name NAME
    A cluster's day:     mqregistry simulate
    Shared settings:    mqregistry config export | import

    Exit codes: 0 done, 1 failed, 2 wrong usage, 253 could not start.
    """  # noqa: D301 (\\b is for click)


def main() -> None:
    """The entry point."""
    try:
        cli.main(prog_name="mqregistry")
    except StartError as error:
        _complain(f"cannot start: {error}", COULD_NOT_START)
    except RegistryError as error:
        _complain(str(error), FAILED)


def _complain(text: str, code: int) -> None:
    click.echo(f"mqregistry: {text}", err=True)
    sys.exit(code)
