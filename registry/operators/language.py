"""The language of sentences for people: English, unless a page of the console asks for another language.

A sentence is looked up by its English words, as with gettext, and holes in it have names: ``say("It went at {time}.",
time="14:03")``. Commands, logs and what is written to Redis are in English: nothing chooses a language there.
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
    """Say everything in English meanwhile, for a log or for Redis."""
    token = _chosen.set(ENGLISH)
    try:
        yield
    finally:
        _chosen.reset(token)


def language() -> NullTranslations:
    """The catalogue in use: what is kept of sentences is kept for each of these."""
    return _chosen.get()


def say(message: str, **values: Any) -> str:
    """A sentence in the language in use, with these values in its holes."""
    text = _chosen.get().gettext(message)
    return text.format(**values) if values else text


def say_number(one: str, several: str, number: int, **values: Any) -> str:
    """The sentence that fits a number: ``one``, as of ``{number} topic``, or ``several``."""
    return _chosen.get().ngettext(one, several, number).format(number=number, **values)


def marked(message: str) -> str:
    """The sentence as it is: says that the catalogue has it, where a constant is translated later."""
    return message
