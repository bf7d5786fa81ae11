"""A click group that imports the module of a command only when the command is called, so that the start is quick."""

from __future__ import annotations

import importlib
import keyword
from collections.abc import Mapping
from typing import Any

import click

from .examples import with_example


class LazyGroup(click.Group):
    """A group whose commands are each in a module of their own.

    The function in the module has the command's name, with _ for -, and a _ at the end if it is a keyword of Python.

    Args:
        modules: command -> module. lines: command -> its line in the group's help.
        words: the words that call the group, without the program's name.
    """

    def __init__(
        self,
        *args: Any,
        modules: Mapping[str, str] | None = None,
        lines: Mapping[str, str] | None = None,
        words: str = "",
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._modules = modules or {}
        self._lines = lines or {}
        self._words = words

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands with their lines, without importing any."""
        if not self._lines:
            super().format_commands(ctx, formatter)
            return
        with formatter.section("Commands"):
            formatter.write_dl(list(self._lines.items()))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, in the order of help."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, or None."""
        module = self._modules.get(cmd_name)
        if module is None:
            return None
        name = cmd_name.replace("-", "_") + ("_" if keyword.iskeyword(cmd_name) else "")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return with_example(command, f"{self._words} {cmd_name}".lstrip())

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first argument names; for an unknown name, the error proposes a similar one."""
        name = args[0]
        if name not in self._modules and not name.startswith("-") and not ctx.resilient_parsing:
            import difflib  # only for a wrong command

            close = difflib.get_close_matches(name, self._modules, 1)
            raise click.UsageError(f"No such command {name!r}.{f' Did you mean {close[0]!r}?' if close else ''}", ctx)
        return super().resolve_command(ctx, args)
