"""``watch``: shows the changes of the tables as they happen."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from ...config.settings import Settings
from ...errors import NoNamespace, RegistryError, StoreUnavailable
from ...events.changes import Change
from ...follow.follow import Follow, StreamGap
from ...operators.words import what
from ...store.snapshot import read_head
from ...store.store import Store
from .. import output
from ..target import find_target, open_target, run, target_options

BLOCK_MS: Final = 1000
RETRY_S: Final = 0.5


class RedisAway:
    """Says once that Redis is away, and once that it is back."""

    def __init__(self) -> None:
        self.now = False

    async def wait(self, error: RegistryError) -> None:
        """Say that Redis did not answer, unless this was said already; returns when it may be asked again."""
        if not self.now:
            click.echo(f"mqregistry: {error}; waiting for it", err=True)
        self.now = True
        await asyncio.sleep(RETRY_S)

    def over(self) -> None:
        """Note that Redis answers, and say so once."""
        if self.now:
            click.echo("mqregistry: Redis is back", err=True)
        self.now = False


@click.command()
@click.option(
    "--from-start", is_flag=True, help="Begin with the oldest change in the stream, not with the next change."
)
@click.option("-n", "--number", type=click.IntRange(min=1), metavar="N", help="End after N changes.")
@target_options
def watch(
    from_start: bool, number: int | None, as_json: bool, config_file: Path | None, **flags: Any
) -> None:  # fmt: skip
    """Show every change of the tables as it happens, until Ctrl-C."""
    settings = find_target(flags, config_file)
    run(until_interrupted(lambda stop: _watch(settings, from_start, number, as_json, stop)))


async def until_interrupted(watch_until: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run something that shows changes until Ctrl-C, which cancels it and sets ``stop``.

    To cancel is not enough: the Redis client can swallow a cancellation that comes while one of its timeouts ends.
    """
    stop = asyncio.Event()
    watching = asyncio.ensure_future(watch_until(stop))

    def interrupted() -> None:
        stop.set()
        watching.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupted)
    try:
        await watching
    except asyncio.CancelledError:
        if not stop.is_set():
            raise


async def _watch(
    settings: Settings, from_start: bool, number: int | None, as_json: bool, stop: asyncio.Event
) -> None:  # fmt: skip
    async with open_target(settings) as store:
        head = await read_head(store)
    # a blocking read may last BLOCK_MS longer than other commands
    settings = msgspec.structs.replace(settings, redis_timeout_ms=settings.redis_timeout_ms + BLOCK_MS)
    async with Store(settings.redis, settings.namespace, timeout_ms=settings.redis_timeout_ms) as store:
        follow = Follow(store, head.epoch) if from_start else Follow.behind(store, head)
        shown = 0
        away = RedisAway()
        while not stop.is_set() and (number is None or shown < number):
            try:
                changes = await follow.read_or_check(block_ms=BLOCK_MS)
            except StreamGap as gap:
                click.echo(f"mqregistry: {gap}", err=True)
                continue
            except (StoreUnavailable, NoNamespace) as error:
                await away.wait(error)
                continue
            away.over()
            for change in changes[: None if number is None else number - shown]:
                output.answer(as_json, change, line(change))
                shown += 1


def line(change: Change) -> str:
    """Return one change as a line for people."""
    part = f" ({change.part}/{change.parts})" if change.parts > 1 else ""
    by = f"; by {change.by}" if change.by is not None else ""
    return f"{output.moment(change.ms)}  {change.seq:>8}  {change.type:<19} {what(change)}{part}{by}"
