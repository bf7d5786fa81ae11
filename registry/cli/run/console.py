"""``mqregistry console``: pages for a browser, in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec
import uvloop

from ... import __version__
from ...config.settings import Settings
from ...config.sources import default_data_dir
from ...console.login.reach import check_reach
from ...embedded import end_with_parent
from ...errors import NoNamespace, StoreUnavailable
from ...events.by import CONSOLE, this_process
from ...store.store import Store, open_existing
from ...tasks import wait_within
from ..extras import extra
from ..options import also_option, config_file_option, setting_options
from ..target import find_target
from .logging_setup import configure_logging

logger = logging.getLogger("mqregistry.console")

PORT: Final = 9880
_LOOK_EVERY_S: Final = 1.0
# The console gives way to a front end on the same core. At the lowest priority (19) a busy machine would show no page.
_NICE: Final = 10


@click.command()
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="HOST", help="Address of this machine to listen on."
)
@click.option(
    "--port", default=PORT, show_default=True, type=click.IntRange(0, 65535), metavar="PORT",
    help="Port to listen on; 0: any that is free.",
)  # fmt: skip
@click.option("--actions", is_flag=True, help="Let pages change the tables. Without this option pages only read.")
@click.option(
    "--login", is_flag=True,
    help="Ask for a user of the registry and one of its secrets; users then see and do what their rights allow.",
)  # fmt: skip
@click.option(
    "--tls-cert", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Speak https: the certificate with its chain, as PEM.",
)  # fmt: skip
@click.option(
    "--tls-key", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="The key of --tls-cert, without a password, as PEM.",
)  # fmt: skip
@click.option(
    "--origin", "origins", multiple=True, metavar="URL",
    help="The address at which browsers open the console, if it is not 127.0.0.1 or localhost: "
    "https://console.example. May be given several times.",
)  # fmt: skip
@click.option(
    "--proxy", "proxies", multiple=True, metavar="ADDRESS",
    help="Address or network of a proxy that names browsers' addresses in X-Forwarded-For. May be given several times.",
)  # fmt: skip
@click.option("--root-path", default="", metavar="PATH", help="The path below which a proxy shows the console.")
@click.option(
    "--checkpoints", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="Folder for checkpoints, the states from which time travel begins.  [default: console in the data folder]",
)  # fmt: skip
@click.option(
    "--lake", metavar="DIR", envvar="MQREGISTRY_LAKE",
    help="Folder (or URI) of the pipeline's tables: time travel beyond what Redis keeps, and the report. "
    "[env: MQREGISTRY_LAKE]",
)  # fmt: skip
@click.option(
    "--report", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="A page of 'mqregistry pipeline report' to show. With --lake, the console itself makes it when it is opened.",
)  # fmt: skip
@click.option(
    "--wait", is_flag=True,
    help="Wait at the start for a Redis that is away, and for the first front end to make the namespace.",
)  # fmt: skip
@also_option("Each has its pages below /ns/NAME, and the first page lists them.")
@click.option("--parent", type=int, hidden=True, help="The process that started the console, which ends with it.")
@setting_options("redis", "namespace", "log_level", "log_file")
@config_file_option
def console(
    host: str, port: int, actions: bool, root_path: str, checkpoints: Path | None, lake: str | None,
    report: Path | None, login: bool, tls_cert: Path | None, tls_key: Path | None, origins: tuple[str, ...],
    proxies: tuple[str, ...], wait: bool, others: tuple[str, ...], parent: int | None,
    config_file: Path | None, **flags: Any,
) -> None:  # fmt: skip
    """Show the tables in a browser: the present, the past, and who changed what.

    It reads Redis with the login of the operators' commands, and is no part of a front end. Without --login it asks for
    no user, and only browsers on this machine reach it.
    """
    if parent is not None:
        end_with_parent(parent)
    try:
        reach = check_reach(host, login=login, origins=origins, proxies=proxies, cert=tls_cert, key=tls_key)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if root_path and (not root_path.startswith("/") or root_path.startswith("//")):
        raise click.UsageError(f"--root-path {root_path!r}: expected a path such as /registry")
    settings = find_target(flags, config_file)
    configure_logging(settings)
    with extra("console"):
        from ...console import app  # noqa: F401
    folder = checkpoints or default_data_dir(os.environ) / "console"
    namespaces = list(dict.fromkeys([settings.namespace, *others]))
    if report is not None and len(namespaces) > 1:
        raise click.UsageError("--report FILE is the page of one namespace: with --also, name the --lake")
    arguments: dict[str, Any] = {"host": host, "port": port, "may_act": actions, "root_path": root_path, "reach": reach,
                                 "report_file": report}  # fmt: skip
    if lake is not None:
        from ..read.lake_tables import LakePast

        arguments["open_lake"] = lambda namespace: LakePast(lake, namespace)
    os.nice(_NICE)
    uvloop.run(_serve(settings, namespaces, folder, arguments, wait=wait))


async def _serve(
    settings: Settings, namespaces: Sequence[str], folder: Path, arguments: dict[str, Any], *, wait: bool
) -> None:
    from ...console.app import serve

    def tell(address: str) -> None:
        click.echo(f"The console is at {address}" + (" and may change the tables" if arguments["may_act"] else ""))

    async with contextlib.AsyncExitStack() as stack:
        stores = []
        for namespace in namespaces:
            store = await _open(msgspec.structs.replace(settings, namespace=namespace), stack, wait=wait)
            if store is None:
                return
            stores.append(store)
        await serve(stores, settings, folder, version=__version__, when_ready=tell, **arguments)


async def _open(settings: Settings, stack: contextlib.AsyncExitStack, *, wait: bool) -> Store | None:
    """The store that the console reads; None: it was stopped while it waited."""
    stop, told = asyncio.Event(), False
    loop, numbers = asyncio.get_running_loop(), (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    try:
        while not stop.is_set():
            try:
                return await stack.enter_async_context(open_existing(
                    settings.redis, settings.namespace, timeout_ms=settings.redis_timeout_ms, by=this_process(CONSOLE)
                ))  # fmt: skip
            except (StoreUnavailable, NoNamespace) as error:
                if not wait:
                    raise
                if not told:
                    logger.warning("%s; waiting until it is there", error)
                told = True
            await wait_within(stop, _LOOK_EVERY_S)
        return None
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
