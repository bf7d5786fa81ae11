"""Each help page has a line to copy, and each such line is one that the command takes."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from mqregistry.cli import cli
from mqregistry.cli.examples import EXAMPLES

from .process.test_readme import KNOWN


def shown(words: tuple[str, ...], command: click.Command) -> list[str]:
    """The command lines that its help page shows."""
    context = click.Context(command, info_name=" ".join(("mqregistry", *words)), terminal_width=100)
    help_page = re.sub(r"\n *(?=\n)", "\n", command.get_help(context))
    body = help_page.partition("\n\n")[2]
    return re.findall(r"^ *(?:[\w ]+: +)?(mqregistry .+)$", body, re.M)


def parse(group: click.Command, words: list[str]) -> None:
    """As click does it, up to the call."""
    context = group.make_context("mqregistry", words, resilient_parsing=False)
    while isinstance(context.command, click.Group):
        rest = [*context._protected_args, *context.args]
        _, command, rest = context.command.resolve_command(context, rest)
        assert command is not None
        context = command.make_context(command.name, rest, parent=context)


@pytest.mark.parametrize("words", KNOWN, ids=" ".join)
def test_the_help_page_of_each_command_has_a_line_to_copy(words):
    lines = shown(words, KNOWN[words])
    assert lines, f"mqregistry {' '.join(words)} --help shows no command line: add one to registry/cli/examples.py"
    assert any(line.split()[1 : 1 + len(words)] == list(words) for line in lines), lines


@pytest.mark.parametrize("words", EXAMPLES)
def test_each_example_is_a_command_line_that_is_taken(words, monkeypatch):
    line = EXAMPLES[words].partition(" > ")[0]
    assert tuple(words.split()) in KNOWN
    monkeypatch.setattr(click.Path, "convert", lambda self, value, param, ctx: value)  # files that are not here
    parse(cli, shlex.split(line)[1:])
