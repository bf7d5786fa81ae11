"""Chooses the language of a page: that of its address, else that of a cookie, else what the browser accepts."""

from __future__ import annotations

import functools
import io
from collections.abc import Mapping
from gettext import GNUTranslations, NullTranslations
from pathlib import Path
from typing import Any, Final

from babel.core import negotiate_locale
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from ...names import printable
from ...operators.language import ENGLISH, choose_language, language, say_number
from .commands import OfNamespace

LANGUAGE_COOKIE: Final = "language"
LANGUAGES: Final[Mapping[str, str]] = {"en": "English", "zh": "中文"}
"""Code and own name of each language."""
_TAGS: Final = {"en": "en", "zh": "zh-CN"}
_HEADER: Final = "x-language"  # of open pages, which keep their language when another tab changes the cookie
_YEAR_S: Final = 366 * 86_400
_MOST_ACCEPTED: Final = 20


@functools.cache
def catalogue(code: str) -> NullTranslations:
    """The sentences of a language, read once."""
    if code == "en":
        return ENGLISH
    with (Path(__file__).parent / f"{code}.po").open("rb") as file:
        words = read_po(file, locale=code)
    compiled = io.BytesIO()
    write_mo(compiled, words)
    compiled.seek(0)
    return GNUTranslations(compiled)


@functools.cache
def _of(code: str, namespace: str) -> NullTranslations:
    """The sentences for the pages of a namespace; always the same object, since caches use it as a key."""
    return OfNamespace(catalogue(code), namespace)


def language_of(request: Request) -> str:
    """The code of the language that a request asks for; English if the console does not have the language."""
    asked = (request.headers.get(_HEADER, ""), request.query_params.get("lang", ""),
             request.cookies.get(LANGUAGE_COOKIE, ""))  # fmt: skip
    for code in asked:
        if code in LANGUAGES:
            return code
    accepted = _accepted(request.headers.get("accept-language", ""))
    return negotiate_locale(accepted, LANGUAGES, sep="-") or "en"


def _accepted(header: str) -> list[str]:
    """The languages that a browser accepts, the most wanted first."""
    found = []
    for part in header.split(",")[:_MOST_ACCEPTED]:
        name, _, weight = part.strip().lower().partition(";q=")
        try:
            quality = float(weight or 1)
        except ValueError:
            continue
        if name and quality > 0:
            found.append((-quality, name))
    return [name for _, name in sorted(found, key=lambda one: one[0])]


def speak(request: Request, namespace: str, *, english: bool = False) -> None:
    """Use the language of a request in this task.

    Args:
        namespace: of the page; commands in sentences contain it. Empty: the page has none. english: always use English,
            for programs.
    """
    code = "en" if english else language_of(request)
    request.state.language = code
    choose_language(_of(code, namespace))


def keep_language(request: Request, response: Response, path: str) -> None:
    """Set a cookie with the language that the address asks for."""
    code = request.query_params.get("lang", "")
    if code in LANGUAGES and _HEADER not in request.headers:
        response.set_cookie(
            LANGUAGE_COOKIE, code, max_age=_YEAR_S, path=path or "/", httponly=True, samesite="strict"
        )  # fmt: skip


def of_page(request: Request) -> dict[str, Any]:
    """The values and functions of the page's language for its template."""
    code = getattr(request.state, "language", "en")
    return {"lang": code, "lang_tag": _TAGS[code], "languages": LANGUAGES}


def say_html(message: str, **values: Any) -> Markup:
    """A sentence of a template, which may contain HTML; the values of its placeholders are escaped."""
    text = _html(language(), message)
    return text.format(**{key: shown(value) for key, value in values.items()}) if values else text


@functools.lru_cache(maxsize=4096)
def _html(words: NullTranslations, message: str) -> Markup:
    """Cached, because the cells of a table repeat a few sentences, and to look up each took half the time of a page."""
    return Markup(words.gettext(message))


def say_number_html(one: str, several: str, number: int, **values: Any) -> Markup:
    """A sentence of a template, in the form that fits a number."""
    return Markup(say_number(one, several, number, **{key: Markup.escape(shown(each)) for key, each in values.items()}))


def shown(value: Any) -> Any:
    """Make a value of a page printable: escape characters that would change how the page is displayed."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
