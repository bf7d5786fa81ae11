"""Explains why a topic has a route or none, from the tables and the streams of changes and lookups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from ..config.settings import Settings
from ..events.journal import LOOKUPS
from ..model import TopicRoute
from ..store.change_reader import read_first
from ..store.operator_reads import read_rows, read_topic_names, read_topic_tables
from ..store.snapshot import read_head
from ..store.store import Store
from ..store.streams import EntryReader
from ..tables.topic_history import RouteStep
from .closest_names import closest_names
from .history import read_history
from .language import say
from .routes import route_of
from .words import counted, moment, queues_text, some_of

_DAY_MS: Final = 86_400_000
_CLIENTS: Final = 10


class _VainReport(msgspec.Struct):
    """An entry of the stream of lookups, with the members that this module needs."""

    ms: int
    missing: dict[str, int] = {}
    clients: dict[str, list[str]] = {}


_report: Final = msgspec.json.Decoder(_VainReport)


class VainLookups(NamedTuple):
    """Lookups of a name without a route within the last day."""

    times: int = 0
    last_ms: int = 0  # when a front end last reported lookups
    clients: tuple[str, ...] = ()  # addresses of some clients, the last first: front ends report a sample


class Why(NamedTuple):
    """What is known about a topic, which may not exist."""

    topic: str
    route: TopicRoute | None  # as clients get it now; None: code 17
    lost: RouteStep | None  # the last change after which it had no route
    began_ms: int | None  # time of the first change in the stream; None: the stream still has every change
    close: list[str]  # names that are nearly the same
    asked: VainLookups = VainLookups()


async def explain(store: Store, own: Settings, topic: str) -> Why:
    """Explain a topic; if it has no route now, this reads the whole stream of changes.

    Raises:
        StoreUnavailable: Redis did not answer. StoreError: this login may not read the streams.
    """
    tables = await read_topic_tables(store, topic)
    route = route_of(tables, own, topic, store.compat)
    if route is not None:
        return Why(topic, route, None, None, [])
    history, complete = await read_history(store, topic)
    rows = await read_rows(store, history.broker_names)
    lost = None
    for step in history.steps(tables.topics.get(topic, {}), rows, complete=complete):
        lost = step if step.before and not step.after else None
    first = None if complete else await read_first(store)
    asked = await _asked_in_vain(store, topic)
    close = closest_names(topic, await read_topic_names(store))
    return Why(topic, None, lost, first.ms if first else None, close, asked)


async def _asked_in_vain(store: Store, topic: str) -> VainLookups:
    reader, times, last_ms = EntryReader(store, LOOKUPS, (await read_head(store)).now_ms - _DAY_MS), 0, 0
    clients: dict[str, None] = {}
    while entries := await reader.read():
        for report in map(_report.decode, entries):
            if found := report.missing.get(topic, 0):
                times, last_ms = times + found, report.ms
            for client in report.clients.get(topic, ()):
                clients.pop(client, None)
                clients[client] = None
    return VainLookups(times, last_ms, tuple(reversed(clients))[:_CLIENTS])


def lost_text(why: Why) -> str:
    """When the route ended, by which change and author; empty: the stream does not show it."""
    if why.lost is None:
        return ""
    change = why.lost.change
    return f"since {moment(change.ms)}: {change.type}, by {change.by or say('somebody not known')}"


def sentences(why: Why) -> list[str]:
    """The explanation as text, the answer first."""
    if why.route is not None:
        return [f"{why.topic} has a route: it is at {some_of(sorted(why.route.queue_datas))}."]
    told = []
    if why.lost is not None:
        told.append(f"{why.topic} has no route {lost_text(why)}.")
        unknown = "queues not known: set before the stream begins"
        told.append("It was at " + "; ".join(
            f"{name}: {queues_text(place.queue_data) if place.queue_data else unknown}"
            for name, place in why.lost.before.items()
        ) + ".")  # fmt: skip
    elif why.began_ms is None:
        told.append(f"No topic {why.topic} was ever in this namespace.")
    else:
        told.append(
            f"No topic {why.topic} was in this namespace since {moment(why.began_ms)}, where the stream begins."
        )
    if why.close:
        told.append(f"Did you mean {' or '.join(why.close)}?")
    if why.asked.times:
        told.append(asked_text(*why.asked))
    return told


def asked_text(times: int, last_ms: int, clients: Sequence[str]) -> str:
    """How often clients asked for a name in vain, when last, and some of their addresses."""
    text = say(
        "Clients asked for it {times} in vain within the last day, the last time at about {time}.",
        times=counted(times, "time"), time=moment(last_ms)[:19],
    )  # fmt: skip
    return text + (say(" Some of them: {clients}.", clients=", ".join(clients)) if clients else "")
