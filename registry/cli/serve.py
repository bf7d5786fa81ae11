"""``mqregistry serve``: a front end on a Redis of your own."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.cli import logs
from registry.cli.options import config_file_option, print_option, set_option, setting_options, start_settings
from registry.errors import StartError

if TYPE_CHECKING:
    from registry.server.processes import Forked


@click.command()
@setting_options(
    "redis", "bind_address", "listen_port", "workers", "namespace", "http_port", "sweep", "compat", "log_level",
    "log_file",
)  # fmt: skip
@set_option
@config_file_option
@print_option
def serve(config_file: Path | None, print_config: bool, **flags: Any) -> None:
    """Serve the tables of an external Redis (6.2 or later), Sentinel or Redis Cluster.

    Any number of front ends may serve one namespace; each can be killed at any time. Ctrl-C or SIGTERM drains.
    """
    settings = start_settings(flags, config_file, print_config=print_config)
    if not settings.redis:
        raise StartError(
            "no Redis: give --redis redis://HOST:PORT (or MQREGISTRY_REDIS, or redis=... in the properties file); "
            "'mqregistry up' brings a Redis of its own"
        )
    logs.configure(settings)
    # Only now: what is asked with -p or --help needs none of it.
    gc.disable()  # of what is imported nothing is garbage; fork_workers enables it
    from registry.server.processes import fork_workers
    from registry.server.supervisor import Supervisor

    async def run(forked: Sequence[Forked]) -> None:
        await Supervisor(settings, forked=forked).run()

    with fork_workers(settings.workers) as forked:
        asyncio.run(run(forked))
