"""Checks names that come from outside, and makes foreign text safe to print.

Topics, clusters, brokers, zones, KV namespaces and KV keys have names; a broker's address counts as a name. A name
becomes part of a Redis key, an event, a log line and a terminal's output: so its size and characters are limited.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from typing import Final

MAX_NAME_BYTES: Final = 255
"""RocketMQ's own limit for the longest topic names (retry topics have a prefix and a consumer group)."""

# C0 and C1 control characters and DEL.
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# Characters that change how the text around them is displayed: control characters, line and paragraph separators,
# bidirectional controls; and lone surrogates, which no output encoding has.
_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def fault_of_name(name: str) -> str | None:
    """Say what is wrong with a name, as the end of a sentence: "is empty"; None: nothing is wrong."""
    if not name:
        return "is empty"
    # nearly all names are ASCII, whose size needs no encoding
    size = len(name) if name.isascii() else len(name.encode("utf-8", "surrogatepass"))
    if size > MAX_NAME_BYTES:
        return f"has {size} bytes, at most {MAX_NAME_BYTES} are allowed"
    if _CONTROL.search(name):
        return "has a control character"
    if not name.isascii() and _SURROGATE.search(name):
        return "has half of a surrogate pair, which no UTF-8 text has"
    return None


def fault_of_address(address: str) -> str | None:
    """Say what is wrong with a broker's address; None: nothing is wrong.

    A broker's identity is ``<cluster>|<address>``: with a ``|`` in the address it could be a broker of another cluster.
    """
    return fault_of_name(address) or ("has a |, which is no part of host:port" if "|" in address else None)


def fault_of_names(names: Collection[str]) -> str | None:
    """Say which of many names has a fault, and which fault: "'a...' has 300 bytes, at most 255 are allowed".

    None: no name has a fault. Cost: 10,000 usual names take 0.4 ms.
    """
    together = "".join(names)
    sizes_fit = all(names) and max(map(len, names), default=0) <= MAX_NAME_BYTES
    # printable ASCII has no control characters, and one byte for each character
    if sizes_fit and together.isascii() and together.isprintable():
        return None
    for name in names:
        fault = fault_of_name(name)
        if fault is not None:
            return f"{f'{name[:100]!r} ' if name else ''}{fault}"
    return None


def printable(text: str) -> str:
    r"""Escape the characters that could make a false log line, or that a terminal takes for a command.

    >>> printable("orders\n2026 ERROR forged\x1b[2J")
    'orders\\n2026 ERROR forged\\x1b[2J'
    """
    if text.isascii() and text.isprintable():
        return text
    return _UNPRINTABLE.sub(lambda match: ascii(match[0])[1:-1], text)


class PrintableFormatter(logging.Formatter):
    """Formats log records, and escapes foreign text in them as :func:`printable` does.

    A message is one line. A traceback keeps its lines; they are indented, so that none of them looks like a record.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line of a record, made safe to print."""
        return printable(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        """The record's line, and its traceback if it has one."""
        line, *more = super().format(record).split("\n")
        return "\n".join((line, *(f"  {printable(one)}" for one in more)))
