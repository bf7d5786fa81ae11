"""``restore``: replaces what the registry has in Redis with a file that ``backup`` wrote."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import click
import msgspec

from ...config.settings import Settings
from ...embedded import EmbeddedRedis
from ...store.backup import restore as put_back
from .. import output
from ..options import config_file_option, read_settings, setting_options
from ..run.logging_setup import configure_logging
from ..run.private_folder import write_private_files
from ..run.state_files import locked
from ..write.confirm import confirm, yes_option


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@yes_option
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
@setting_options("redis", "namespace", "data_dir")
@config_file_option
def restore(file: Path, yes: bool, as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Replace all that the registry has in Redis by FILE, which 'backup' wrote.

    Without --redis this is the Redis in the data folder of 'mqregistry up', which must not run. With --redis, stop all
    front ends and sweepers first. Brokers that left after the backup are in the tables again until their timeout.
    """
    settings = read_settings(flags, config_file)
    where = f"namespace {settings.namespace} " + (
        "of that Redis" if settings.redis else f"in the data folder {settings.data_dir}"
    )
    confirm(f"Everything in {where} is replaced by what {file} has.", yes=yes, as_json=as_json)
    with contextlib.ExitStack() as stack:
        if not settings.redis:
            settings = _started(settings, stack)
        head = put_back(settings.redis, settings.namespace, file)
    output.answer(
        as_json, {"file": str(file), "namespace": settings.namespace, "keys": head.keys},
        f"{where}: {head.keys:,} keys restored; you may start again what you stopped",
    )  # fmt: skip


def _started(settings: Settings, stack: contextlib.ExitStack) -> Settings:
    """Start the Redis of the data folder, until ``stack`` is closed. Raises StartError if an ``up`` uses the folder."""
    folder = Path(settings.data_dir).expanduser().absolute()
    write_private_files()
    configure_logging(settings)
    stack.enter_context(locked(folder))
    return msgspec.structs.replace(settings, redis=stack.enter_context(EmbeddedRedis(folder)).url)
