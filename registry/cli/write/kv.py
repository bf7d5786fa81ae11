"""``kv``: the KV configuration, through the same scripts as requests 100 (PUT_KV_CONFIG) and 102 (DELETE_KV_CONFIG)."""

from __future__ import annotations

import codecs
import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from ...events.by import By
from ...names import fault_of_name
from ...operators import previews
from ...store.config_writes import MAX_KEYS, MAX_NAMESPACE_BYTES, MAX_VALUE_BYTES, KvStore
from ...store.snapshot import read_kv
from ...store.store import Store
from .. import complete_names, output
from ..target import target_command
from .confirm import carry_out, yes_option

Kv = dict[str, dict[str, str]]

_TYPE_NAMES: Final = {
    bool: "true or false", int: "a number", float: "a number", list: "an array", dict: "an object", str: "a text",
    type(None): "null",
}  # fmt: skip


@click.group()
def kv() -> None:
    """Show and change the KV configuration; import the KV configuration of a Java NameServer."""


def _not_empty(ctx: click.Context, param: click.Parameter, text: str) -> str:
    if not text:
        raise click.BadParameter("it must not be empty", ctx, param)
    return text


_kv_namespace = click.argument(
    "kv_namespace", metavar="KV_NAMESPACE", callback=_not_empty, shell_complete=complete_names.kv_namespaces
)
_key = click.argument("key", callback=_not_empty, shell_complete=complete_names.keys)


@kv.command("list")
@click.argument("kv_namespace", metavar="[KV_NAMESPACE]", required=False, shell_complete=complete_names.kv_namespaces)
@target_command
async def list_(store: Store, kv_namespace: str | None, as_json: bool) -> None:
    """Show all keys, or the keys of KV_NAMESPACE."""
    tables = await _read(store)
    if kv_namespace is not None:
        if kv_namespace not in tables:
            raise click.ClickException(_unknown("no KV namespace", kv_namespace, tables))
        tables = {kv_namespace: tables[kv_namespace]}
    rows = [(name, key, value) for name, table in tables.items() for key, value in table.items()]
    output.listing(as_json, tables, ("KV NAMESPACE", "KEY", "VALUE"), rows, none="no key is set")


@kv.command()
@_kv_namespace
@_key
@target_command
async def get(store: Store, kv_namespace: str, key: str, as_json: bool) -> None:
    """Print the value of KEY in KV_NAMESPACE."""
    tables = await _read(store)
    table = tables.get(kv_namespace)
    if table is None:
        raise click.ClickException(_unknown("no KV namespace", kv_namespace, tables))
    if key not in table:
        raise click.ClickException(_unknown(f"no key in {kv_namespace}", key, table))
    if as_json:
        output.json_line({"kv_namespace": kv_namespace, "key": key, "value": table[key]})
    else:
        output.show_value(table[key])


@kv.command()
@_kv_namespace
@_key
@click.argument("value")
@yes_option
@target_command
async def put(store: Store, kv_namespace: str, key: str, value: str, yes: bool, as_json: bool) -> None:
    """Set KEY in KV_NAMESPACE to VALUE."""
    await carry_out(previews.set_kv(store, kv_namespace, key, value), yes=yes, as_json=as_json)


@kv.command()
@_kv_namespace
@_key
@yes_option
@target_command
async def delete(store: Store, kv_namespace: str, key: str, yes: bool, as_json: bool) -> None:
    """Delete KEY in KV_NAMESPACE; a key that does not exist is no error."""
    await carry_out(previews.set_kv(store, kv_namespace, key, None), yes=yes, as_json=as_json)


@kv.command()
@target_command
async def export(store: Store, as_json: bool) -> None:
    """Print the KV configuration as a kvConfig.json, for 'import' elsewhere or for a Java NameServer."""
    output.json_page({"configTable": await _read(store)})


class KvSet(msgspec.Struct, frozen=True):
    """A key that an import sets; ``before``: its present value, None: it has none."""

    kv_namespace: str
    key: str
    value: str
    before: str | None

    def __str__(self) -> str:
        was = "" if self.before is None else f" (was {self.before})"
        return f"{self.kv_namespace}/{self.key} = {self.value}{was}"


class KvImport(msgspec.Struct, frozen=True):
    """What an import of KV configuration changes."""

    namespaces: list[str]  # the KV namespaces that it makes and that stay empty
    changes: list[KvSet]
    unchanged: int  # keys that have their value already
    only_here: int  # keys of Redis that are not in the file


@kv.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@target_command
async def import_(store: Store, file: Path, dry_run: bool, as_json: bool) -> None:
    """Import FILE: the kvConfig.json of a Java NameServer, or what 'export' printed.

    Its keys are set; keys that are not in FILE stay as they are. A second import changes nothing.
    """
    plan = await plan_import(store, file)
    if not dry_run:
        await carry_out_import(store, plan)
    if as_json:
        output.json_page({"dry_run": dry_run, **msgspec.structs.asdict(plan)})
    else:
        output.show(*_plan_lines(plan, dry_run=dry_run))


