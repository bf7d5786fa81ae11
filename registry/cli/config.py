"""``config``: the shared run-time configuration, which request 318 changes over the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from registry import properties
from registry.cli import show
from registry.cli.reads import existing_namespace, read_config
from registry.cli.target import find_target, run, target_options
from registry.config import KNOWN_TO_JAVA, Settings, options_by_key
from registry.store.kvconfig import KvStore


@click.group()
def config() -> None:
    """Show and take over the shared configuration of a namespace."""


@config.command()
@target_options
def export(as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Print what was set by request 318, as properties; 'mqregistry serve -p' shows what is in effect."""

    async def work(settings: Settings) -> None:
        async with existing_namespace(settings):
            found = dict(sorted((await read_config(settings)).items()))
        if as_json:
            show.json_page(found)
        else:
            click.echo("".join(properties.line(key, value) for key, value in found.items()), nl=False)

    run(work(find_target(flags, config_file)))


@config.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@target_options
def import_(file: Path, as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Set every key of FILE, properties as 'export' prints them; all or nothing. Doing it again changes nothing."""

    async def work(settings: Settings) -> None:
        wanted = read_file(file)
        async with existing_namespace(settings) as store:
            before = await read_config(settings)
            if wanted:
                await KvStore(store).set_config(wanted)
        changed = {key: value for key, value in wanted.items() if before.get(key) != value}
        if as_json:
            show.json_page({"changed": changed, "unchanged": len(wanted) - len(changed)})
        else:
            for key, value in changed.items():
                click.echo(f"{key}={value}" + (f" (was {before[key]})" if key in before else ""))
            click.echo(f"{len(changed)} set, {len(wanted) - len(changed)} the same")

    run(work(find_target(flags, config_file)))


def read_file(file: Path) -> dict[str, str]:
    """The settings that a file holds.

    Raises:
        click.ClickException: it cannot be read, or holds a key or value that no front end would use.
    """
    try:
        entries = properties.parse(file.read_bytes())
    except OSError as error:
        raise click.ClickException(f"cannot read {file}: {error.strerror or error}") from error
    except properties.PropertiesSyntaxError as error:
        raise click.ClickException(f"{file}:{error.line}: {error}") from error
    found = {}
    for entry in entries:
        option = options_by_key().get(entry.key)
        where = f"{file}:{entry.line}: {entry.key}"
        if option is None and entry.key not in KNOWN_TO_JAVA:
            raise click.ClickException(f"{where}: there is no such setting; take the line out, or use another release")
        if option is not None:
            if not option.about.shared:
                raise click.ClickException(f"{where} belongs to one process, not to all: set it in its own file")
            try:
                option.parse(entry.value)
            except ValueError:
                raise click.ClickException(f"{where}={entry.value}: expected {option.allowed}") from None
        found[entry.key] = entry.value
    return found
