"""The first lines of the page Now: who went and is not back, who was wiped, who shares an address. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from ...events.changes import WritePermSet
from ...operators.words import counted, some
from ...tables.tables import Tables
from ...tables.writable import is_read_only
from ..findings import Finding, clock
from .departures import Departure

_SHOWN: Final = 12


def incidents(
    tables: Tables, departures: Collection[Departure], perm_changes: Mapping[str, WritePermSet], now_ms: int
) -> list[Finding]:
    """What happened to brokers, the latest first.

    Args:
        departures: those that nobody dismissed. perm_changes: the last change of write permission of each brokerName.
    """
    return [*left(departures, now_ms), *_shared(tables), *_wiped(tables, perm_changes, now_ms)]


def left(departures: Collection[Departure], now_ms: int) -> Iterator[Finding]:
    """One sentence for each departure."""
    for one in list(departures)[:_SHOWN]:
        began, ended = clock(one.since_ms, now_ms), clock(one.until_ms, now_ms)
        when = f"at {began}" if began == ended else f"from {began} to {ended}"
        text = f"{one.size} went {when} and {'is' if len(one.brokers) == 1 else 'are'} not back: "
        text += f"{one.why}. At {one.places}: {one.names}."
        yield Finding("warn" if one.is_planned else "bad", text, f"/changes/{one.seq}", dismiss=one.key)
    if len(departures) > _SHOWN:
        more = sum(len(one.brokers) for one in list(departures)[_SHOWN:])
        yield Finding("warn", f"{counted(more, 'broker')} went earlier and are not back.", "/brokers?lane=day")


def _shared(tables: Tables) -> Iterator[Finding]:
    """Two broker names at one address: usually a configuration that was copied, with brokerName or listenPort left."""
    names: dict[str, set[str]] = {}
    for name, row in tables.brokers.items():
        for addr in row.broker_addrs.values():
            names.setdefault(addr, set()).add(name)
    for addr, sharing in sorted(names.items()):
        if len(sharing) > 1:
            yield Finding(
                "bad",
                f"{counted(len(sharing), 'broker name')} have registered one address, {addr}: {some(sharing)}. Clients "
                "of each are sent to the same process. Was a broker's configuration copied?",
                f"/brokers?filter={addr}",
            )


def _wiped(tables: Tables, perm_changes: Mapping[str, WritePermSet], now_ms: int) -> Iterator[Finding]:
    for name in sorted(tables.brokers):
        if not is_read_only(tables, name):
            continue
        change = perm_changes.get(name)
        by = "" if change is None else f" since {clock(change.ms, now_ms)}"
        by += f", by {change.by}" if change is not None and change.by is not None else ""
        text = (
            f"No topic of {name} can be written to{by}. 'mqregistry broker restore {name}' gives the permission back."
        )
        yield Finding("warn", text, f"/changes/{change.seq}" if change is not None else f"/brokers?filter={name}")
