"""The option ``--at TIME``: how a time is read says :mod:`mqregistry.operators.instants`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..operators.instants import parse_instant

_Function = TypeVar("_Function", bound=Callable[..., Any])


def at_option(function: _Function) -> _Function:
    """The option ``--at``; the command gets the keyword ``at_ms``, None when it is not given."""
    return click.option(
        "--at",
        "at_ms",
        metavar="TIME",
        callback=instant,
        help="As it was then, from the pipeline's tables: 2026-11-21T14:03 (local time unless it ends with Z or "
        "+01:00), 14:03 (the last one), -2h.",
    )(function)


def instant(ctx: click.Context, param: click.Parameter, text: str | None) -> int | None:
    """The callback of an option that takes an instant."""
    if text is None:
        return None
    try:
        return parse_instant(text)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None
