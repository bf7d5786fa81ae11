"""The registry that an operators' command works on: the one that --redis names, or the ``up`` that runs here."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from ..config.settings import Settings
from ..errors import ConfigError, StoreRefusesWrites, StoreUnavailable
from ..events.by import CLI, this_process
from ..store.store import Store, open_existing
from .options import config_file_option, read_settings, setting_options, together
from .run.state_files import find_running

_Answer = TypeVar("_Answer")

target_options: Final = together(
    setting_options("redis", "namespace"),
    config_file_option,
    click.option("--json", "as_json", is_flag=True, help="JSON instead of a table."),
)


def find_target(flags: dict[str, Any], config_file: Path | None) -> Settings:
    """The settings of the command, with a Redis.

    Raises:
        click.ClickException: no Redis is named, and none or several run here; the message says what to do.
    """
    settings = read_settings(flags, config_file)
    if settings.redis:
        return settings
    running = find_running()
    chosen = [one for one in running if one.kind == "up"] or running
    if not chosen:
        raise click.ClickException(
            "no 'mqregistry up' runs here: start one, or say where the tables are: "
            "--redis redis://HOST:PORT (or MQREGISTRY_REDIS)"
        )
    if len(chosen) > 1:
        choices = "\n".join(f"  --redis {one.redis}   ({one.kind} on {one.host}:{one.port})" for one in chosen)
        raise click.ClickException(f"several registries run here; say which:\n{choices}")
    namespace = settings.namespace if settings.source("namespace") != "default" else chosen[0].namespace
    return msgspec.structs.replace(settings, redis=chosen[0].redis, namespace=namespace)


def open_target(settings: Settings) -> AbstractAsyncContextManager[Store]:
    """A store on the namespace of the command; a namespace that does not exist is an error (``open_existing``)."""
    return open_existing(settings.redis, settings.namespace, timeout_ms=settings.redis_timeout_ms, by=this_process(CLI))


def target_command(work: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a click callback of ``async def work(store, ..., as_json)``, with the options of ``target_options``.

    ``work`` gets the store of the target, and the command's other arguments and options; an argument
    ``settings`` gets the settings of the command.
    """
    wants_settings = "settings" in inspect.signature(work).parameters

    @functools.wraps(work)
    def command(config_file: Path | None, redis: str | None, namespace: str | None, **arguments: Any) -> None:
        def open_work(store: Store, settings: Settings) -> Coroutine[Any, Any, None]:
            return work(store, **arguments, **({"settings": settings} if wants_settings else {}))

        ask_target({"redis": redis, "namespace": namespace}, config_file, open_work)

    return target_options(command)


def ask_target(
    flags: dict[str, Any], config_file: Path | None, question: Callable[[Store, Settings], Awaitable[_Answer]]
) -> _Answer:
    """The result of a coroutine that gets the store of the target, and the settings of the command."""
    settings = find_target(flags, config_file)

    async def ask() -> _Answer:
        async with open_target(settings) as store:
            return await question(store, settings)

    return run(ask())


def run(work: Coroutine[Any, Any, _Answer]) -> _Answer:
    """Run a command's work to its end; if Redis does not answer, the error says what may be wrong."""
    try:
        return asyncio.run(work)
    except ConfigError as error:  # the URL is wrong
        raise click.UsageError(str(error)) from error
    except StoreRefusesWrites:  # Redis answers, and its message says what is wrong
        raise
    except StoreUnavailable as error:
        raise StoreUnavailable(f"{error}\nIs Redis up, and is this its address? --redis URL names another") from error
