"""``mqregistry help``: an entry for each error, found by its name, its message or words, and for logs, too."""

from __future__ import annotations

import json
import logging
import re

import pytest

from mqregistry.cli import _name_entry
from mqregistry.cli.help.entries import OTHERWISE, entries, entry_of, entry_of_text, search
from mqregistry.cli.run.logging_setup import _Formatter, _JsonFormatter
from mqregistry.errors import MissingRight, NoNamespace, RegistryError, StartError, StoreRefusesWrites, StoreUnavailable

from .process.test_readme import KNOWN
from .process.world import ROOT

PAGE = (ROOT / "docs" / "howto" / "troubleshooting.md").read_text(encoding="utf-8")


def test_each_section_of_the_page_is_an_entry_and_no_name_is_a_command():
    assert len(entries()) == len(re.findall(r"^##+ ", PAGE, re.M)) > 20
    assert not set(entries()) & {path[0] for path in KNOWN}
    for entry in entries().values():
        assert len(entry.text) > 40, entry.name


@pytest.mark.parametrize("entry", entries().values(), ids=lambda entry: entry.name)
def test_an_entry_is_found_by_its_name_its_title_and_its_messages(entry):
    assert search(entry.name)[0] == entry
    assert entry in search(entry.title)
    for message in entry.messages:
        assert entry_of_text(f"before {message.replace('…', 'any thing')} behind") == entry.name


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("org.apache.rocketmq.client.exception.MQClientException: No route info of this topic, orders", "no-route"),
        ("producer has no route", "no-route"),
        ("appendonly file damaged", "damaged-file"),
        ("the redis memory grows", "redis-grows"),
        ("maxmemory polcy", "maxmemory-policy"),
        ("NOPERM this user has no permissions", "missing-right"),
    ],
)
def test_words_find_what_they_mean(words, name):
    assert search(words)[0].name == name


def test_what_nobody_knows_is_said(command):
    assert search("xyzzyqq") == []
    assert "no entry is about 'xyzzyqq'" in command("help", "xyzzyqq", expect=1).output


def test_the_command_shows_an_entry_a_list_or_the_help_of_a_command(command):
    shown = command("help", "no-route").stdout
    assert shown.startswith("A producer says No route info of this topic\n---")
    assert "](" not in command("help", "no-namespace").stdout + command("help", "damaged-file").stdout
    listed = [line.split()[0] for line in command("help").stdout.splitlines()]
    assert listed == list(entries())
    assert " kv put [OPTIONS] KV_NAMESPACE KEY VALUE\n" in command("help", "kv", "put").stdout


@pytest.mark.parametrize(
    ("error", "text", "name"),
    [
        (StartError(""), "cannot start: something new", "cannot-start"),
        (StartError(""), "cannot start: port taken: 9876", "port-taken"),
        (StoreUnavailable(""), "Redis at here: no answer", "redis-away"),
        (StoreRefusesWrites(""), "no", "redis-refuses-writes"),
        (NoNamespace(""), "it is not there", "no-namespace"),
        (MissingRight(""), "may not", "missing-right"),
        (RegistryError(""), "something new", OTHERWISE),
    ],
)
def test_each_error_has_an_entry(error, text, name, capsys):
    assert entry_of(error, text) == name
    assert name in entries()
    _name_entry(error, text)
    assert capsys.readouterr().err == f"See: mqregistry help {name}\n"


def record(level, text):
    return logging.LogRecord("mqregistry.server.x", level, "", 0, text, (), None)


def test_warnings_of_a_log_name_their_entry_and_other_lines_do_not():
    away = "Redis is away: nobody there; waiting for it, every request is answered with an error until it is there"
    text = _Formatter("%(message)s%(see)s")
    assert text.format(record(logging.WARNING, away)) == f"{away} (mqregistry help redis-away)"
    assert text.format(record(logging.INFO, away)) == away
    assert text.format(record(logging.WARNING, "something else")) == "something else"
    assert json.loads(_JsonFormatter().format(record(logging.ERROR, away)))["help"] == "redis-away"
    assert "help" not in json.loads(_JsonFormatter().format(record(logging.INFO, away)))
