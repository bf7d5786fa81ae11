"""Remembers the chain of each of the last changes in a view, which shows whether Redis still has these changes.

The chain of a change is a hash of this change and all changes before it.
"""

from __future__ import annotations

from typing import Final

# More changes than a Redis with one save a minute can lose; 3 MB.
_MOST: Final = 20_000


class History:
    """seq -> chain of the last changes; two histories with the same chain have the same changes up to it."""

    def __init__(self) -> None:
        self._chains: dict[int, str] = {}

    def add(self, seq: int, chain: str | None) -> None:
        """Note the chain of the change with this seq; None: it is not known."""
        if chain is not None:
            self._chains.pop(seq, None)
            self._chains[seq] = chain
            if len(self._chains) > _MOST:
                del self._chains[next(iter(self._chains))]

    def chain(self, seq: int) -> str:
        """The chain of the change with this seq; "" = not known."""
        return self._chains.get(seq, "")

    def contradicts(self, seq: int, chain: str | None) -> bool:
        """Whether the change with this seq is known to have another chain."""
        known = self._chains.get(seq)
        return bool(known and chain) and known != chain
