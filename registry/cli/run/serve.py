"""``mqregistry serve``: a front end on a Redis of your own."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...errors import StartError
from ..options import config_file_option, no_wait_option, print_option, set_option, setting_options, start_settings
from .logging_setup import configure_logging

if TYPE_CHECKING:
    from ...server.process.spawning import ForkedWorker


@click.command()
@setting_options(
    "redis", "bind_address", "listen_port", "workers", "namespace", "http_port", "sweep", "compat", "log_level",
    "log_format", "log_file",
)  # fmt: skip
@set_option
@config_file_option
@print_option
@no_wait_option
@click.option(
    "--fresh", is_flag=True, envvar="MQREGISTRY_FRESH",
    help="Say that this Redis is new and has lost nothing: an unknown topic gets code 17 at once. Without --fresh, a "
    "new namespace first gives live brokers 35 s to register.",
)  # fmt: skip
def serve(config_file: Path | None, print_config: bool, no_wait: bool, fresh: bool, **flags: Any) -> None:
    """Serve the tables of an external Redis (6.2 or later), Sentinel or Redis Cluster.

    Any number of front ends may serve one namespace; each can be killed at any time. Ctrl-C or SIGTERM first drains the
    front end.

    While Redis is away at the start, every request is answered with an error (code 1), and /readyz with 503.
    """
    settings = start_settings(flags, config_file, print_config=print_config)
    if not settings.redis:
        raise StartError(
            "no Redis: give --redis redis://HOST:PORT (or MQREGISTRY_REDIS, or redis=... in the properties file); "
            "'mqregistry up' starts a Redis of its own"
        )
    configure_logging(settings)
    # Imported only now: -p and --help do not need these modules.
    gc.disable()  # nothing that is imported is garbage; fork_workers enables it again
    from ...server.process.spawning import fork_workers
    from ...server.process.supervisor import Supervisor
    from .front_end import run_front_end

    async def run(forked: Sequence[ForkedWorker]) -> None:
        await run_front_end(Supervisor(settings, forked=forked, wait=not no_wait, fresh=fresh))

    with fork_workers(settings.workers) as forked:
        asyncio.run(run(forked))
