"""Every command with its arguments and options, from the command line's own declarations."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from mqregistry.cli import cli

from .markdown import block, definition, plain


def every_command(group: click.Group = cli, path: str = "mqregistry") -> Iterator[tuple[str, click.Command]]:
    """(words, command) of every command, a group before its commands."""
    context = click.Context(group, info_name=path)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if not command.hidden:
            words = f"{path} {name}"
            yield words, command
            if isinstance(command, click.Group):
                yield from every_command(command, words)


def commands() -> str:
    """A section for each command, one below it for each command of a group."""
    return "\n\n".join(
        f"{'#' * len(words.split())} {words}\n\n{_described(words, command)}" for words, command in every_command()
    )


def _described(words: str, command: click.Command) -> str:
    context = click.Context(command, info_name=words)
    usage = " ".join([words, *command.collect_usage_pieces(context)])
    options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    said = [block(usage), _help(command.help or ""), *([_help(command.epilog)] if command.epilog else [])]
    return "\n".join([*said, *(_option(option, context) for option in options)])


def _help(text: str) -> str:
    r"""The paragraphs of a help text; one that begins with \b is shown as it stands, as click does."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n".join(
        block(paragraph.removeprefix("\b\n")) if paragraph.startswith("\b") else plain(paragraph) + "\n"
        for paragraph in paragraphs
    )


def _option(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    assert record is not None, option.name
    names, text = record
    return definition(f"`{names}`", plain(" ".join(text.split())))
