"""Short sequences that chance alone reaches too seldom: each is one operation of a schedule."""

from __future__ import annotations

from .operations import Operation

FRAGMENTS: dict[str, tuple[float, Operation]] = {}
