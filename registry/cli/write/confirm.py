"""Shows what a command is about to change, and asks whether it may."""

from __future__ import annotations

import sys
from collections.abc import Awaitable
from typing import Final

import click

from ...operators.previews import Mistaken, Preview
from .. import output

yes_option: Final = click.option("-y", "--yes", is_flag=True, help="Do it without asking.")


def confirm(*lines: str, yes: bool, as_json: bool) -> None:
    """Show what is about to change, and ask the user; return if the user agrees.

    Raises:
        click.ClickException: the user does not agree, or there is no terminal to ask on; nothing was changed.
    """
    if as_json:
        if not yes:
            raise click.UsageError("--json cannot ask you: add --yes")
        return
    output.show(*lines)
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.ClickException("nothing was changed: there is no terminal to ask at; --yes does it without asking")
    if not click.confirm("Do it?"):
        raise click.ClickException("nothing was changed")


async def carry_out(asked: Awaitable[Preview], *, yes: bool, as_json: bool, quiet: bool = False) -> None:
    """Show what a change would do, make it if the user wants it, and say what was done (not if ``quiet``).

    Raises:
        click.ClickException: the user does not want it, or it is not possible; nothing was changed.
    """
    try:
        preview = await asked
    except Mistaken as error:
        raise click.ClickException(str(error)) from None
    if preview.work is not None:
        confirm(*preview.lines, yes=yes, as_json=as_json)
        await preview.work()
    if not quiet:
        output.answer(as_json, preview.result, preview.done)
