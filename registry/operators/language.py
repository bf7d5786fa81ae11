"""The language of sentences for people: English, unless a page of the console asks for another language.

A sentence is looked up by its English words, as with gettext, and its placeholders have names:
``say("It went at {time}.", time="14:03")``. Commands, logs and data in Redis are in English.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from gettext import NullTranslations
from typing import Any, Final

ENGLISH: Final = NullTranslations()
_chosen: Final[ContextVar[NullTranslations]] = ContextVar("language", default=ENGLISH)


def choose_language(words: NullTranslations) -> None:
    """Use a catalogue of sentences in this task; ``ENGLISH``: sentences as the code has them."""
    _chosen.set(words)


@contextlib.contextmanager
def in_english() -> Iterator[None]:
    """Use English in this context, for a log or for Redis."""
    token = _chosen.set(ENGLISH)
    try:
        yield
    finally:
        _chosen.reset(token)


def language() -> NullTranslations:
    """The catalogue in use; caches of sentences have an entry for each catalogue."""
    return _chosen.get()


def say(message: str, **values: Any) -> str:
    """A sentence in the language in use, with these values for its placeholders."""
    text = _chosen.get().gettext(message)
    return text.format(**values) if values else text


def say_number(one: str, several: str, number: int, **values: Any) -> str:
    """The sentence for a number: ``one`` (as ``{number} topic``), or ``several``."""
    return _chosen.get().ngettext(one, several, number).format(number=number, **values)


def marked(message: str) -> str:
    """Return the sentence unchanged; the call tells the catalogue's test that ``say`` translates it later."""
    return message
