"""The first findings of the page Now: brokers that left, lost write permission, shared addresses. Does no I/O."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping
from typing import Final
from urllib.parse import urlencode

from ...events.changes import WritePermSet
from ...operators.language import say, say_number
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

    ``departures``: without the dismissed ones. ``perm_changes``: the last change of write permission of each
    brokerName.
    """
    at_work = maintained(tables.kv)
    return [
        *left(departures, now_ms, at_work), *_shared(tables), *_wiped(tables, perm_changes, at_work, now_ms),
        *_maintained(at_work, now_ms),
    ]  # fmt: skip


def left(departures: Collection[Departure], now_ms: int, at_work: Container[str] = ()) -> Iterator[ConsoleFinding]:
    """One finding for each departure; a note if all its broker names are in maintenance."""
    for one in list(departures)[:_SHOWN]:
        began, ended = clock(one.since_ms, now_ms), clock(one.until_ms, now_ms)
        is_short = began == ended
        when = say("at {time}", time=began) if is_short else say("from {begin} to {end}", begin=began, end=ended)
        text = say_number(
            "{number} broker went {when} and is not back: {why}. At {places}: {names}.",
            "{number} brokers went {when} and are not back: {why}. At {places}: {names}.", len(one.brokers), when=when,
            why=one.why, places=one.places, names=one.names,
        )  # fmt: skip
        is_meant = all(gone.broker_name in at_work for gone in one.brokers)
        level: Level = "note" if is_meant else "warn" if one.is_planned else "bad"
        yield ConsoleFinding(level, text, f"/changes/{one.seq}", dismiss=one.key, names=one.named)
    if len(departures) > _SHOWN:
        more = sum(len(one.brokers) for one in list(departures)[_SHOWN:])
        text = say("{brokers} went earlier and are not back.", brokers=counted(more, "broker"))
        yield ConsoleFinding("warn", text, "/brokers?lane=day")


def _shared(tables: Tables) -> Iterator[ConsoleFinding]:
    """Broker names that share an address, usually because brokerIP1 and listenPort were copied."""
    names: dict[str, set[str]] = {}
    for name, row in tables.brokers.items():
        for addr in row.broker_addrs.values():
            names.setdefault(addr, set()).add(name)
    for addr, sharing in sorted(names.items()):
        if len(sharing) > 1:
            text = say(
                "{number} broker names have registered one address, {addr}: {names}. Clients of each are sent to the "
                "same process. Was a broker's configuration copied?", number=len(sharing), addr=addr,
                names=some(sharing),
            )  # fmt: skip
            yield ConsoleFinding("bad", text, f"/brokers?filter={addr}", names=brokers_named(sorted(sharing)))


def _maintained(at_work: Mapping[str, Maintenance], now_ms: int) -> Iterator[ConsoleFinding]:
    for name, one in sorted(at_work.items()):
        is_late = one.until_ms is not None and one.until_ms < now_ms
        late = say(" It should be over: 'mqregistry broker restore {name}' ends it.", name=name) if is_late else ""
        level: Level = "warn" if is_late else "note"
        text = say("{name} is {state}.", name=name, state=one) + late
        yield ConsoleFinding(level, text, f"/broker?{urlencode({'name': name})}", names=brokers_named([name]))


def _wiped(
    tables: Tables, perm_changes: Mapping[str, WritePermSet], at_work: Container[str], now_ms: int
) -> Iterator[ConsoleFinding]:
    for name in sorted(tables.brokers):
        if name in at_work or not is_read_only(tables, name):
            continue
        change = perm_changes.get(name)
        by = "" if change is None else say(" since {time}", time=clock(change.ms, now_ms))
        by += say(", by {author}", author=change.by) if change is not None and change.by is not None else ""
        text = say(
            "No topic of {name} can be written to{since}. 'mqregistry broker restore {name}' gives the permission "
            "back.",
            name=name, since=by,
        )  # fmt: skip
        page = f"/changes/{change.seq}" if change is not None else f"/brokers?filter={name}"
        yield ConsoleFinding("warn", text, page, names=brokers_named([name]))
