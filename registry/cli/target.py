"""Which registry an operators' command looks at: the one that --redis names, or the ``up`` that runs here."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from registry.cli.options import config_file_option, read_settings, setting_options
from registry.cli.running import find_running
from registry.config import Settings
from registry.errors import ConfigError, StoreUnavailable

_Function = TypeVar("_Function", bound=Callable[..., Any])


def target_options(function: _Function) -> _Function:
    """--redis, --namespace, -c and --json."""
    function = click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")(function)
    return setting_options("redis", "namespace")(config_file_option(function))


def find_target(flags: dict[str, Any], config_file: Path | None) -> Settings:
    """The settings of the command, with a Redis.

    Raises:
        click.ClickException: none was named, and not exactly one runs here; the message says what to do.
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


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end; Ctrl-C ends quietly, as what was shown is shown."""
    with contextlib.suppress(KeyboardInterrupt):
        try:
            asyncio.run(work)
        except ConfigError as error:  # the URL
            raise click.UsageError(str(error)) from error
        except StoreUnavailable as error:
            raise StoreUnavailable(
                f"{error}\nIs Redis up, and is this its address? --redis URL names another"
            ) from error
