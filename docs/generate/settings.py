"""Every setting, from the table of settings."""

from __future__ import annotations

import click

from mqregistry.cli import cli
from mqregistry.config.option import About, Option
from mqregistry.config.settings import options

from .markdown import definition, plain

_ANY_TEXT = About("", "").form[1]


def settings() -> str:
    """Those of one process, then those that all front ends of a namespace may share."""
    flags = _flags()
    parts = []
    for title, shared in (("Of one process", False), ("Shared by the front ends of a namespace", True)):
        parts.append(f"\n## {title}\n")
        if shared:
            parts.append("Request 318 changes those that can do no harm, and those that `configAllowList` names.\n")
        parts += [_described(option, flags) for option in options().values() if option.about.shared == shared]
    return "\n".join(parts)


def _flags() -> set[str]:
    """The options of the commands that run a part of the registry."""
    context = click.Context(cli)
    commands = [cli.get_command(context, name) for name in ("up", "serve", "sweep")]
    return {flag for command in commands if command is not None for param in command.params for flag in param.opts}


def _described(option: Option, flags: set[str]) -> str:
    names = [*([option.flag] if option.flag in flags else []), *option.variables]
    shown = option.show(option.default)
    text = [plain(option.about.help), f"Default: `{shown}`." if shown else "Not set by default."]
    if option.allowed != _ANY_TEXT:
        text.append(f"Allowed: {plain(option.allowed)}.")
    if option.about.shared:
        may = "318 may change it" if option.run_time.allowed else "318 does not change it"
        text.append(f"{may}: {plain(option.run_time.why)}.")
    text.append("Also as " + ", ".join(f"`{name}`" for name in names) + ".")
    return definition(f"`{option.key}`", " ".join(text))
