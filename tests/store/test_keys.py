"""The list of keys in ``store/keys.py`` against the Lua scripts: the same kinds of key, types and writers."""

from __future__ import annotations

import inspect
import re

import pytest

from mqregistry.store import keys, scripts

P = "mq:{ns}:"
A = "mqauth:{ns}:"
KINDS = {
    name: function
    for name, function in vars(keys).items()
    if inspect.isfunction(function) and not name.endswith("prefix") and function.__module__ == keys.__name__
}
REMOVALS = {"unregister_broker", "unregister_broker_id", "channel_destroyed", "expire_brokers"}
STREAMS = {"changes", "heartbeats", "lookups"}  # scripts also name these by a variable: P .. stream


def ending(name):
    """What follows ``P`` in a key of this kind, up to the part that varies; what follows ``A`` with that before it."""
    parameters = list(inspect.signature(KINDS[name]).parameters)[1:]
    key = KINDS[name]("ns", *("\0" for _ in parameters))
    assert key.startswith((P, A))
    return (f"A{key.removeprefix(A)}" if key.startswith(A) else key.removeprefix(P)).rstrip("\0")


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


def fact(name, label):
    match = re.search(rf"\b{label}: (.*?)(?=\s(?:TTL|Java|Writers): |\Z)", inspect.getdoc(KINDS[name]), re.S)
    assert match, f"the docstring of {name} has no line {label}:"
    return " ".join(match[1].split()).removesuffix(".")


def test_every_key_that_a_script_names_is_in_the_list():
    for script in scripts.load().values():
        assert named_in(code(script)) <= ENDINGS.keys(), script.name


@pytest.mark.parametrize("name", KINDS)
def test_every_key_of_the_list_is_named_by_a_script(name):
    assert any(ending(name) in named_in(code(script)) for script in scripts.load().values())


def test_no_two_kinds_have_the_same_key():
    assert len(ENDINGS) == len(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_the_type_is_the_one_that_scripts_insist_on(name):
    kind = inspect.getdoc(KINDS[name]).partition(":")[0]
    assert kind in {"HASH", "SET", "ZSET", "LIST", "STREAM", "STRING"}
    for script in scripts.load().values():
        for expected, arguments in re.findall(r'\bexpect\("(\w+)", ([^\n]*)\)', code(script)):
            prefix, rest = ("A", ending(name)[1:]) if ending(name).startswith("A") else ("P", ending(name))
            if re.search(rf'\b{prefix} \.\. "{re.escape(rest)}"', arguments):
                assert expected.upper() == kind, script.name


@pytest.mark.parametrize("name", KINDS)
def test_the_writers_are_scripts_that_name_the_key(name):
    writers = fact(name, "Writers")
    if writers.startswith("every script"):
        return
    for writer in writers.split(", "):
        for script in sorted(REMOVALS) if writer == "removals" else [writer]:
            named = named_in(code(scripts.load()[script]))
            assert ending(name) in named, script


@pytest.mark.parametrize("name", KINDS)
def test_each_tells_its_expiry_and_the_java_table(name):
    assert fact(name, "TTL")
    assert fact(name, "Java")
