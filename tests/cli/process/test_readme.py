"""What README.md and deploy/README.md say of the command line is true."""

from __future__ import annotations

import re
import shlex

import click
import pytest
from click.testing import CliRunner

from registry.cli import COULD_NOT_START, FAILED, cli
from registry.config import options, options_by_key

from .world import ROOT

READMES = ("README.md", "deploy/README.md")
# Options of other programs that stand there too.
OTHERS = {"README.md": {"--scan", "--pattern", "--py-files"}, "deploy/README.md": {"--build", "--now"}}


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def commands(group=cli, path=()):
    """(words, command) of every command, those of groups too."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


KNOWN = dict(commands())
FLAGS = {flag for command in (cli, *KNOWN.values()) for param in command.params for flag in param.opts}


def command_lines(name):
    """Words after ``mqregistry`` in every code span and code block."""
    spans = re.findall(r"```\w*\n(.*?)```|`([^`\n]+)`", text(name), re.S)
    for line in "\n".join(block or span for block, span in spans).splitlines():
        found = re.match(r"(?:\$ )?(?:[A-Z_]+=\S+ )*mqregistry ([a-z].*)", line)
        if found:
            yield shlex.split(found[1], comments=True)


@pytest.mark.parametrize("name", READMES)
def test_every_command_line_is_of_a_command_with_these_options(name):
    lines = list(command_lines(name))
    assert len(lines) >= 3
    for words in lines:
        group = isinstance(KNOWN.get((words[0],)), click.Group)
        path = tuple(words[:2]) if group and len(words) > 1 else (words[0],)
        command = KNOWN.get(path)
        assert command is not None, words
        flags = {flag for param in command.params for flag in param.opts}
        assert {word for word in words if word.startswith("-")} <= flags, words


@pytest.mark.parametrize("name", READMES)
def test_every_option_named_exists(name):
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text(name))) - OTHERS[name]
    assert named <= FLAGS | {"--help"}


def test_the_table_of_commands_is_whole():
    table = re.search(r"## Commands\n(.*?)\n\n[^|]", text("README.md"), re.S)[1]
    named = set(re.findall(r"[a-z]+", " ".join(re.findall(r"`([^`]+)`", table))))
    assert {path[-1] for path in KNOWN} <= named


def test_exit_codes_are_those_of_the_program():
    assert (FAILED, COULD_NOT_START) == (1, 253)
    for place in (text("README.md"), CliRunner().invoke(cli, ["--help"]).output):
        assert re.search(r"[Ee]xit codes: 0 done, 1 failed, 2 wrong usage, 253 could not start", place)


@pytest.mark.parametrize("name", READMES)
def test_every_variable_and_property_key_named_is_one(name):
    variables = {variable for option in options().values() for variable in option.variables}
    named = set(re.findall(r"MQREGISTRY_[A-Z_]+", text(name)))
    assert named
    assert named <= variables | {"MQREGISTRY_REDIS_PASSWORD", "MQREGISTRY_CONFIG"}


def test_property_keys_of_the_readme_are_settings():
    assert {"listenPort", "scanNotActiveBrokerInterval", "configAllowList", "productEnvNamesrvAddr"} <= set(
        options_by_key()
    )


def test_every_command_and_option_has_help():
    for path, command in KNOWN.items():
        assert command.help, path
        for param in command.params:
            if isinstance(param, click.Option):
                assert param.help, (path, param.name)
