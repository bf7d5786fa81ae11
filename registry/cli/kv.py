"""``kv``: the KV configuration, through the same scripts as the name server's requests 100 and 102."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import msgspec

from registry.cli import show
from registry.cli.reads import existing_namespace
from registry.cli.target import find_target, run, target_options
from registry.config import Settings
from registry.store import keys
from registry.store.connect import mapped_errors
from registry.store.kvconfig import KvStore
from registry.store.snapshot import read_section
from registry.store.store import Store

Kv = dict[str, dict[str, str]]

_TYPE_NAMES: Final = {bool: "true or false", int: "a number", float: "a number", list: "an array", dict: "an object"}


@click.group()
def kv() -> None:
    """Show and change the KV configuration; take over Java's."""


def _not_empty(ctx: click.Context, param: click.Parameter, text: str) -> str:
    if not text:
        raise click.BadParameter("it must not be empty", ctx, param)
    return text


_kv_namespace = click.argument("kv_namespace", metavar="KV_NAMESPACE", callback=_not_empty)
_key = click.argument("key", callback=_not_empty)


@kv.command("list")
@click.argument("kv_namespace", metavar="[KV_NAMESPACE]", required=False)
@target_options
def list_(kv_namespace: str | None, as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Show every key, or those of KV_NAMESPACE."""

    async def work(settings: Settings) -> None:
        async with existing_namespace(settings) as store:
            tables = await _read(store)
        if kv_namespace is not None:
            if kv_namespace not in tables:
                raise click.ClickException(_unknown("KV namespace", kv_namespace, tables))
            tables = {kv_namespace: tables[kv_namespace]}
        rows = [(name, key, value) for name, table in tables.items() for key, value in table.items()]
        if as_json:
            show.json_page(tables)
        elif rows:
            click.echo(show.table(("KV NAMESPACE", "KEY", "VALUE"), rows))
        else:
            click.echo("no key is set", err=True)

    run(work(find_target(flags, config_file)))


@kv.command()
@_kv_namespace
@_key
@target_options
def get(kv_namespace: str, key: str, as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Print the value of KEY."""

    async def work(settings: Settings) -> None:
        async with existing_namespace(settings) as store:
            tables = await _read(store)
        table = tables.get(kv_namespace)
        if table is None:
            raise click.ClickException(_unknown("KV namespace", kv_namespace, tables))
        if key not in table:
            raise click.ClickException(_unknown(f"key in {kv_namespace}", key, table))
        if as_json:
            show.json_line({"kvNamespace": kv_namespace, "key": key, "value": table[key]})
        else:
            click.echo(table[key])

    run(work(find_target(flags, config_file)))


@kv.command()
@_kv_namespace
@_key
@click.argument("value")
@target_options
def put(kv_namespace: str, key: str, value: str, as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Set KEY to VALUE."""

    async def work(settings: Settings) -> None:
        async with existing_namespace(settings) as store:
            before = await _value(store, kv_namespace, key)
            await KvStore(store).put(kv_namespace, key, value)
        if as_json:
            show.json_line({"kvNamespace": kv_namespace, "key": key, "value": value, "before": before})
        else:
            click.echo(_change_line(kv_namespace, key, before, value))

    run(work(find_target(flags, config_file)))


@kv.command()
@_kv_namespace
@_key
@target_options
def delete(kv_namespace: str, key: str, as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Delete KEY; one that is not there is no error."""

    async def work(settings: Settings) -> None:
        async with existing_namespace(settings) as store:
            before = await _value(store, kv_namespace, key)
            await KvStore(store).delete(kv_namespace, key)
        if as_json:
            show.json_line({"kvNamespace": kv_namespace, "key": key, "value": None, "before": before})
        else:
            click.echo(_change_line(kv_namespace, key, before, None))

    run(work(find_target(flags, config_file)))


@kv.command()
@target_options
def export(as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Print all of it as a kvConfig.json, for 'import' elsewhere or for a Java NameServer."""

    async def work(settings: Settings) -> None:
        async with existing_namespace(settings) as store:
            show.json_page({"configTable": await _read(store)})

    run(work(find_target(flags, config_file)))


class Plan(NamedTuple):
    """What an import changes: (KV namespace, key, value before or None, value), and what it need not change."""

    namespaces: list[str]
    changes: list[tuple[str, str, str | None, str]]
    unchanged: int
    only_here: int


@kv.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@target_options
def import_(file: Path, dry_run: bool, as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Take over FILE: the kvConfig.json of a Java NameServer, or what 'export' printed.

    Its keys are set; keys that are only here stay. Doing it again changes nothing.
    """

    async def work(settings: Settings) -> None:
        tables = read_file(file)
        async with existing_namespace(settings) as store:
            plan = compare(tables, await _read(store))
            if not dry_run:
                store_kv = KvStore(store)
                for name in plan.namespaces:
                    await store_kv.put(name, "", None)  # without a value: only the namespace comes to be
                for name, key, _, value in plan.changes:
                    await store_kv.put(name, key, value)
        if as_json:
            show.json_page(_plan_json(plan, dry_run=dry_run))
        else:
            click.echo(_plan_text(plan, dry_run=dry_run))

    run(work(find_target(flags, config_file)))


def read_file(file: Path) -> Kv:
    """Java's file, ``{"configTable":{KV namespace:{key:value}}}``; a value of null is no value.

    Raises:
        click.ClickException: it cannot be read, or is not that; the message names the place.
    """
    try:
        content = msgspec.json.decode(file.read_bytes())
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
            if value is not None and not isinstance(value, str):
                raise click.ClickException(f"{file}: {place}.{key} is {_TYPE_NAMES[type(value)]}, expected a text")
            if value is not None:
                found[name][key] = value
    return found


def _object(file: Path, place: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise click.ClickException(f"{file}: {place} is {_TYPE_NAMES.get(type(value), 'a text')}, expected an object")
    return value


def compare(wanted: Kv, known: Kv) -> Plan:
    """What has to change for ``known`` to hold all of ``wanted``."""
    changes = []
    unchanged = 0
    for name, table in sorted(wanted.items()):
        for key, value in sorted(table.items()):
            before = known.get(name, {}).get(key)
            if before == value:
                unchanged += 1
            else:
                changes.append((name, key, before, value))
    only_here = sum(key not in wanted.get(name, {}) for name, table in known.items() for key in table)
    return Plan([name for name in sorted(wanted) if name not in known and not wanted[name]], changes, unchanged,
                only_here)  # fmt: skip


def _plan_text(plan: Plan, *, dry_run: bool) -> str:
    lines = [f"{name}: an empty KV namespace" for name in plan.namespaces]
    lines += [_change_line(name, key, before, value) for name, key, before, value in plan.changes]
    added = sum(before is None for _, _, before, _ in plan.changes)
    would = "would be " if dry_run else ""
    summary = f"{added} {would}added, {len(plan.changes) - added} {would}changed, {plan.unchanged} the same"
    if plan.only_here:
        summary += f"; {plan.only_here} not in the file: left as they are"
    return "\n".join([*lines, summary])


def _plan_json(plan: Plan, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dryRun": dry_run,
        "namespaces": plan.namespaces,
        "changes": [
            {"kvNamespace": name, "key": key, "value": value, "before": before}
            for name, key, before, value in plan.changes
        ],
        "unchanged": plan.unchanged,
        "onlyHere": plan.only_here,
    }


def _change_line(name: str, key: str, before: str | None, value: str | None) -> str:
    if value is None:
        return f"{name}/{key} deleted (was {before})" if before is not None else f"{name}/{key} was not there"
    if before is None:
        return f"{name}/{key} = {value}"
    return f"{name}/{key} = {value} " + ("(as before)" if before == value else f"(was {before})")


def _unknown(what: str, name: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, known, 3, 0.6)
    if close:
        return f"no {what} {name!r}; did you mean {' or '.join(close)}?"
    return f"no {what} {name!r}; there is " + (", ".join(sorted(known)[:20]) or "none")


async def _read(store: Store) -> Kv:
    tables: Kv = {}
    async for name, flat in read_section(store, "kv"):
        pairs = zip(flat[::2], flat[1::2], strict=True)
        tables[name] = dict(sorted((key.decode(), value.decode()) for key, value in pairs))
    return dict(sorted(tables.items()))


async def _value(store: Store, kv_namespace: str, key: str) -> str | None:
    with mapped_errors(f"reading the KV configuration of namespace {store.namespace!r}"):
        value = await store.client.hget(f"{keys.prefix(store.namespace)}kv:{kv_namespace}", key)
    return None if value is None else value.decode()
