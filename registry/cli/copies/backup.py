"""``backup``: all that the registry keeps in Redis, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ...store.backup import back_up
from .. import output
from ..target import find_target, target_options


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@target_options
def backup(file: Path, as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Copy all that the registry keeps in Redis to FILE: tables, KV, settings, users with their secrets, streams.

    It may be taken at any time. Only you may read FILE: it has the secrets of your users.
    """
    settings = find_target(flags, config_file)
    try:
        head = back_up(settings.redis, settings.namespace, file)
    except OSError as error:
        raise click.ClickException(f"cannot write {file}: {error.strerror or error}") from error
    output.answer(
        as_json, {"file": str(file), "namespace": head.namespace, "keys": head.keys},
        f"namespace {head.namespace}: {head.keys:,} keys in {file} ({file.stat().st_size / 1e6:.1f} MB)",
    )  # fmt: skip
