"""Restores changes that Redis has lost: runs the script restore_changes."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from itertools import chain
from typing import Final, Literal

import msgspec

from .route_writes import RouteStore
from .store import Store, text

Status = Literal["OK", "RETRY", "BUSY", "OUTDONE"]

_pack: Final = msgspec.msgpack.encode


class Restorer:
    """Restores changes that one worker knew (lua/restore_changes): up to known_seq; it knew of ``losses`` losses."""

    def __init__(self, store: Store, losses: int, known_seq: int) -> None:
        self._store = store.knowing(f"knew {losses} {known_seq} ")
        self._position = losses, known_seq, secrets.token_hex(6)
        self.routes = RouteStore(self._store)  # writes the registrations that it restores
        self.seq = 0  # the seq of Redis after the last call

    async def begin(self) -> Status:
        """Become the worker that restores lost changes."""
        return await self._call("begin", 0)

    async def done(self, at_seq: int) -> Status:
        """Report that the tables at at_seq have all that this worker knows; this ends the restoring."""
        return await self._call("done", at_seq)

    async def give(
        self, at_seq: int, kind: str, name: str, given: Iterable[tuple[str, str]] = (), gone: Iterable[str] = ()
    ) -> Status:
        """Set (given) and remove (gone) entries of one table, if the last change is still at_seq."""
        return await self._call(kind, at_seq, name, list(chain.from_iterable(given)), list(gone))

    async def _call(
        self, kind: str, at_seq: int, name: str = "", given: list[str] | None = None, gone: list[str] | None = None
    ) -> Status:
        reply = await self._store.call(
            "restore_changes", *self._position, at_seq, kind, name, _pack(given or []), _pack(gone or [])
        )
        self.seq = int(reply[1])
        status: Status = text(reply[0])  # type: ignore[assignment]
        return status
