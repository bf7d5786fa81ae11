"""A command that a page shows names the namespace of the page, so that a copy of it acts on what the page shows."""

from __future__ import annotations

import html
import re
import secrets

import click
import pytest

from mqregistry.cli import cli
from mqregistry.console.app import TWINS, twin_path
from mqregistry.console.locale.commands import in_namespace
from mqregistry.console.past import NotKnown
from mqregistry.console.report import NoReport

from .messages import spoken
from .test_catalogue import OTHERS, translations
from .test_chinese import QUERIES, fill, pages_of

SHOWN = re.compile(r"mqregistry ([a-z][^'<\"&]*)")


def commands(group=cli, words=()):
    """Each command of the command line, and whether it takes --namespace."""
    for name in group.list_commands(click.Context(group)):
        one = group.get_command(click.Context(group), name)
        if isinstance(one, click.Group):
            yield from commands(one, (*words, name))
        else:
            yield " ".join((*words, name)), any("--namespace" in option.opts for option in one.params)


TAKES = dict(commands())


def command_of(shown):
    """The command that a text begins with; None: there is none of this name."""
    words = shown.split()
    return next((one for count in (3, 2, 1) if (one := " ".join(words[:count])) in TAKES), None)


def sentences():
    for message in spoken():
        yield from (message,) if isinstance(message, str) else message
    for code in OTHERS:
        for texts in translations(code).values():
            yield from texts


@pytest.mark.parametrize("words", TAKES)
def test_each_command_gets_the_option_if_it_takes_it(words):
    for rest in ("", " NAME --role operator", " -n", "，即可", "; more"):
        option = " --namespace tenant-b" if TAKES[words] else ""
        text = in_namespace(f"'mqregistry {words}{rest}'", "tenant-b")
        assert text == f"'mqregistry {words}{option}{rest}'"
        assert in_namespace(text, "tenant-b") == text
        assert in_namespace(text, "default") == text
    empty = in_namespace(f"mqregistry {words}", "")
    assert empty == f"mqregistry {words}" + (" --namespace NAMESPACE" if TAKES[words] else "")


def test_each_command_of_a_sentence_is_known_and_written_as_one():
    seen = set()
    for text in sentences():
        for before, after in zip(SHOWN.findall(text), SHOWN.findall(in_namespace(text, "tenant-b")), strict=True):
            words = command_of(before)
            assert words is not None, f"no command {before!r}: {text}"
            assert (f"{words} --namespace tenant-b" in after) == TAKES[words], text
            seen.add(words)
        # without its first word it would not be found
        assert not [one for one in re.findall(r"<code>([a-z-]+)[ <]", text) if one in cli.list_commands(None)], text
    assert len(seen) > 8


def test_other_words_are_no_commands():
    for text in ("use the Redis user mqregistry of deploy/users.acl", "mqregistry 1.0", "mqregistry upx", "topics"):
        assert in_namespace(text, "tenant-b") == text


@pytest.fixture
def namespace():
    return f"tenant-b-{secrets.token_hex(4)}"


def unnamed(page, namespace):
    """The commands of a page: those that name its namespace, and those that should and do not."""
    found = SHOWN.findall(html.unescape(page))
    assert [one for one in found if command_of(one) is None] == []
    named = [one for one in found if f"{command_of(one)} --namespace {namespace}" in one]
    return named, [one for one in found if TAKES[command_of(one)] and one not in named]


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_no_page_shows_a_command_without_its_namespace(acting, bed, language):
    acting.http.headers["accept-language"] = language
    await acting.until_seen(await fill(bed))
    await bed.routes.set_write_perm("broker-b", "wipe")
    await acting.until_seen((await bed.head()).seq)
    seen, wrong = set(), {}
    async for address, page in pages_of(acting):
        named, forgotten = unnamed(page, bed.store.namespace)
        seen |= {command_of(one) for one in named}
        if forgotten:
            wrong[address] = forgotten
    assert wrong == {}
    assert {"broker restore", "auth observe", "auth allow", "pipeline run"} <= seen


async def test_no_twin_shows_a_command_without_its_namespace(site, bed):
    await site.until_seen(await fill(bed))
    await bed.routes.set_write_perm("broker-b", "wipe")
    await site.until_seen((await bed.head()).seq)
    seen = set()
    for path in TWINS:
        for query in QUERIES[path]:
            answer = await site.http.get(f"{twin_path(path).format(seq=1)}?{query}")
            named, forgotten = unnamed(answer.text, bed.store.namespace)
            assert forgotten == [], (path, query)
            seen |= {command_of(one) for one in named}
    assert {"broker restore", "auth observe", "auth allow", "console"} <= seen


async def test_what_other_rooms_say_of_commands_names_the_namespace_too(site, bed, monkeypatch):
    await bed.register(topics=["orders", "bills"])
    await site.until_seen((await bed.head()).seq)

    def failing(error):
        async def fail(*_):
            raise error("it holds no past: 'mqregistry pipeline run --once' writes it")

        return fail

    monkeypatch.setattr(site.console.past, "at", failing(NotKnown))
    monkeypatch.setattr(site.console.report, "get", failing(NoReport))
    command = f"mqregistry pipeline run --namespace {bed.store.namespace} --once"
    for path, status in (("/brokers", 404), ("/brokers.json", 404), ("/missing", 200), ("/report", 200)):
        assert command in await site.get(path, status, at="-1s"), path
