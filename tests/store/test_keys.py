"""The keys of ``store/keys.py`` and their tables in docs/redis.md against the Lua scripts: kinds, types and writers."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from mqregistry.store import keys, scripts

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "redis.md").read_text(encoding="utf-8")
P = "mq:{ns}:"
A = "mqauth:{ns}:"
KINDS = {
    name: function
    for name, function in vars(keys).items()
    if inspect.isfunction(function)
    and function.__module__ == keys.__name__
    and not name.startswith("_")
    and not name.endswith("prefix")
}
REMOVALS = {"unregister_broker", "unregister_broker_id", "channel_destroyed", "expire_brokers"}
TYPES = {"HASH", "SET", "ZSET", "LIST", "STREAM", "STRING"}


class Row(NamedTuple):
    """A row of the page. table: of the Java NameServer; None where the table of the page has no such column."""

    type: str
    ttl: str
    writers: str
    table: str | None = None


def rows():
    """Beginning of a key -> its row; ``P:meta`` has a section of its own."""
    assert "## `P:meta`\n\nOne HASH for each namespace." in PAGE
    found = {"meta": Row("HASH", "–", "every script")}
    for key, text in re.findall(r"^\| `([PA]:[^`]+)` \| (.*) \|$", PAGE, re.M):
        first, *cells = re.split(r" \| ", text)
        if first in TYPES:
            _, ttl, writers, *table = cells
            found[short(key)] = Row(first, ttl, writers, *table)
        else:  # of a stream: what an entry is, for how long it is kept, who writes
            ttl, writers = cells
            found[short(key)] = Row("STREAM", ttl, writers)
    return found


def short(key):
    """What follows ``P``, up to the part that varies; what follows ``A`` with that before it."""
    return key.partition("<")[0].removeprefix("P:").replace("A:", "A")


def ending(name):
    """The same of a kind of key in Python."""
    parameters = list(inspect.signature(KINDS[name]).parameters)[1:]
    key = KINDS[name]("ns", *("\0" for _ in parameters))
    assert key.startswith((P, A))
    return (f"A{key.removeprefix(A)}" if key.startswith(A) else key.removeprefix(P)).rstrip("\0")


ROWS = rows()
ENDINGS = {ending(name): name for name in KINDS}


def code(script):
    return re.sub(r"--\[\[.*?\]\]|--[^\n]*", "", script.source, flags=re.S)


def named_in(text):
    """The kinds of key that a Lua source names."""
    found = set(re.findall(r'\bP \.\. "([a-z_-]+:?)', text))
    found |= {f"A{name}" for name in re.findall(r'\bA \.\. "([a-z_-]+)', text)}
    found |= {"Apolicy"} if '.. "policy"' in text else set()  # init_namespace has no A
    # tables of names that are put behind P: snapshot's sources, the streams
    found |= {
        part for row in re.findall(r'= \{"[SZ]SCAN", ("[^}]+)\}', text) for part in re.findall(r'"([a-z_:-]+)"', row)
    }
    found |= set(re.findall(r'"(\w+)"', match[1])) if (match := re.search(r"STREAMS = \{([^}]*)\}", text)) else set()
    return found | ({"meta"} if "KEYS[1]" in text else set())


def writers_of(key):
    """The scripts that the page names as writers of a key; each word must be one."""
    found = set()
    for word in re.split(r"[,;] ", ROWS[key].writers):
        name = word.removeprefix("after an outage also ")
        if name == "removal":
            found |= REMOVALS
        elif name.startswith("as `"):
            found |= writers_of(next(other for other in ROWS if other.startswith(short(name[4:-1]))))
        elif not name.startswith("every script"):
            found.add(name)
    return found


def test_every_key_that_a_script_names_is_in_the_list():
    for script in scripts.load().values():
        assert named_in(code(script)) <= ENDINGS.keys(), script.name


@pytest.mark.parametrize("name", KINDS)
def test_every_key_of_the_list_is_named_by_a_script(name):
    assert any(ending(name) in named_in(code(script)) for script in scripts.load().values())


def test_no_two_kinds_have_the_same_key():
    assert len(ENDINGS) == len(KINDS)


def test_the_page_has_a_row_for_each_kind_and_no_other():
    assert ENDINGS.keys() == ROWS.keys()


@pytest.mark.parametrize("key", ROWS)
def test_the_type_is_the_one_that_scripts_insist_on(key):
    assert ROWS[key].type in TYPES
    for script in scripts.load().values():
        for expected, arguments in re.findall(r'\bexpect\("(\w+)", ([^\n]*)\)', code(script)):
            prefix, rest = ("A", key[1:]) if key.startswith("A") else ("P", key)
            if re.search(rf'\b{prefix} \.\. "{re.escape(rest)}"', arguments):
                assert expected.upper() == ROWS[key].type, script.name


@pytest.mark.parametrize("key", ROWS)
def test_the_writers_are_scripts_that_name_the_key(key):
    for writer in sorted(writers_of(key)):
        assert key in named_in(code(scripts.load()[writer])), writer


@pytest.mark.parametrize("key", ROWS)
def test_each_tells_its_expiry_and_the_java_table(key):
    assert ROWS[key].ttl
    assert ROWS[key].table != ""
