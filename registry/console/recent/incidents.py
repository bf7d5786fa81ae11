"""The first lines of the page Now: brokers that left, brokers without write permission, shared addresses. Pure."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping
from typing import Final
from urllib.parse import urlencode

from ...events.changes import WritePermSet
from ...operators.maintenance import Maintenance, maintained
from ...operators.words import counted, some
from ...tables.tables import Tables
from ...tables.writable import is_read_only
from ..findings import ConsoleFinding, Level, clock
from ..links import brokers_named
from .departures import Departure

_SHOWN: Final = 12


def incidents(
    tables: Tables, departures: Collection[Departure], perm_changes: Mapping[str, WritePermSet], now_ms: int
) -> list[ConsoleFinding]:
    """What happened to brokers: departures, shared addresses, lost write permission, maintenance.

    Args:
        departures: those that nobody dismissed. perm_changes: the last change of write permission of each brokerName.
    """
    at_work = maintained(tables.kv)
    return [
        *left(departures, now_ms, at_work), *_shared(tables), *_wiped(tables, perm_changes, at_work, now_ms),
        *_maintained(at_work, now_ms),
    ]  # fmt: skip


def left(departures: Collection[Departure], now_ms: int, at_work: Container[str] = ()) -> Iterator[ConsoleFinding]:
    """One sentence for each departure. If all its broker names are in maintenance, it is a note, no fault."""
    for one in list(departures)[:_SHOWN]:
        began, ended = clock(one.since_ms, now_ms), clock(one.until_ms, now_ms)
        when = f"at {began}" if began == ended else f"from {began} to {ended}"
        text = f"{one.size} went {when} and {'is' if len(one.brokers) == 1 else 'are'} not back: "
        text += f"{one.why}. At {one.places}: {one.names}."
        is_meant = all(gone.broker_name in at_work for gone in one.brokers)
        level: Level = "note" if is_meant else "warn" if one.is_planned else "bad"
        yield ConsoleFinding(level, text, f"/changes/{one.seq}", dismiss=one.key, names=one.named)
    if len(departures) > _SHOWN:
        more = sum(len(one.brokers) for one in list(departures)[_SHOWN:])
        yield ConsoleFinding("warn", f"{counted(more, 'broker')} went earlier and are not back.", "/brokers?lane=day")


def _shared(tables: Tables) -> Iterator[ConsoleFinding]:
    """Two broker names at one address: usually a copied configuration with its brokerIP1 or listenPort."""
    names: dict[str, set[str]] = {}
    for name, row in tables.brokers.items():
        for addr in row.broker_addrs.values():
            names.setdefault(addr, set()).add(name)
    for addr, sharing in sorted(names.items()):
        if len(sharing) > 1:
            yield ConsoleFinding(
                "bad",
                f"{counted(len(sharing), 'broker name')} have registered one address, {addr}: {some(sharing)}. Clients "
                "of each are sent to the same process. Was a broker's configuration copied?",
                f"/brokers?filter={addr}",
                names=brokers_named(sorted(sharing)),
            )


def _maintained(at_work: Mapping[str, Maintenance], now_ms: int) -> Iterator[ConsoleFinding]:
    for name, one in sorted(at_work.items()):
        is_late = one.until_ms is not None and one.until_ms < now_ms
        late = f" It should be over: 'mqregistry broker restore {name}' ends it." if is_late else ""
        yield ConsoleFinding(
            "warn" if is_late else "note",
            f"{name} is {one}.{late}",
            f"/broker?{urlencode({'name': name})}",
            names=brokers_named([name]),
        )


def _wiped(
    tables: Tables, perm_changes: Mapping[str, WritePermSet], at_work: Container[str], now_ms: int
) -> Iterator[ConsoleFinding]:
    for name in sorted(tables.brokers):
        if name in at_work or not is_read_only(tables, name):
            continue
        change = perm_changes.get(name)
        by = "" if change is None else f" since {clock(change.ms, now_ms)}"
        by += f", by {change.by}" if change is not None and change.by is not None else ""
        text = (
            f"No topic of {name} can be written to{by}. 'mqregistry broker restore {name}' gives the permission back."
        )
        yield ConsoleFinding(
            "warn",
            text,
            f"/changes/{change.seq}" if change is not None else f"/brokers?filter={name}",
            names=brokers_named([name]),
        )
