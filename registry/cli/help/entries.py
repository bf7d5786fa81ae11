"""Finds entries of the troubleshooting page, by an error message or by search words."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from ... import errors

_HEADING: Final = re.compile(r"^(#{2,3}) (.+)\n\n\*\*`mqregistry help ([a-z-]+)`\*\*((?:.|\n(?!\n))*)\n", re.M)
_ANY: Final = "…"
_LEAST_WORD: Final = 3
_SHOWN: Final = 5

# The entry for an error whose message is not on the page; the first class that fits.
_OF_KINDS: Final = (
    (errors.StartError, "cannot-start"), (errors.StoreRefusesWrites, "redis-refuses-writes"),
    (errors.StoreUnavailable, "redis-away"), (errors.NoNamespace, "no-namespace"),
    (errors.MissingRight, "missing-right"), (errors.PeerUnavailable, "no-name-server"), (errors.NoRoute, "no-route"),
)  # fmt: skip
OTHERWISE: Final = "unclear"


class HelpEntry(NamedTuple):
    """A section of the page. messages: error messages that it explains; … in them is any text. text: its Markdown."""

    name: str
    title: str
    messages: tuple[str, ...]
    text: str


@cache
def entries() -> dict[str, HelpEntry]:
    """Every entry by its name, in the order of the page."""
    page = (files(__package__) / "troubleshooting.md").read_text(encoding="utf-8")
    found = list(_HEADING.finditer(page))
    parts = {}
    for at, heading in enumerate(found):
        _, title, name, about = heading.groups()
        until = found[at + 1].start() if at + 1 < len(found) else len(page)
        messages = tuple(" ".join(text.split()) for text in re.findall(r"`([^`]+)`", about))
        parts[name] = HelpEntry(name, title.replace("`", ""), messages, page[heading.end() : until].strip())
    return parts


@cache
def _patterns() -> tuple[tuple[int, re.Pattern[str], str], ...]:
    """Length, regular expression and entry of each message; the longest (most specific) comes first."""
    made = [
        (len(message.replace(_ANY, "")), re.compile(re.escape(message).replace(_ANY, ".*?"), re.S), entry.name)
        for entry in entries().values()
        for message in entry.messages
    ]
    return tuple(sorted(made, key=lambda one: -one[0]))


def entry_of_text(text: str) -> str | None:
    """The name of the entry that is about a message; None: no entry is."""
    text = " ".join(text.split())
    return next((name for _, pattern, name in _patterns() if pattern.search(text)), None)


def entry_of(error: BaseException, text: str) -> str:
    """The name of the entry that is about an error with this message; each error has one."""
    kind = (name for kind, name in _OF_KINDS if isinstance(error, kind))
    return entry_of_text(text) or next(kind, OTHERWISE)


def search(words: str) -> list[HelpEntry]:
    """The entries for search words: a name, a message or a part of one, or words of the entry; the best first."""
    every = entries()
    name = words.strip().lower().replace(" ", "-")
    if name in every:
        return [every[name]]
    if (of_text := entry_of_text(words)) is not None:
        return [every[of_text]]
    scores = {one: _score(_words(words), one) for one in every.values()}
    return sorted((one for one in every.values() if scores[one] > 0), key=lambda one: -scores[one])[:_SHOWN]


def _score(asked: set[str], entry: HelpEntry) -> float:
    """How well words fit an entry: a word counts for more if it is rare, and if it is in name, title or messages."""
    said, more = _words(" ".join((entry.name, entry.title, *entry.messages))), _words(entry.text)
    score = 0.0
    for word in asked:
        known = difflib.get_close_matches(word, _every_word(), 1, 0.8)
        if known:
            weight = 1 / _every_word()[known[0]]
            score += 3 * weight if known[0] in said else weight if known[0] in more else 0
    return score


@cache
def _every_word() -> Counter[str]:
    """Each word of the page, and how many entries have it."""
    return Counter(
        word for one in entries().values() for word in _words(" ".join((one.name, one.title, *one.messages, one.text)))
    )


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) >= _LEAST_WORD}