async def plan_import(store: Store, file: Path) -> KvImport:
    """The changes of an import of this file; a ClickException names the values that the registry cannot store."""
    tables = read_file(file)
    known = await _read(store)
    _check_sizes(file, tables, known)
    return compare(tables, known)


async def carry_out_import(store: Store, plan: KvImport, *, by: By | None = None) -> None:
    """Make the planned changes; ``by``: their author."""
    kv_store = KvStore(store)
    for name in plan.namespaces:
        await kv_store.put(name, "", None, by=by)  # without a value this makes only the KV namespace
    for one in plan.changes:
        await kv_store.put(one.kv_namespace, one.key, one.value, by=by)


def read_file(file: Path) -> Kv:
    """Read Java's kvConfig.json, ``{"configTable":{KV namespace:{key:value}}}``; a key with null is left out.

    Raises:
        click.ClickException: it cannot be read, or is no kvConfig.json; the message names the place.
    """
    try:
        content = msgspec.json.decode(file.read_bytes().removeprefix(codecs.BOM_UTF8))
    except OSError as error:
        raise click.ClickException(f"cannot read {file}: {error.strerror or error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file} is no JSON: {error}") from error
    tables = content.get("configTable") if isinstance(content, dict) else None
    if tables is None:
        raise click.ClickException(
            f'{file} is no kvConfig.json of a NameServer: expected {{"configTable":{{KV namespace:{{key:value}}}}}}'
        )
    found: Kv = {}
    for name, table in _object(file, "configTable", tables).items():
        place = f"configTable.{name}"
        found[name] = {}
        for key, value in _object(file, place, table).items():
            if not name or not key:
                raise click.ClickException(f"{file}: {place}.{key}: names must not be empty")
            for part in (name, key):
                fault = fault_of_name(part)
                if fault is not None:
                    raise click.ClickException(f"{file}: {place}.{key}: name {part[:100]!r} {fault}")
            if value is not None and not isinstance(value, str):
                raise click.ClickException(f"{file}: {place}.{key} is {_TYPE_NAMES[type(value)]}, expected a text")
            if value is not None:
                found[name][key] = value
    return found


def _object(file: Path, place: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise click.ClickException(f"{file}: {place} is {_TYPE_NAMES[type(value)]}, expected an object")
    return value


def _check_sizes(file: Path, wanted: Kv, known: Kv) -> None:
    """Refuse values that the registry cannot store, before anything is written."""
    for name, table in wanted.items():
        for key, value in table.items():
            size = len(value.encode("utf-8", "surrogatepass"))
            if size > MAX_VALUE_BYTES:
                raise click.ClickException(
                    f"{file}: configTable.{name}.{key} has {size} bytes, at most {MAX_VALUE_BYTES} are kept; "
                    "nothing was imported"
                )
        after = known.get(name, {}) | table
        size = sum(len(text.encode("utf-8", "surrogatepass")) for pair in after.items() for text in pair)
        if len(after) > MAX_KEYS or size > MAX_NAMESPACE_BYTES:
            raise click.ClickException(
                f"{file}: configTable.{name} would have {len(after)} keys and {size} bytes, at most {MAX_KEYS} and "
                f"{MAX_NAMESPACE_BYTES} are kept; nothing was imported"
            )


def compare(wanted: Kv, known: Kv) -> KvImport:
    """The changes that give ``known`` all keys and values of ``wanted``."""
    changes = []
    unchanged = 0
    for name, table in sorted(wanted.items()):
        for key, value in sorted(table.items()):
            before = known.get(name, {}).get(key)
            if before == value:
                unchanged += 1
            else:
                changes.append(KvSet(name, key, value, before))
    only_here = sum(key not in wanted.get(name, {}) for name, table in known.items() for key in table)
    return KvImport([name for name in sorted(wanted) if name not in known and not wanted[name]], changes, unchanged,
                only_here)  # fmt: skip


def _plan_lines(plan: KvImport, *, dry_run: bool) -> list[str]:
    lines = [f"{name}: an empty KV namespace" for name in plan.namespaces]
    lines += map(str, plan.changes)
    added = sum(one.before is None for one in plan.changes)
    would = "would be " if dry_run else ""
    summary = f"{added} {would}added, {len(plan.changes) - added} {would}changed, {plan.unchanged} the same"
    if plan.only_here:
        summary += f"; {plan.only_here} not in the file: left as they are"
    return [*lines, summary]


def _unknown(what: str, name: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, known, 3, 0.6)
    if close:
        return f"{what} {name!r}; did you mean {' or '.join(close)}?"
    return f"{what} {name!r}; there is " + (", ".join(sorted(known)[:20]) or "none")


async def _read(store: Store) -> Kv:
    return {name: dict(sorted(table.items())) for name, table in sorted((await read_kv(store)).items())}
