"""What each broker's last large registration said, as digests of its pieces: the next one is mostly the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from registry.protocol.register_pieces import Piece

# A piece is 200 bytes or so here and 16 KiB of a body: 10 MB for 500 brokers with 10,000 topics each.
MAX_PIECES: Final = 50_000


class LastBody(NamedTuple):
    """One broker's last body that was read whole or by its difference.

    epoch, rev: as long as the row of broker_name is at this rev, each topic of the body stands in the tables as the
    body says, but for the write permission if wipes_write.
    """

    broker_name: str
    epoch: str
    rev: int
    wipes_write: bool
    pieces: Sequence[Piece]


class LastBodies:
    """By broker (``who``); forgets those that were not used for longest."""

    def __init__(self, max_pieces: int = MAX_PIECES) -> None:
        self._bodies: dict[str, LastBody] = {}
        self._max_pieces = max_pieces
        self._pieces = 0

    def get(self, who: str) -> LastBody | None:
        """The last body of this broker."""
        return self._bodies.get(who)

    def put(self, who: str, body: LastBody) -> None:
        """Another one."""
        self.forget(who)
        self._bodies[who] = body
        self._pieces += len(body.pieces)
        while self._pieces > self._max_pieces:
            self.forget(next(iter(self._bodies)))

    def forget(self, who: str) -> None:
        """Read its next one whole."""
        gone = self._bodies.pop(who, None)
        if gone is not None:
            self._pieces -= len(gone.pieces)
