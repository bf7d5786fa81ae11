"""``top``: brokers sorted by the time until they expire, changes, and rates, in a terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from ..config.settings import Settings
from ..names import printable
from .extras import extra
from .options import config_file_option, setting_options
from .target import find_target, open_target, run


@click.command()
@click.option("-n", "--number", type=click.IntRange(min=1), metavar="N", help="End after N refreshes, one a second.")
@setting_options("redis", "namespace")
@config_file_option
def top(number: int | None, config_file: Path | None, **flags: Any) -> None:
    """Show the registry at a glance, in a terminal: when brokers expire, what changes, how many requests come.

    Brokers sorted by the time until they expire; changes with their authors as they come; lookups, registrations and
    heartbeats a second, over the last minute. q quits, p pauses, / filters. It only reads.
    """
    settings = find_target(flags, config_file)
    with extra("top"):
        from ..top import app  # noqa: F401
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("top needs a terminal; 'mqregistry brokers' and 'mqregistry watch' do not")
    run(_top(settings, number))


async def _top(settings: Settings, number: int | None) -> None:
    from ..store.connection.url import without_password
    from ..top.app import show
    from ..top.watched import Watched

    async with open_target(settings) as store:
        title = printable(f"{settings.namespace} at {without_password(settings.redis)}")
        status = await show(Watched(store), title, number)
    if status:
        sys.exit(status)
