"""``mqregistry sweep``: a sweeper by itself."""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path
from typing import Any

import click

from registry.cli import logs
from registry.cli.options import config_file_option, print_option, setting_options, start_settings
from registry.config import Settings
from registry.errors import ConfigError, StartError, StoreError, StoreUnavailable

logger = logging.getLogger("worker.sweeper")


@click.command()
@setting_options("redis", "namespace", "compat", "log_level", "log_file")
@config_file_option
@print_option
def sweep(config_file: Path | None, print_config: bool, **flags: Any) -> None:
    """Remove brokers that fall silent, apart from the front ends (which then run with --no-sweep).

    Any number may run side by side, without a leader.
    """
    settings = start_settings(flags, config_file, print_config=print_config)
    if not settings.redis:
        raise StartError("no Redis: give --redis redis://HOST:PORT (or MQREGISTRY_REDIS)")
    logs.configure(settings)
    asyncio.run(_run(settings))


async def _run(settings: Settings) -> None:
    from registry.store.store import Store
    from worker.sweeper import Sweeper

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        store = Store(settings.redis, settings.namespace, timeout_ms=settings.redis_timeout_ms, compat=settings.compat)
    except ConfigError as error:  # the URL
        raise StartError(str(error)) from error
    async with store:
        try:
            await store.connect()
        except (StoreUnavailable, StoreError) as error:
            raise StartError(str(error)) from error
        logger.info("sweeping namespace %s", settings.namespace)
        await Sweeper(store, settings).run(stop)
        logger.info("stopped")
