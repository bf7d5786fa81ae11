"""Finds the differences between several sides (name servers, a Redis, past moments), cell by cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

from ..config.settings import options_by_key
from .content import FIVE_ALONE, OWN_KEYS, Content, Parts, route_parts, row_parts

KINDS: Final = ("cluster", "broker", "topic", "kv", "config", "answer")


class Cell(NamedTuple):
    """A place in the tables, at which each side has one value or none."""

    kind: str  # one of KINDS
    name: str  # of the cluster, broker, topic, KV namespace, key of the configuration, or the request
    part: str = ""  # what the value is, e.g. perm; "": a side lacks the whole cluster, broker, topic, ...
    at: str = ""  # the brokerName, address or KV key of the part; "": none


class Difference(NamedTuple):
    """A cell whose value is not the same at all sides."""

    cell: Cell
    told: Mapping[str, str | None]  # side -> its value, as people read it; None: no value. Only sides that were read


def differences(contents: Mapping[str, Content]) -> list[Difference]:
    """Every cell that differs between sides, in the order of KINDS and of their names."""
    return [
        *_clusters(_of(contents, "cluster", lambda one: one.clusters)),
        *_with_parts("broker", _of(contents, "broker", lambda one: one.brokers), row_parts, contents),
        *_with_parts("topic", _of(contents, "topic", lambda one: one.routes), route_parts, contents),
        *_kv(_of(contents, "kv", lambda one: one.kv)),
        *_config(_of(contents, "config", lambda one: one.config), contents),
        *_with_parts("answer", _of(contents, "answer", lambda one: one.answers), dict, contents),
    ]


def topics_of(found: Iterable[Cell]) -> set[str]:
    """The topics among these cells."""
    return {cell.name for cell in found if cell.kind == "topic"}


_Tables = dict[str, Mapping[str, Any]]


def _of(contents: Mapping[str, Content], kind: str, table: Callable[[Content], Mapping[str, Any]]) -> _Tables:
    """Side -> its table of this kind, for the sides of which it was read."""
    return {side: table(content) for side, content in contents.items() if kind not in content.untold}


def _unequal(tables: _Tables) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, side -> its value or None) for each name with different values."""
    values = list(tables.values())
    if len(values) < 2:
        return
    first, others = values[0], values[1:]
    for name in sorted(set[str]().union(*values)):
        value = first.get(name)
        if any(other.get(name) != value for other in others):
            yield name, {side: table.get(name) for side, table in tables.items()}


def _clusters(tables: _Tables) -> Iterator[Difference]:
    for cluster, found in _unequal(tables):
        members = {side: names or frozenset[str]() for side, names in found.items()}
        every = set[str]().union(*members.values())
        for name in sorted(every):
            told = {side: "in it" if name in names else None for side, names in members.items()}
            yield from _if_different(Cell("cluster", cluster, "member", name), told)


def _with_parts(
    kind: str, tables: _Tables, parts_of: Callable[[Any], Parts], contents: Mapping[str, Content]
) -> Iterator[Difference]:
    for name, found in _unequal(tables):
        parts = {side: None if value is None else parts_of(value) for side, value in found.items()}
        if None in parts.values():
            yield Difference(Cell(kind, name), {side: _whole(value) for side, value in parts.items()})
            continue
        if kind == "topic":
            yield from _brokers_of_route(name, cast(dict[str, Parts], parts))
        every = sorted(set[tuple[str, str]]().union(*(value or () for value in parts.values())))
        for part, at in every:
            told = {
                side: (value or {}).get((part, at))
                for side, value in parts.items()
                if contents[side].is_five or part not in FIVE_ALONE
            }
            yield from _if_different(Cell(kind, name, part, at), told)


def _brokers_of_route(topic: str, parts: dict[str, Parts]) -> Iterator[Difference]:
    """One difference for each brokerName that a side's route lacks; removes the brokerName from ``parts``."""
    names = {side: {at for part, at in one if part in ("queues", "addresses")} for side, one in parts.items()}
    every = set[str]().union(*names.values())
    for name in sorted(name for name in every if not all(name in one for one in names.values())):
        told = {
            side: one.get(("addresses", name), "queues without addresses") if name in names[side] else None
            for side, one in parts.items()
        }
        for side in parts:
            parts[side] = {
                (part, at): value for (part, at), value in parts[side].items() if at != name or part == "static queues"
            }
        yield Difference(Cell("topic", topic, "broker", name), told)


def _whole(parts: Parts | None) -> str | None:
    """A whole row or route on one line; of a route only the queues, because its brokers are compared as rows."""
    if parts is None:
        return None
    queues = [
        f"{at}: {value}, perm {parts['perm', at]}" for (part, at), value in sorted(parts.items()) if part == "queues"
    ]
    return "; ".join(queues or (f"{part} {value}" for (part, _), value in sorted(parts.items())))


def _kv(tables: _Tables) -> Iterator[Difference]:
    for namespace, found in _unequal(tables):
        keys = {side: table or {} for side, table in found.items()}
        for key, told in _unequal(keys):
            yield Difference(Cell("kv", namespace, "value", key), told)


def _config(tables: _Tables, contents: Mapping[str, Content]) -> Iterator[Difference]:
    for key, found in _unequal(tables):
        # A side that does not show the key is not compared.
        told = {side: value for side, value in found.items() if value is not None}
        option = options_by_key().get(key)
        may_differ = option is not None and not option.about.shared and not any(contents[side].is_java for side in told)
        if key not in OWN_KEYS and not may_differ:
            yield from _if_different(Cell("config", key), told)


def _if_different(cell: Cell, told: dict[str, str | None]) -> Iterator[Difference]:
    if len(set(told.values())) > 1:
        yield Difference(cell, told)
