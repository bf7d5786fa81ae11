"""Reads and writes Java's ``.properties`` syntax as java.util.Properties does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_TERMINATOR: Final = re.compile(r"\r\n|\n|\r")  # str.splitlines splits at more characters than Java
_BLANKS: Final = " \t\f"
_ENTRY: Final = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.S)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.S)
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED: Final = {"\\": "\\\\", "\ufeff": "\\ufeff"} | {char: f"\\{letter}" for letter, char in _ESCAPES.items()}


class Property(NamedTuple):
    """One entry; ``line``: the number of its first line, from 1."""

    key: str
    value: str
    line: int


class PropertiesSyntaxError(ValueError):
    r"""The file has a ``\u`` without four hexadecimal digits, which is the only fault that such a file can have."""

    def __init__(self, line: int) -> None:
        super().__init__("\\u must be followed by four hexadecimal digits (write \\\\ for a backslash)")
        self.line = line


def parse(data: bytes) -> list[Property]:
    r"""All entries in order; if a key is there twice, its last entry counts.

    The text is UTF-8 if it is valid UTF-8, else ISO-8859-1, which Java reads.

    Raises:
        PropertiesSyntaxError: a broken ``\u`` escape.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("iso-8859-1")
    entries = []
    for number, line in _logical_lines(text):
        found = _ENTRY.fullmatch(line)
        assert found is not None  # every part of the pattern may be empty
        entries.append(Property(_unescaped(found[1], number), _unescaped(found[2], number), number))
    return entries


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines with their continuation lines joined, without comments and blank lines."""
    parts: list[str] = []
    first = 0
    for number, raw in enumerate(_TERMINATOR.split(text), 1):
        line = raw.lstrip(_BLANKS)
        if not parts and (not line or line[0] in "#!"):
            continue
        if not parts:
            first = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            if parts or len(line) > 1:  # after a line that is only a backslash, Java starts a new logical line
                parts.append(line[:-1])
            continue
        parts.append(line)
        yield first, "".join(parts)
        parts = []
    if parts:
        yield first, "".join(parts)


def _unescaped(text: str, line: int) -> str:
    if "\\" not in text:
        return text

    def char(match: re.Match[str]) -> str:
        escape = match[1]
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        if escape == "u":
            raise PropertiesSyntaxError(line)
        return _ESCAPES.get(escape, escape)

    # Java, too, reads the two escapes \ud83d\ude00 as one character
    return _ESCAPE.sub(char, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def line(key: str, value: str) -> str:
    """One entry as text with its line end; :func:`parse` reads the same entry from it."""
    escaped = "".join(f"\\{char}" if char in " :=#!" else _ESCAPED.get(char, char) for char in key)
    blank = "\\" if value.startswith(" ") else ""
    return f"{escaped}={blank}" + "".join(_ESCAPED.get(char, char) for char in value) + "\n"
