"""Parses numbers and booleans as Java does (Integer.parseInt, Long.parseLong, Boolean.parseBoolean)."""

from __future__ import annotations

import re
from typing import Final

# An int64 has at most 19 digits, and 40 leaves room for leading zeros; for longer texts int() is slow.
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}")


def parse_int(text: str) -> int | None:
    """Parse an int32; None when the text is no int32."""
    return _parse(text, 2**31)


def parse_long(text: str) -> int | None:
    """Parse an int64; None when the text is no int64."""
    return _parse(text, 2**63)


def parse_boolean(text: str) -> bool:
    """Return True for "true" in any case, False for everything else."""
    return text.lower() == "true"


def _parse(text: str, bound: int) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -bound <= number < bound else None
