"""A click group that imports the module of a command when the command is asked for, so that the start is quick."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """A group whose commands are in modules: name -> module; the function has the command's name, with _ for -."""

    def __init__(self, *args: Any, modules: Mapping[str, str] | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._modules = modules or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, in the order of help."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, or None."""
        module = self._modules.get(cmd_name)
        if module is None:
            return None
        command = getattr(importlib.import_module(module), cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command
