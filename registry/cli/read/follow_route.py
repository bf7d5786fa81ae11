"""``route --follow``: shows each change of a topic's route as it happens: its author, the route before and after."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final, NamedTuple

import click
import msgspec

from ...client.routes.queues import publish_info
from ...config.settings import Settings
from ...errors import NoNamespace, RemoteProtocolError, StoreUnavailable
from ...events.cells import SetMappings, SetQueueData, operations
from ...events.changes import Change
from ...follow.follow import Follow, StreamGap
from ...model import TopicRoute
from ...operators.routes import route_of
from ...protocol.bodies.route import encode_route
from ...store.operator_reads import read_clusters, read_topic_tables
from ...store.snapshot import read_head, read_section
from ...store.store import Store
from ...tables.tables import Tables
from ...tables.topic_history import Place
from .. import output
from ..target import open_target
from .audit import route_lines
from .watch import BLOCK_MS, RedisAway, line


class _SeenRoute(NamedTuple):
    """A copy of the route at one moment, which later changes of the tables do not alter."""

    places: dict[str, Place]
    encoded: bytes
    producers: str
    rest: tuple[str, ...]


_NONE: Final = _SeenRoute({}, b"null", "none: a producer gets 'No route info of this topic'", ())


class _Followed:
    """One topic's route, kept up to date by events."""

    def __init__(self, own: Settings, topic: str, compat: str) -> None:
        self._own, self._topic, self._compat = own, topic, compat
        self._tables = Tables()

    async def read(self, store: Store) -> Follow:
        """Read the present route from Redis; returns the reader of the changes after it."""
        head = await read_head(store)
        # changes during this read are applied a second time, which is harmless: events hold the new values
        self._tables = tables = await read_topic_tables(store, self._topic)
        _, rows = await read_clusters(store)
        tables.brokers.update(rows)
        async for who, flat in read_section(store, "filters"):
            tables.set_filter_servers(who, [server.decode() for server in flat])
        return Follow.behind(store, head)

    def apply(self, whole: list[Change]) -> None:
        """Apply all parts of a change."""
        for part in whole:
            for operation in operations(part):
                if isinstance(operation, SetQueueData):  # queue data of other topics is not kept
                    mine = {topic: data for topic, data in operation.queue_datas.items() if topic == self._topic}
                    operation = SetQueueData(operation.broker_name, mine)
                elif isinstance(operation, SetMappings):
                    operation = SetMappings([one for one in operation.mappings if one[0] == self._topic])
                self._tables.apply_operation(operation)

    def seen(self) -> _SeenRoute:
        """The route as clients of a front end with these settings get it."""
        route = route_of(self._tables, self._own, self._topic, self._compat)
        return _NONE if route is None else _seen(self._topic, route)


def _seen(topic: str, route: TopicRoute) -> _SeenRoute:
    places = {}
    for name, data in sorted(route.queue_datas.items()):
        row = route.broker_rows.get(name)
        places[name] = Place(data, row.cluster, dict(row.broker_addrs)) if row else Place(data)
    notes = tuple(output.route_notes(route))
    return _SeenRoute(places, encode_route(route, quoted_keys=True), _producers(topic, route), notes)


def _producers(topic: str, route: TopicRoute) -> str:
    """The queues that a producer computes from the route."""
    try:
        info = publish_info(topic, route)
    except RemoteProtocolError as error:
        return f"refused by clients: {error}"
    numbers = Counter(queue.broker_name for queue in info.queues)
    if not numbers:
        return "no queue to send to"
    return f"{len(info.queues)} queues: " + ", ".join(f"{name} {number}" for name, number in numbers.items())


async def follow_route(settings: Settings, topic: str, as_json: bool, stop: asyncio.Event) -> None:
    """Show the route, and each change of it, until ``stop`` is set.

    Raises:
        NoNamespace, StoreUnavailable: only at the start. Later, while Redis is away, it waits.
    """
    async with open_target(settings) as store:
        compat = store.compat
    patient = msgspec.structs.replace(settings, redis_timeout_ms=settings.redis_timeout_ms + BLOCK_MS)
    async with Store(patient.redis, patient.namespace, timeout_ms=patient.redis_timeout_ms, compat=compat) as store:
        followed = _Followed(settings, topic, compat)
        follow = await followed.read(store)
        now = followed.seen()
        _show(topic, None, _NONE, now, as_json)
        away, gap = RedisAway(), False
        while not stop.is_set():
            try:
                if gap:
                    follow, gap = await followed.read(store), False
                    now = _tell(topic, None, now, followed.seen(), as_json)
                changes = await follow.read_or_check(block_ms=BLOCK_MS)
            except StreamGap as error:
                click.echo(f"mqregistry: the change stream has a gap here: {error}; the route is read again", err=True)
                gap = True
                continue
            except (StoreUnavailable, NoNamespace) as error:
                await away.wait(error)
                continue
            away.over()
            for change in changes:
                if whole := list(follow.whole(change)):
                    followed.apply(whole)
                    now = _tell(topic, change, now, followed.seen(), as_json)


def _tell(topic: str, change: Change | None, before: _SeenRoute, after: _SeenRoute, as_json: bool) -> _SeenRoute:
    if before != after:
        _show(topic, change, before, after, as_json)
    return after


def _show(topic: str, change: Change | None, before: _SeenRoute, after: _SeenRoute, as_json: bool) -> None:
    first = before is _NONE and change is None
    lines = [f"topic {topic}" if change is None else line(change)]
    lines += [] if first else route_lines("before", before.places)
    lines += route_lines("now" if first else "after", after.places)
    if before.rest != after.rest:
        lines += [f"    - {text}" for text in before.rest if text not in after.rest]
        lines += [f"    + {text}" for text in after.rest if text not in before.rest]
    if first or before.producers == after.producers:
        lines.append(f"    producers: {after.producers}")
    else:
        lines.append(f"    producers: {before.producers} -> {after.producers}")
    told = {"change": change, "before": msgspec.Raw(before.encoded), "after": msgspec.Raw(after.encoded)}
    output.answer(as_json, told, *lines)
