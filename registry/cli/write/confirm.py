"""Shows what a command is about to change, and asks whether it may."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import click

from .. import output

_Function = TypeVar("_Function", bound=Callable[..., Any])
_NAMES_SHOWN: Final = 5


def yes_option(function: _Function) -> _Function:
    """The option ``--yes``."""
    return click.option("-y", "--yes", is_flag=True, help="Do it without asking.")(function)


def confirm(*lines: str, yes: bool, as_json: bool) -> None:
    """Show what is about to change, and go on if that is wanted.

    Raises:
        click.ClickException: it is not, or nobody can be asked; nothing was changed.
    """
    if as_json:
        if not yes:
            raise click.UsageError("--json asks nothing: say --yes, too")
        return
    output.show(*lines)
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.ClickException("nothing was changed: there is no terminal to ask at; --yes does it without asking")
    if not click.confirm("Do it?"):
        raise click.ClickException("nothing was changed")


def some(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    ordered = sorted(names)
    more = len(ordered) - _NAMES_SHOWN
    return ", ".join(ordered[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def counted(number: int, what: str, plural: str = "") -> str:
    """``1 topic``, ``2 topics``."""
    return f"{number} {what if number == 1 else plural or what + 's'}"
