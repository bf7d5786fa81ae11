"""Options that take a time or a length of time; :mod:`mqregistry.operators.instants` parses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

from ..operators.instants import parse_instant, parse_length_ms


def _parsed(parse: Callable[[str], int]) -> Callable[[click.Context, click.Parameter, str | None], int | None]:
    """The callback of an option; the command gets ms, or None."""

    def callback(ctx: click.Context, param: click.Parameter, text: str | None) -> int | None:
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return callback


length_ms: Final = _parsed(parse_length_ms)


def instant_option(flag: str, name: str, help_text: str) -> Callable[[Any], Any]:
    """An option that takes an instant; the command gets ms since 1970, or None."""
    return click.option(flag, name, metavar="TIME", callback=_parsed(parse_instant), help=help_text)


at_option: Final = instant_option(
    "--at", "at_ms",
    "The state at this time, from the pipeline's tables: 2026-11-21T14:03 (local time unless it ends with Z or "
    "+01:00), 14:03 (the last one), -2h.",
)  # fmt: skip
