"""``config``: the shared run-time configuration, which request 318 (UPDATE_NAMESRV_CONFIG) changes over the wire."""

from __future__ import annotations

from pathlib import Path

import click

from ...behaviour import behaviour_of
from ...config import properties
from ...config.java_keys import KNOWN_TO_JAVA
from ...config.settings import options_by_key
from ...store.config_writes import KvStore
from ...store.snapshot import read_shared_config
from ...store.store import Store
from .. import output
from ..target import target_command


@click.group()
def config() -> None:
    """Export and import the shared configuration of a namespace."""


@config.command()
@target_command
async def export(store: Store, as_json: bool) -> None:
    """Print what request 318 (UPDATE_NAMESRV_CONFIG) has set. 'mqregistry serve -p' shows all settings."""
    found = dict(sorted((await read_shared_config(store)).items()))
    if as_json:
        output.json_page(found)
    else:
        click.echo("".join(properties.line(key, value) for key, value in found.items()), nl=False)


@config.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@target_command
async def import_(store: Store, file: Path, as_json: bool) -> None:
    """Set every key of FILE, properties as 'export' prints them; all or nothing. Doing it again changes nothing."""
    wanted = read_file(file, store.compat)
    before = await read_shared_config(store)
    if wanted:
        await KvStore(store).set_config(wanted)
    changed = {key: value for key, value in wanted.items() if before.get(key) != value}
    if as_json:
        output.json_page({"changed": changed, "unchanged": len(wanted) - len(changed)})
    else:
        for key, value in changed.items():
            output.show(f"{key}={value}" + (f" (was {before[key]})" if key in before else ""))
        click.echo(f"{len(changed)} set, {len(wanted) - len(changed)} the same")


def read_file(file: Path, compat: str) -> dict[str, str]:
    """The settings in a file.

    Args:
        compat: the compat mode of the namespace that they are for.

    Raises:
        click.ClickException: the file cannot be read, or has a key or value that no front end would use.
    """
    try:
        entries = properties.parse(file.read_bytes())
    except OSError as error:
        raise click.ClickException(f"cannot read {file}: {error.strerror or error}") from error
    except properties.PropertiesSyntaxError as error:
        raise click.ClickException(f"{file}:{error.line}: {error}") from error
    ignored, found = behaviour_of(compat).ignored_settings, {}
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
        if entry.key in ignored:
            raise click.ClickException(
                f"{where} has no effect in this namespace, which behaves like NameServer {compat}: take the line out"
            )
        found[entry.key] = entry.value
    return found
