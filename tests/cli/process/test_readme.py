"""What README.md, deploy/README.md and all pages of docs/ say of the command line is true."""

from __future__ import annotations

import re
import shlex

import click
import pytest
from click.testing import CliRunner

from mqregistry.cli import COULD_NOT_START, FAILED, INTERRUPTED, cli
from mqregistry.config.settings import options, options_by_key
from mqregistry.config.sources import OTHER_VARIABLES
from mqregistry.operators.maintenance import NAMESPACE as MAINTENANCE

from .world import ROOT

PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("README.md", "SECURITY.md", "deploy/*.md", "docs/**/*.md")
    for path in ROOT.glob(pattern)
    if path.name != "cli.md"  # it is written from the very declarations (tests/docs/test_reference.py)
)
# Options of other programs that the pages show too.
OTHERS = {
    "README.md": {"--from", "--spec"},
    "SECURITY.md": {"--format"},
    "deploy/README.md": {"--build", "--build-arg", "--now"},
    "docs/decisions/0011-embedded-redis-from-a-wheel.md": {"--no-day"},  # of bench
    "docs/howto/sentinel.md": {"--sentinel"},
    "docs/howto/troubleshooting.md": {"--scan", "--pattern", "--raw", "--no-raw"},
    "docs/kubernetes.md": {"--build-arg", "--from-literal", "--strict"},
    "docs/operating.md": {"--scan", "--pattern"},
    "docs/pipeline.md": {"--py-files", "--events", "--packages"},
    "docs/redis.md": {"--scan", "--pattern", "--eval"},
}


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
FLAGS = {
    flag
    for command in (cli, *KNOWN.values())
    for param in command.params
    for flag in (*param.opts, *param.secondary_opts)
}


def command_lines(name):
    """Words after ``mqregistry`` in every code span and code block."""
    spans = re.findall(r"```\w*\n(.*?)```|`([^`\n]+)`", text(name), re.S)
    for line in "\n".join(block or span for block, span in spans).splitlines():
        found = re.match(r"(?:\$ )?(?:[A-Z_]+=\S+ )*mqregistry ([a-z].*)", line)
        if found:
            yield shlex.split(found[1], comments=True)


def test_command_lines_are_found():
    assert sum(len(list(command_lines(name))) for name in PAGES) > 60


@pytest.mark.parametrize("name", PAGES)
def test_every_command_line_is_of_a_command_with_these_options(name):
    for words in command_lines(name):
        path = tuple(words[:1])
        while isinstance(KNOWN.get(path), click.Group) and len(words) > len(path):
            path = tuple(words[: len(path) + 1])
        command = KNOWN.get(path)
        assert command is not None, words
        flags = {flag for param in command.params for flag in (*param.opts, *param.secondary_opts)}
        if words[:1] == ["redis-cli"]:  # what follows goes to redis-cli as it is
            continue
        assert {word for word in words if re.match(r"--?[a-z]", word)} <= flags, words


@pytest.mark.parametrize("name", PAGES)
def test_every_option_named_exists(name):
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text(name))) - OTHERS.get(name, set())
    assert named <= FLAGS | {"--help"}


def test_the_table_of_commands_is_whole():
    table = re.search(r"# Commands\n.*?\n\|(.*?)\n\n[^|]", text("docs/commands.md"), re.S)[1]
    named = set(re.findall(r"[a-z-]+", " ".join(re.findall(r"`([^`]+)`", table))))
    assert {path[-1] for path in KNOWN} <= named


def test_exit_codes_are_those_of_the_program():
    assert (FAILED, INTERRUPTED, COULD_NOT_START) == (1, 130, 253)
    for place in (text("docs/commands.md"), CliRunner().invoke(cli, ["--help"]).output):
        said = " ".join(place.split())
        assert re.search(r"[Ee]xit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted, 253 could not start", said)


@pytest.mark.parametrize("name", PAGES)
def test_every_variable_and_property_key_named_is_one(name):
    variables = {variable for option in options().values() for variable in option.variables}
    named = set(re.findall(r"MQREGISTRY_[A-Z_]+", text(name)))
    assert named <= variables | OTHER_VARIABLES | {MAINTENANCE}


@pytest.mark.parametrize("name", PAGES)
def test_no_block_needs_a_redis_cli_that_is_not_there(name):
    """Where ours is not meant, a page says so in its text; a line to copy works with mqregistry alone."""
    assert (
        re.findall(r"^ *(?:\$ )?redis-cli .*$", "\n".join(re.findall(r"```\w*\n(.*?)```", text(name), re.S)), re.M)
        == []
    )


def test_property_keys_of_the_pages_are_settings():
    assert {"listenPort", "scanNotActiveBrokerInterval", "configAllowList", "productEnvNamesrvAddr"} <= set(
        options_by_key()
    )


def test_every_command_and_option_has_help():
    for path, command in KNOWN.items():
        assert command.help, path
        for param in command.params:
            if isinstance(param, click.Option):
                assert param.help, (path, param.name)


def test_no_shell_cuts_a_command_line_that_is_shown():
    """A list of addresses has semicolons: unquoted, all behind the first one would be another command."""
    shown = [line for name in PAGES for line in text(name).splitlines()]
    shown += [line for command in KNOWN.values() for line in (command.help or "").splitlines()]
    lines = [line.removeprefix("$ ") for line in map(str.strip, shown)]
    lines = [line for line in lines if re.match(r"(?:[A-Z_]+=\S+ )*(?:export|mqregistry|bin/\w+) \S", line)]
    assert sum("9876;" in line for line in lines) >= 2
    for line in lines:
        words = shlex.shlex(line, posix=True, punctuation_chars=";")
        words.commenters, words.whitespace_split = "#", True
        assert not any(set(word) == {";"} for word in words), line
