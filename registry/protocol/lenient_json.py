"""Parses texts that fastjson 1 accepts although they are not valid JSON.

Java peers write number keys of maps without quotes (``{0:"10.0.0.1:10911"}``), and NameServers up to 5.3.3 also accept
unquoted names, single quotes and repeated commas. msgspec, which reads only standard JSON, is always tried first; this
module parses texts that msgspec refused.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from ..errors import RemoteProtocolError
from .slices import Slices, finish

MAX_LENIENT_BYTES: Final = 64 * 1024
"""The longest text that the parser in Python reads; it takes some 40 ms."""

MAX_BYTES: Final = 256 * 1024
"""The longest text that ``loads`` reads; a megabyte of brackets would take 60 MB of memory. Longer texts of real peers
are standard JSON of the expected type, which callers decode without ``loads``."""

MAX_QUOTED_BYTES: Final = 1024 * 1024
"""The longest text in which integer keys are quoted: a broker with thousands of static topics writes less."""

MAX_DEPTH: Final = 64
"""How deep objects and arrays may nest; real bodies need six levels."""

# What msgspec raises on bad input: its own errors, UnicodeDecodeError (a ValueError), and RecursionError when it skips
# a deeply nested value.
REFUSALS: Final = (msgspec.MsgspecError, ValueError, RecursionError)

# Matches up to and including the colon of the next integer key without quotes. It skips whole strings. Every repeat is
# possessive, so the time is linear.
_BARE_KEY: Final = re.compile(
    rb"""((?: [^"{,]++ | "[^"\\]*+(?:\\.[^"\\]*+)*+" | [{,](?!\s*+-?[0-9]++\s*+:) )*+ [{,]\s*+)"""
    rb"""(-?[0-9]++) \s*+:""",
    re.VERBOSE | re.DOTALL,
)

# More integer keys than a broker with thousands of static topics sends.
_MAX_BARE_KEYS: Final = 100_000
_KEYS_PER_SLICE: Final = 8_000

_TOKEN: Final = re.compile(
    r"""[\s\x00-\x1f\x7f]*+ (?:
      (?P<mark>[{}\[\]:,])
    | "(?P<double>[^"\\]*+(?:\\.[^"\\]*+)*+)"
    | '(?P<single>[^'\\]*+(?:\\.[^'\\]*+)*+)'
    | (?P<number>-?[0-9]++(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?)
    | (?P<name>[A-Za-z_$][\w$]*+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v"}
_LITERALS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

# Numbers of this protocol have fewer characters, and int() is slow for long texts.
_MAX_NUMBER_CHARS: Final = 400


def quoting_integer_keys(data: bytes) -> Slices[bytes]:
    """Quote the integer keys that have no quotes, so that a standard parser can read the text.

    A text beyond MAX_QUOTED_BYTES is returned as it is. Cost: linear, about 9 ms for a register body of a megabyte,
    120 ms for a megabyte that has only keys.
    """
    if len(data) > MAX_QUOTED_BYTES:
        return data
    parts: list[bytes] = []
    at = 0
    # sub() instead of match() would try again at every byte after the last key.
    while found := _BARE_KEY.match(data, at):
        if len(parts) == 2 * _MAX_BARE_KEYS:
            return data
        if len(parts) % _KEYS_PER_SLICE == 0:
            yield
        parts += (found[1], b'"%b":' % found[2])
        at = found.end()
    return b"".join((*parts, data[at:])) if parts else data


def loads(data: bytes) -> Any:
    """Parse one JSON value, standard or lenient.

    Args:
        data: UTF-8; invalid bytes are read as U+FFFD, as in Java.

    Returns:
        dict (keys always str; integer keys in their written form), list, str, int, float, bool or None.

    Raises:
        RemoteProtocolError: a text that fastjson 1 would refuse, nested deeper than MAX_DEPTH, or too long; ``closes``
            is false.
    """
    if len(data) <= MAX_BYTES:
        for text in (data, finish(quoting_integer_keys(data))):
            try:
                return msgspec.json.decode(text)
            except REFUSALS:
                pass
    if len(data) > MAX_LENIENT_BYTES:
        raise RemoteProtocolError(f"no standard JSON, and with {len(data)} bytes too long to read leniently")
    return _Parser(data.decode("utf-8", "replace")).parse()


class _Parser:
    """Parses in one pass over the tokens; a list has the open containers, so deep nesting needs no call stack."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def parse(self) -> Any:
        kind, text = self._next()
        value = self._container(text) if kind == "mark" and text in "{[" else self._scalar(kind, text)
        if self._text[self._at :].strip():
            raise self._error("more text after the value")
        return value

    def _container(self, opening: str) -> Any:
        root: dict[str, Any] | list[Any] = {} if opening == "{" else []
        stack = [root]
        # A value may stand after the opening mark and after a comma; fastjson allows repeated and trailing commas.
        open_for_value = True
        while stack:
            top = stack[-1]
            kind, text = self._next()
            if kind == "mark" and text == ",":
                open_for_value = True
                continue
            if kind == "mark" and text == ("}" if isinstance(top, dict) else "]"):
                stack.pop()
                open_for_value = False
                continue
            if not open_for_value:
                raise self._error("a comma is missing")
            open_for_value = False
            key = ""
            if isinstance(top, dict):
                key = self._key(kind, text)
                kind, text = self._next()
            value: Any
            if kind == "mark" and text in "{[":
                value = {} if text == "{" else []
                if len(stack) == MAX_DEPTH:
                    raise self._error(f"nested deeper than {MAX_DEPTH} levels")
                stack.append(value)
                open_for_value = True
            else:
                value = self._scalar(kind, text)
            if isinstance(top, dict):
                top[key] = value
            else:
                top.append(value)
        return root

    def _next(self) -> tuple[str, str]:
        match = _TOKEN.match(self._text, self._at)
        if match is None or match.lastgroup is None:
            raise self._error("not JSON")
        self._at = match.end()
        return match.lastgroup, match[match.lastgroup]

    def _key(self, kind: str, text: str) -> str:
        if kind in ("double", "single"):
            text = self._unescape(text)
        elif kind == "mark":
            raise self._error(f"{text} where a key is due")
        if self._next() != ("mark", ":"):
            raise self._error("a colon is missing")
        return text

    def _scalar(self, kind: str, text: str) -> Any:
        if kind in ("double", "single"):
            return self._unescape(text)
        if kind == "number" and len(text) <= _MAX_NUMBER_CHARS:
            return float(text) if set(text) & set(".eE") else int(text)
        if kind == "name" and text in _LITERALS:
            return _LITERALS[text]
        raise self._error(f"{text[:40]!r} is no value")

    def _unescape(self, text: str) -> str:
        if "\\" in text:
            text = _ESCAPE.sub(self._escaped, text)
            # A text with a lone surrogate cannot be encoded as UTF-8; Java sends a question mark for it.
            if _SURROGATE.search(text):
                text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return text

    def _escaped(self, match: re.Match[str]) -> str:
        digits = match[1] or match[2]
        if digits:
            return chr(int(digits, 16))
        if match[3] in _ESCAPED:
            return _ESCAPED[match[3]]
        if match[3] in "\"'\\/":
            return match[3]
        raise self._error(f"unknown escape {match[0]!r}")

    def _error(self, what: str) -> RemoteProtocolError:
        return RemoteProtocolError(f"{what}, before character {self._at}")
