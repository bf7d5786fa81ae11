"""``help``: what an error means and what to do, without a network; or the help page of a command."""

from __future__ import annotations

import re
from typing import Final

import click

from ...names import printable
from .entries import entries, search

_LINK: Final = re.compile(r"\[((?:[^\]`]|`[^`]*`)+)\]\([^)]*\)")


@click.command()
@click.argument("words", nargs=-1, metavar="[NAME | COMMAND | WORDS...]")
@click.pass_context
def help(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Say what an error means, and what to do: by the NAME that the error shows, or by words of its message.

    With a COMMAND it shows the help page of the command; without an argument it lists the names. It needs no network
    and no registry: the text is that of docs/howto/troubleshooting.md.

    \b
    mqregistry help no-route
    mqregistry help 'No route info of this topic'
    """  # noqa: D301 (\\b is for click)
    if not words:
        width = max(map(len, entries()))
        click.echo("\n".join(f"{entry.name:{width}}  {entry.title}" for entry in entries().values()))
        return
    if _show_command(ctx, words):
        return
    found = search(" ".join(words))
    if not found:
        asked = printable(" ".join(words))
        raise click.ClickException(f"no entry is about {asked!r}; 'mqregistry help' lists all")
    best, *others = found
    text = _LINK.sub(lambda link: link[1], best.text)  # a terminal shows the text of a link, without its address
    click.echo(f"{best.title}\n{'-' * len(best.title)}\n\n{text}")
    if others:
        click.echo("\nAlso: " + ", ".join(f"mqregistry help {entry.name}" for entry in others))


def _show_command(ctx: click.Context, words: tuple[str, ...]) -> bool:
    """Show the help page of the command that the words name; returns whether there is one."""
    context = ctx.find_root()
    for word in words:
        command = context.command.get_command(context, word) if isinstance(context.command, click.Group) else None
        if command is None:
            return False
        context = click.Context(command, info_name=word, parent=context)
    click.echo(context.get_help())
    return True
