"""``mqregistry sweep``: a sweeper without a front end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import Any

import click
import msgspec

from ...config.settings import Settings
from ...errors import ConfigError, StartError, StoreError, StoreUnavailable
from ...events.by import SWEEPER, this_process
from ...tasks import set_by_signals
from ..options import config_file_option, no_wait_option, print_option, setting_options, start_settings
from .logging_setup import configure_logging

logger = logging.getLogger("mqregistry.worker.sweeper")


@click.command()
@setting_options(
    "redis", "namespace", "compat", "bind_address", "log_level", "log_format", "log_file",
)  # fmt: skip
@config_file_option
@print_option
@no_wait_option
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), default=0, metavar="PORT",
    help="Port of /metrics and /healthz of this sweeper; 0 = off. It ignores httpPort, which is for front ends.",
)  # fmt: skip
def sweep(config_file: Path | None, print_config: bool, no_wait: bool, metrics_port: int, **flags: Any) -> None:
    """Remove brokers whose heartbeats stopped, in a process of its own (front ends then run with --no-sweep).

    Any number of sweepers may run side by side, without a leader.
    """
    # A front end on this machine may use the same file or environment, so this must not take its httpPort.
    settings = msgspec.structs.replace(
        start_settings(flags, config_file, print_config=print_config), http_port=metrics_port
    )
    if not settings.redis:
        raise StartError("no Redis: give --redis redis://HOST:PORT (or MQREGISTRY_REDIS)")
    configure_logging(settings)
    asyncio.run(_run(settings, wait=not no_wait))


async def _run(settings: Settings, *, wait: bool) -> None:
    from mqregistry.worker.sweeper import Sweeper, reach

    from ...server.process.figures.sweeper_status import SweeperStatus
    from ...server.process.port.sockets import advertised
    from ...store.store import Store

    stop = set_by_signals()
    try:
        store = Store(
            settings.redis, settings.namespace, timeout_ms=settings.redis_timeout_ms, compat=settings.compat,
            by=this_process(SWEEPER),
        )  # fmt: skip
    except ConfigError as error:  # the URL is wrong
        raise StartError(str(error)) from error
    async with store:
        try:
            if not wait:
                await store.connect()
            elif not await reach(store, stop):
                return
        except (StoreUnavailable, StoreError) as error:
            raise StartError(str(error)) from error
        with contextlib.ExitStack() as stack:
            told = SweeperStatus(store.times)
            http_address = ""
            if settings.http_port:
                from ...server.process.http import HttpServer

                http = HttpServer(
                    settings.bind_address, settings.http_port, told, flag="--metrics-port", hangs=told.hangs
                )
                stack.callback(http.close)
                _, http_address = advertised(settings)
            logger.info("sweeping namespace %s, HTTP port %s", settings.namespace, settings.http_port or "off")
            sweeper = Sweeper(store, settings, removed=told.removed, alarmed=told.alarmed, swept=told.swept,
                              passed=told.passed, http_address=http_address)  # fmt: skip
            await sweeper.run(stop)
        logger.info("stopped")
