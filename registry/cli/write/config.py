"""``config``: the shared configuration of all front ends, which request 318 (UPDATE_NAMESRV_CONFIG) changes, too."""

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
    """Show and change the shared configuration of a namespace."""


@config.command()
@target_command
async def export(store: Store, as_json: bool) -> None:
    """Print what 'config set' and request 318 have set. 'mqregistry serve -p' shows all settings."""
    found = dict(sorted((await read_shared_config(store)).items()))
    if as_json:
        output.json_page(found)
    else:
        click.echo("".join(properties.line(key, value) for key, value in found.items()), nl=False)


@config.command()
@click.argument("key")
@target_command
async def get(store: Store, key: str, as_json: bool) -> None:
    """Print the value of KEY that is set for all front ends. 'mqregistry serve -p' shows defaults, too."""
    found = await read_shared_config(store)
    if key not in found:
        raise click.ClickException(
            f"{key} is not set for all front ends; these are: {', '.join(sorted(found)) or 'none'}"
        )
    if as_json:
        output.json_line({"key": key, "value": found[key]})
    else:
        output.show_value(found[key])


@config.command("set")
@click.argument("assignments", nargs=-1, required=True, metavar="KEY=VALUE...")
@target_command
async def set_(store: Store, assignments: tuple[str, ...], as_json: bool) -> None:
    """Set keys for all front ends, also keys that request 318 may not change; all or nothing."""
    pairs = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"{text!r}: expected KEY=VALUE")
        pairs[key] = _checked(key, value, key, store.compat)
    await _set(store, pairs, as_json)


@config.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@target_command
async def import_(store: Store, file: Path, as_json: bool) -> None:
    """Set every key of FILE, properties as 'export' prints them; all or nothing. A second import changes nothing."""
    await _set(store, read_file(file, store.compat), as_json)


async def _set(store: Store, wanted: dict[str, str], as_json: bool) -> None:
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
    """The settings in a file, for a namespace of this compat mode.

    Raises:
        click.ClickException: the file cannot be read, or has a key or value that no front end would use.
    """
    try:
        entries = properties.parse(file.read_bytes())
    except OSError as error:
        raise click.ClickException(f"cannot read {file}: {error.strerror or error}") from error
    except properties.PropertiesSyntaxError as error:
        raise click.ClickException(f"{file}:{error.line}: {error}") from error
    return {
        entry.key: _checked(entry.key, entry.value, f"{file}:{entry.line}: {entry.key}", compat) for entry in entries
    }


def _checked(key: str, value: str, where: str, compat: str) -> str:
    """The value, if every front end can use it; else a ClickException, which begins with ``where``."""
    option = options_by_key().get(key)
    if option is None and key not in KNOWN_TO_JAVA:
        raise click.ClickException(f"{where}: there is no such setting; leave it out, or use another release")
    if option is not None:
        if not option.about.shared:
            raise click.ClickException(f"{where} belongs to one process, not to all: set it in its own file")
        try:
            option.parse(value)
        except ValueError:
            raise click.ClickException(f"{where}={value}: expected {option.allowed}") from None
    if key in behaviour_of(compat).ignored_settings:
        raise click.ClickException(
            f"{where} has no effect in this namespace, which behaves like NameServer {compat}: leave it out"
        )
    return value
