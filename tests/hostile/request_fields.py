"""Which request codes there are and which header fields each has, read from the protocol's own tables.

A code that is added to ``registry/protocol/codes.py``, or a field to ``registry/protocol/headers.py``, is then fuzzed
and attacked without being named here.
"""

from __future__ import annotations

import re
from functools import cache

from mqregistry.protocol import headers
from mqregistry.protocol.codes import RequestCode
from mqregistry.protocol.headers import Header
from mqregistry.protocol.numbers import parse_boolean, parse_int, parse_long
from mqregistry.protocol.watch import ROUTE_WATCH

CODES: tuple[int, ...] = (*sorted(RequestCode), ROUTE_WATCH)
"""Every request code that has a name."""

TEXT, INT32, INT64, BOOLEAN = "text", "int32", "int64", "boolean"
_KINDS = {str: TEXT, parse_int: INT32, parse_long: INT64, parse_boolean: BOOLEAN}
_WATCH_FIELDS = {"holdMillis": INT32, "epoch": TEXT, "seq": INT64}  # it has no header class
_CODE = re.compile(r"\b[A-Z][A-Z_]+ \((\d+)\)")


@cache
def header_of() -> dict[int, type[Header]]:
    """The header class of each request code that has one, as the first line of its docstring says."""
    found: dict[int, type[Header]] = {}
    for header in vars(headers).values():
        if isinstance(header, type) and issubclass(header, Header) and header is not Header:
            first_line = (header.__doc__ or "").partition("\n")[0]
            if not first_line.startswith("Reply to "):
                found |= dict.fromkeys(map(int, _CODE.findall(first_line)), header)
    return found


def fields_of(code: int) -> dict[str, str]:
    """Field name on the wire -> its kind (TEXT ... BOOLEAN); none for a code without a header."""
    if code == ROUTE_WATCH:
        return _WATCH_FIELDS
    header = header_of().get(code)
    return {key: _KINDS[parse] for _, key, parse in headers._fields(header)} if header else {}


@cache
def every_field() -> tuple[str, ...]:
    """The fields of all codes, each once."""
    return tuple(dict.fromkeys(name for code in CODES for name in fields_of(code)))
