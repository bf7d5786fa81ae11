"""The command line ``mqregistry``: the table of its commands, and the entry point.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted, 253 could not start.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Final

import click

from .. import __version__
from ..errors import RegistryError, StartError
from ..names import printable
from ..queued_output import flush_output
from .lazy_group import LazyGroup

FAILED: Final = 1
INTERRUPTED: Final = 130  # what shells report of a process that SIGINT ended
COULD_NOT_START: Final = 253

# The module of each command has the command's name.
_MODULES: Final = {
    name: f"mqregistry.cli.{folder}.{'group' if name == folder else name.replace('-', '_')}"
    for name, folder in (
        ("up", "run"), ("serve", "run"), ("sweep", "run"), ("console", "run"),
        ("clusters", "read"), ("brokers", "read"), ("topics", "read"), ("route", "read"),
        ("tables", "read"), ("front-ends", "read"), ("why", "read"),
        ("topic", "write"), ("kv", "write"), ("config", "write"), ("auth", "auth"),
        ("watch", "read"), ("audit", "read"), ("streams", "read"), ("redis-cli", "read"),
        ("broker", "run"), ("pipeline", "pipeline"), ("demo", "run"), ("simulate", "run"),
        ("probe", "run"), ("compare", "outside"), ("shadow", "outside"),
    )
} | {
    "completion": "mqregistry.cli.completion", "top": "mqregistry.cli.top", "doctor": "mqregistry.cli.doctor.command",
}  # fmt: skip


@click.group(
    cls=LazyGroup, modules=_MODULES, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="mqregistry")
def cli() -> None:
    """A RocketMQ name server whose route tables live in Redis.

    \b
    On one machine:     mqregistry up
    In production:      mqregistry serve --redis URL
    Without a broker:   mqregistry demo
    Look at the tables: mqregistry clusters | brokers | topics | route TOPIC | tables | watch
    Why no route:       mqregistry why TOPIC
    Who is there:       mqregistry front-ends
    Who changed what:   mqregistry audit
    In a browser:       mqregistry console
    At a glance:        mqregistry top
    The event streams:  mqregistry streams
    Its Redis:          mqregistry redis-cli
    Does it all fit:    mqregistry doctor
    Change the tables:  mqregistry broker wipe | restore | forget NAME, topic delete | set TOPIC
    KV configuration:   mqregistry kv list | get | put | delete | export | import
    Shared settings:    mqregistry config get | set | export | import
    Who may do what:    mqregistry auth mode | user | secret | allow | deny | observe | check
    History, by Spark:  mqregistry pipeline run
    From outside:       mqregistry probe -n LIST | compare SIDE SIDE | shadow
    A test broker:      mqregistry broker run --name NAME
    A simulated day:    mqregistry simulate

    Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted, 253 could not start.
    """  # noqa: D301 (\\b is for click)


def main() -> None:
    """Run the command line; the exit code says how it ended."""
    try:
        sys.exit(cli.main(prog_name="mqregistry", standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except StartError as error:
        _complain(f"cannot start: {error}", COULD_NOT_START)
    except RegistryError as error:
        _complain(str(error), FAILED)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            raise
        # What stdout could not take is still in its buffer, and the interpreter writes it once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        _complain(f"cannot write: {error.strerror}", FAILED)
    finally:
        flush_output()


def _complain(text: str, code: int) -> None:
    click.echo("\n".join(map(printable, f"mqregistry: {text}".split("\n"))), err=True)
    sys.exit(code)
