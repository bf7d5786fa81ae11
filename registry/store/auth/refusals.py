"""Writes refused requests into Redis, and reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from ...auth.policy import Mode
from ...auth.refused import Last, RefusedEntry, RefusedKind, RefusedSummary
from ...errors import StoreError
from .. import keys
from ..store import Store
from ..streams import entry_pages

_KINDS_PER_CALL: Final = 100
_ENTRIES_PER_CALL: Final = 1000

_encode: Final = msgspec.json.Encoder().encode
_decode_kind: Final = msgspec.json.Decoder(RefusedKind).decode
_decode_entry: Final = msgspec.json.Decoder(RefusedEntry).decode


class _Counted(msgspec.Struct, frozen=True):
    count: int
    first_ms: int
    last_ms: int
    mode: Mode
    last: Last


_decode_counted: Final = msgspec.json.Decoder(_Counted).decode


class RefusalStore:
    """Refused requests of one namespace: a summary of each kind, and the stream of the front ends' reports.

    lua/note_refused.lua limits the size of both.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def note(self, front_end: str, mode: Mode, refused: Sequence[tuple[RefusedKind, int, Last]]) -> None:
        """Write a report: for each kind of refused request, the number since the last report, and the last request."""
        for first in range(0, len(refused), _KINDS_PER_CALL):
            flat = [
                part
                for kind, count, last in refused[first : first + _KINDS_PER_CALL]
                for part in (_encode(kind), count, _encode(last))
            ]
            await self._store.call("note_refused", front_end, mode.value, *flat)

    async def summary(self) -> list[RefusedSummary]:
        """Every kind that Redis keeps, sorted by the time of its last request, the latest first."""
        (found,) = await self._store.read(("HGETALL", keys.auth_refused(self._store.namespace)))
        rows = []
        try:
            for kind, counted in found.items():
                one = _decode_counted(counted)
                rows.append(
                    RefusedSummary(one.count, one.first_ms, one.last_ms, one.mode, one.last, _decode_kind(kind))
                )
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _later(error) from error
        return sorted(rows, key=lambda row: row.last_ms, reverse=True)

    async def entries(self, since_ms: int = 0) -> list[RefusedEntry]:
        """The kept reports since a moment, the oldest first."""
        found: list[RefusedEntry] = []
        key = keys.auth_refusals(self._store.namespace)
        async for page in entry_pages(self._store, key, str(since_ms), "+", _ENTRIES_PER_CALL):
            try:
                found += (_decode_entry(fields[b"e"]) for _, fields in page)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise _later(error) from error
        return found


async def read_last_use(store: Store) -> dict[str, int]:
    """Id of a secret -> when it was last used, in ms by the clock of Redis. A secret that was never used is missing."""
    (found,) = await store.read(("HGETALL", keys.auth_used(store.namespace)))
    return {secret_id.decode(): int(ms) for secret_id, ms in found.items()}


def _later(error: Exception) -> StoreError:
    return StoreError(
        f"refused requests are stored in a form that this release does not know ({error}): "
        "use the release that wrote them"
    )
