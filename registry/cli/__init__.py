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

# Each command: its module, and its line in the help. The help imports no module of a command.
_COMMANDS: Final = {
    "up": ("run.up", "Start a whole registry here: Redis, name server, sweeper"),
    "serve": ("run.serve", "Serve the tables of an external Redis, Sentinel or Redis Cluster"),
    "sweep": ("run.sweep", "Remove brokers whose heartbeats stopped, in a process of its own"),
    "console": ("run.console", "Show the tables, their changes and their past in a browser"),
    "clusters": ("read.clusters", "Show clusters, their broker names and addresses"),
    "brokers": ("read.brokers", "Show each broker, and when it expires"),
    "topics": ("read.topics", "Show topics with their queues"),
    "route": ("read.route", "Show a topic's route as clients get it"),
    "why": ("read.why", "Say why a topic has a route, or has none"),
    "tables": ("read.tables", "Show the tables as a Java NameServer holds them"),
    "front-ends": ("read.front_ends", "Show each front end and sweeper: ready, how far behind"),
    "topic": ("write.topic", "Delete a topic, or give it queues, only at the name servers"),
    "kv": ("write.kv", "Show, change and import the KV configuration"),
    "config": ("write.config", "Show and change the shared configuration"),
    "auth": ("auth.group", "Say who may do what: users, secrets, rules"),
    "watch": ("read.watch", "Show every change as it happens"),
    "audit": ("read.audit", "Show who changed what"),
    "streams": ("read.streams", "Show the event streams and their readers"),
    "redis-cli": ("read.redis_cli", "Run redis-cli on the Redis that holds the tables"),
    "backup": ("copies.backup", "Copy all that the registry keeps in Redis to a file"),
    "restore": ("copies.restore", "Replace what is in Redis by a file of 'backup'"),
    "broker": ("run.broker", "Wipe, restore or forget a broker name; run a test broker"),
    "pipeline": ("pipeline.group", "Turn the streams into tables of the past, with Spark"),
    "demo": ("run.demo", "Show a registry at work: brokers come, and one dies"),
    "simulate": ("run.simulate", "Play a cluster's day"),
    "probe": ("run.probe", "Check each name server of a list"),
    "compare": ("outside.compare", "Show the differences between name servers, or past states"),
    "migrate": ("outside.migrate", "Move from Java NameServers to this, or back, in the safe order"),
    "shadow": ("outside.shadow", "Pass connections on to a Java NameServer, compare answers"),
    "help": ("help.command", "Say what an error means, and what to do"),
    "completion": ("completion", "Print the completion script of a shell"),
    "top": ("top", "Show the registry at a glance, in a terminal"),
    "doctor": ("doctor.command", "Check Redis, this machine and the registry; say what to do"),
}


_MODULES: Final = {name: f"{__name__}.{module}" for name, (module, _) in _COMMANDS.items()}
_LINES: Final = {name: line for name, (_, line) in _COMMANDS.items()}


@click.group(
    cls=LazyGroup,
    modules=_MODULES,
    lines=_LINES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
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
    About an error:     mqregistry help NAME
    Change the tables:  mqregistry broker wipe | drain | restore | forget NAME, topic delete | set
    KV configuration:   mqregistry kv list | get | put | delete | export | import
    Shared settings:    mqregistry config get | set | export | import
    All in one file:    mqregistry backup FILE | restore FILE
    Who may do what:    mqregistry auth mode | user | secret | allow | deny | observe | check
    History, by Spark:  mqregistry pipeline run
    From outside:       mqregistry probe -n LIST | compare SIDE SIDE | shadow
    From Java and back: mqregistry migrate plan | check | back
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
        if not isinstance(error, click.UsageError):  # its message already names the help page of the command
            _name_entry(error, error.format_message())
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except StartError as error:
        _complain(error, f"cannot start: {error}", COULD_NOT_START)
    except RegistryError as error:
        _complain(error, str(error), FAILED)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            raise
        # Without this, the interpreter writes the text in stdout's buffer once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        _complain(error, f"cannot write: {error.strerror}", FAILED)
    finally:
        flush_output()


def _complain(error: Exception, text: str, code: int) -> None:
    click.echo("\n".join(map(printable, f"mqregistry: {text}".split("\n"))), err=True)
    _name_entry(error, text)
    sys.exit(code)


def _name_entry(error: Exception, text: str) -> None:
    """Name the entry of the troubleshooting page for an error."""
    from .help.entries import entry_of  # only an error needs it

    click.echo(f"See: mqregistry help {entry_of(error, text)}", err=True)
