"""The list of topics, and the page of one topic: its route as clients get it, and who changed it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ...model import BrokerRow, QueueData
from ...operators.closest_names import closest_names
from ...operators.history import read_history
from ...operators.language import say
from ...operators.routes import route_of
from ...operators.why import asked_text
from ...operators.words import perm
from ...protocol.bodies.route import encode_route
from ...store.operator_reads import read_rows, read_topic_tables
from ...tables.tables import Tables
from ...tables.topic_history import RouteStep
from ...tables.writable import is_unwritable, is_writable
from ..context import Console, NotThere, order, paged
from ..links import Named
from ..login.needs import of_route
from ..login.viewer import viewer_of
from ..twins import Twin
from .clusters import topics_of

_STEPS: Final = 20
_SORTS: Final[dict[str, Callable[[str, dict[str, QueueData]], Any]]] = {
    "topic": lambda topic, _: topic,
    "brokers": lambda _, cells: len(cells),
    "read": lambda _, cells: sum(data.read_queue_nums for data in cells.values()),
    "write": lambda _, cells: sum(data.write_queue_nums for data in cells.values()),
}
_NAMES: Final = 4


class TopicLine(NamedTuple):
    """A topic as the list shows it."""

    topic: str
    names: list[str]  # the first few of its broker names
    more: int
    read: int
    write: int
    perms: str
    writable: bool
    shown: bool = True  # whether the viewer may see its route; else only its name is set


TOPICS_TWIN: Final = Twin(
    "Topics.", {"rows": list[TopicLine], "count": int, "total": int, "number": int, "pages": int},
    ("at", "filter", "state", "broker", "cluster", "sort", "page"),
)  # fmt: skip
TOPIC_TWIN: Final = Twin(
    "One topic: its queues as clients get them, and its last changes with the route before and after.",
    {"name": str, "queues": list[tuple[str, BrokerRow | None, QueueData]], "steps": list[RouteStep], "hidden": int,
     "uncertain": list[str], "asked": str},
    ("name", "at"),
)  # fmt: skip


async def topics(console: Console, request: Request) -> Response:
    """The page with the list of topics."""
    text, state = request.query_params.get("filter", "").strip(), request.query_params.get("state", "")
    broker, sort = request.query_params.get("broker", ""), order(request, _SORTS, "topic")
    cluster = request.query_params.get("cluster", "")
    then, viewer = await console.then(request), viewer_of(request)
    tables = console.state.tables if then is None else then.tables
    names = console.topic_names() if then is None else sorted(tables.topics)
    if text:
        wanted = text.lower()
        names = [name for name in names if wanted in name.lower()]
    if state == "unwritable":
        names = [name for name in names if name in tables.topics and is_unwritable(tables, name)]
        names = [name for name in names if viewer.may(of_route(name))]
    if broker:
        names = [name for name in names if broker in tables.topics.get(name, {}) and viewer.may(of_route(name))]
    if cluster:
        names = [name for name in topics_of(tables, cluster, names) if viewer.may(of_route(name))]
    if sort != "topic":
        key = _SORTS[sort.removeprefix("-")]
        names = [name for name in names if name in tables.topics]
        names.sort(key=lambda name: key(name, tables.topics[name]), reverse=sort.startswith("-"))
    shown = paged(request, names)
    names_here = [name for name in shown["rows"] if name in tables.topics]
    shown["rows"] = [_row(tables, name) if viewer.may(of_route(name)) else _unseen(name) for name in names_here]
    return await console.page_of(
        request, "topics.html", then, total=len(tables.topics), filter=text, chosen=state, broker=broker,
        cluster=cluster, sort=sort, **shown,
    )  # fmt: skip


def _row(tables: Tables, topic: str) -> TopicLine:
    cells = tables.topics[topic]
    names = sorted(cells)
    return TopicLine(
        topic, names[:_NAMES], max(0, len(names) - _NAMES), sum(data.read_queue_nums for data in cells.values()),
        sum(data.write_queue_nums for data in cells.values()),
        ", ".join(perm(value) for value in sorted({data.perm for data in cells.values()})),
        is_writable(tables.brokers, cells),
    )  # fmt: skip


def _unseen(topic: str) -> TopicLine:
    return TopicLine(topic, [], 0, 0, 0, "", writable=True, shown=False)


async def topic(console: Console, request: Request) -> Response:
    """The page of one topic: its route as clients get it, and the last changes that the stream holds."""
    name = request.query_params.get("name", "")
    then = await console.then(request)
    tables = console.state.tables if then is None else then.tables
    store = console.state.store
    route = route_of(tables, console.settings, name, store.compat)
    steps: list[RouteStep] = []
    uncertain: list[str] = []
    if console.state.stale_since_ms is None:
        history, complete = await read_history(store, name)
        now = (await read_topic_tables(store, name)).topics.get(name, {})
        rows = await read_rows(store, {*now, *history.broker_names})
        steps = list(history.steps(now, rows, complete=complete))
        uncertain = sorted(set(history.uncertain))
        if then is not None:
            steps = [step for step in steps if step.change.ms <= then.at_ms]
    known = route is not None or bool(steps)
    asked = "" if route is not None or then is not None else _asked(console, name)
    if not known and then is None:
        close = closest_names(name, set(tables.topics))
        text = say("No broker has a topic {name}, and the stream of changes holds no change of it.", name=repr(name))
        text += say(" Did you mean {names}?", names=say(" or ").join(close)) if close else ""
        text += f" {asked}" if asked else ""
        raise NotThere(text, [Named("topic", one) for one in close])
    body = None if route is None else msgspec.json.format(encode_route(route, quoted_keys=True), indent=2).decode()
    queues: list[Any] = [] if route is None else [
        (broker_name, route.broker_rows.get(broker_name), data)
        for broker_name, data in sorted(route.queue_datas.items())
    ]  # fmt: skip
    return await console.page_of(
        request, "topic.html", then, name=name, route=route, queues=queues, body=body, steps=steps[:-_STEPS - 1:-1],
        hidden=max(0, len(steps) - _STEPS), uncertain=uncertain, asked=asked,
    )  # fmt: skip


def _asked(console: Console, name: str) -> str:
    """How often clients asked for a name in vain, and some of these clients; empty: none asked."""
    asked = next((one for one in console.missing.names() if one.name == name), None)
    return asked_text(asked.times, asked.last_ms, asked.clients) if asked is not None else ""
