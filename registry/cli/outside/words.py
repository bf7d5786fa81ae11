"""Differences in words, for a terminal, and the options that ``compare`` and ``shadow`` have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from ...compare.judged_differences import Lasted, Sort
from ...compare.report import Alike, alike
from ...operators.words import counted, some_of
from .. import output
from ..time_options import length_ms

_MOST_GROUPS: Final = 50  # --json has all
_VALUE_CHARS: Final = 200
_KINDS: Final = {"kv": "KV namespace", "config": "configuration", "answer": "request"}
_WHOSE: Final = {"queues": "at", "perm": "at", "topicSysFlag": "at", "member": "", "broker": "", "listed": ""}


def length_option(flag: str, name: str, help_text: str, default: str | None = None) -> Callable[[Any], Any]:
    """An option that takes a length of time; the command gets ms, or None."""
    return click.option(
        flag, name, default=default, show_default=default is not None, metavar="TIME", callback=length_ms,
        help=help_text,
    )  # fmt: skip


def show_groups(differences: Sequence[Lasted], at_ms: int) -> None:
    """Print each difference: since when, where, and each side's value. Equal differences of names form one group."""
    groups = alike(differences)
    for group in groups[:_MOST_GROUPS]:
        _show_group(group, at_ms)
    if len(groups) > _MOST_GROUPS:
        output.show(f"... and {len(groups) - _MOST_GROUPS} more; --json has all")


def show_uncounted(differences: Sequence[Lasted], at_ms: int) -> None:
    """Print the differences among Java NameServers themselves, and the deliberate ones."""
    if noise := [one for one in differences if one.sort is Sort.NOISE]:
        why = "in which Java NameServers differ among themselves, and ours agrees with one of them"
        output.show(f"not counted: {counted(len(noise), 'difference')} {why}")
        show_groups(noise, at_ms)
    if meant := [one for one in differences if one.sort is Sort.MEANT]:
        rows: dict[str, list[str]] = {}
        for group in alike(meant):
            rows.setdefault(group.one.row, []).append(what_differs(group))
        output.show(f"not counted: {counted(len(meant), 'difference')} that docs/differences.md names")
        output.show(*(f"  {row}: {some_of(names)}" for row, names in sorted(rows.items())))


def _show_group(group: Alike, at_ms: int) -> None:
    one = group.one
    age = output.duration(max(0, at_ms - one.since_ms))
    output.show(f"since {output.moment(one.since_ms)} ({age})  {what_differs(group)}")
    values: dict[str | None, list[str]] = {}
    for side, value in one.told.items():
        values.setdefault(value, []).append(side)
    for value, sides in values.items():
        text = "(not there)" if value is None else value[:_VALUE_CHARS] + ("..." if len(value) > _VALUE_CHARS else "")
        output.show(f"  {', '.join(sides)}: {text}")


def what_differs(group: Alike) -> str:
    """What differs: ``topic orders: perm at broker-a``; of several names ``7 topics: perm at broker-a: t1, ...``."""
    one, many = group.one, len(group.names) > 1
    kind = _KINDS.get(one.kind, one.kind)
    text = counted(len(group.names), kind, "configuration keys" if one.kind == "config" else "") if many else (
        f"{kind} {group.names[0]}"
    )  # fmt: skip
    if one.kind == "kv":
        text += f", key {one.at}"
    elif one.part:
        text += f": {one.part}" + (f" {_WHOSE.get(one.part, 'of')} {one.at}".replace("  ", " ") if one.at else "")
    return f"{text}: {some_of(group.names)}" if many else text
