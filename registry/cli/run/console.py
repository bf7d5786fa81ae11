"""``mqregistry console``: pages for a browser, in a process of its own."""

from __future__ import annotations

import asyncio
import ipaddress
import os
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from ... import __version__
from ...config.settings import Settings
from ...config.sources import default_data_dir
from ...errors import StartError
from ...events.by import CONSOLE, this_process
from ...store.store import open_existing
from ..options import config_file_option, setting_options
from ..target import find_target
from .logging_setup import configure_logging

PORT: Final = 9880


@click.command()
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="HOST", help="Address of this machine to listen on."
)
@click.option(
    "--port", default=PORT, show_default=True, type=click.IntRange(0, 65535), metavar="PORT",
    help="Port to listen on; 0: any that is free.",
)  # fmt: skip
@click.option("--actions", is_flag=True, help="Let pages change something. Without it they only read.")
@click.option("--root-path", default="", metavar="PATH", help="The path below which a proxy shows the console.")
@click.option(
    "--checkpoints", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="Folder for what time travel begins with.  [default: console in the data folder]",
)  # fmt: skip
@setting_options("redis", "namespace", "log_level", "log_file")
@config_file_option
def console(
    host: str, port: int, actions: bool, root_path: str, checkpoints: Path | None, config_file: Path | None,
    **flags: Any,
) -> None:  # fmt: skip
    """Show the tables in a browser: what is, what was, and who changed it.

    It reads Redis with the login of the operators' commands, and is no part of a front end. It has no login of its
    own, so it listens on this machine alone.
    """
    _check_host(host)
    if root_path and (not root_path.startswith("/") or root_path.startswith("//")):
        raise click.UsageError(f"--root-path {root_path!r}: expected a path such as /registry")
    settings = find_target(flags, config_file)
    configure_logging(settings)
    try:
        from ...console import app  # noqa: F401 - what it needs is an extra
    except ImportError as error:
        raise StartError(f"{error.name} is not installed: pip install 'mqregistry[console]'") from error
    folder = checkpoints or default_data_dir(os.environ) / "console"
    asyncio.run(_serve(settings, folder, host, port, actions, root_path))


def _check_host(host: str) -> None:
    """Refuse what others reach: they would read every route and value, and nothing asks who they are.

    Raises:
        click.UsageError: it is no address of this machine alone.
    """
    try:
        fits = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        fits = False
    if not fits:
        raise click.UsageError(
            f"--host {host}: the console has no login, so it listens on 127.0.0.1 or ::1 alone; from elsewhere reach "
            "it through ssh -L, or a proxy on this machine that asks who it is"
        )


async def _serve(
    settings: Settings, folder: Path, host: str, port: int, actions: bool, root_path: str
) -> None:  # fmt: skip
    from ...console.app import serve

    def tell(address: str) -> None:
        click.echo(f"The console is at {address}" + (" and may change the tables" if actions else ""))

    async with open_existing(
        settings.redis, settings.namespace, timeout_ms=settings.redis_timeout_ms, by=this_process(CONSOLE)
    ) as store:
        settings = msgspec.structs.replace(settings, compat=store.compat)
        await serve(
            store,
            settings,
            folder,
            host=host,
            port=port,
            may_act=actions,
            root_path=root_path,
            version=__version__,
            when_ready=tell,
        )
