"""Brokers in maintenance: who took them out of service, why and until when.

Each broker name in maintenance has one key in the KV configuration, so the stream of changes has its author and past.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

import msgspec

from ..store.config_writes import KvStore
from ..store.operator_reads import read_kv_value
from ..store.store import Store
from .language import say
from .words import moment

NAMESPACE: Final = "MQREGISTRY_MAINTENANCE"


class Maintenance(msgspec.Struct, frozen=True, omit_defaults=True):
    """The maintenance of one broker name. ``until_ms``: its planned end; None: no end is planned."""

    by: str
    since_ms: int
    reason: str = ""
    until_ms: int | None = None

    def __str__(self) -> str:
        until = say(", until {time}", time=moment(self.until_ms)[:16]) if self.until_ms is not None else ""
        return (
            say("in maintenance since {time}", time=moment(self.since_ms)[:16])
            + until
            + say(", by {author}", author=self.by)
            + (say(": {reason}", reason=self.reason) if self.reason else "")
        )


def maintained(kv: Mapping[str, Mapping[str, str]]) -> dict[str, Maintenance]:
    """The broker names in maintenance, from the KV configuration; values of another form are ignored."""
    decoded = ((name, _decode(text)) for name, text in kv.get(NAMESPACE, {}).items())
    return {name: one for name, one in decoded if one is not None}


def _decode(text: str) -> Maintenance | None:
    try:
        return msgspec.json.decode(text, type=Maintenance)
    except msgspec.DecodeError:
        return None


async def read_maintenance(store: Store, name: str) -> Maintenance | None:
    """The maintenance of a broker name; None: it is in none."""
    text = await read_kv_value(store, NAMESPACE, name)
    return None if text is None else _decode(text)


async def begin_maintenance(store: Store, name: str, reason: str, until_ms: int | None) -> None:
    """Write that a broker name is in maintenance; this replaces an earlier start, author, reason and end."""
    one = Maintenance(str(store.by), round(time.time() * 1000), reason, until_ms)
    await KvStore(store).put(NAMESPACE, name, msgspec.json.encode(one).decode())


async def end_maintenance(store: Store, name: str) -> None:
    """Delete the key that says that a broker name is in maintenance."""
    await KvStore(store).delete(NAMESPACE, name)
