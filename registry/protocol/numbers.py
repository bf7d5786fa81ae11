"""How Java reads numbers and booleans from text (Integer.parseInt, Long.parseLong, Boolean.parseBoolean)."""

from __future__ import annotations

import re
from typing import Final

# More digits than any int64 has would only make int() slow; leading zeros are as rare as they are legal.
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}")


def parse_int(text: str) -> int | None:
    """An int32, or None."""
    return _parse(text, 2**31)


def parse_long(text: str) -> int | None:
    """An int64, or None."""
    return _parse(text, 2**63)


def parse_boolean(text: str) -> bool:
    """Only "true", in any case, is true."""
    return text.lower() == "true"


def _parse(text: str, bound: int) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -bound <= number < bound else None
