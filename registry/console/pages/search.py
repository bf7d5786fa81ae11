"""Searches everything that has a name: topics, brokers, addresses, clusters, users, KV keys, and what is gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ...errors import RegistryError
from ...operators.closest_names import closest_names
from ...operators.language import marked, say
from ...store.auth.policies import PolicyStore
from ...tables.tables import Tables
from ..context import Console
from ..login.needs import READ_CONFIG, STRICTEST, of_kv, of_route
from ..login.viewer import Viewer, viewer_of
from ..recent.lanes import DAY_MS
from ..twins import Twin, wants_json

MOST: Final = 30


class Found(NamedTuple):
    """Something with the text in its name. ``path``: the address of its page."""

    kind: str
    name: str
    path: str
    note: str = ""


class FoundIn(NamedTuple):
    """Something with the text in its name, in one of several namespaces."""

    namespace: str
    kind: str
    name: str
    path: str
    note: str


TWIN: Final = Twin(
    "What has a text in its name.", {"text": str, "found": list[Found], "more": int, "close": list[str]}, ("q",)
)


async def search(console: Console, request: Request) -> Response | RedirectResponse:
    """Everything with the text in its name; if only one thing has exactly this name, a redirect to its page."""
    text = request.query_params.get("q", "").strip()
    found = await find(console, viewer_of(request), text)
    exact = exactly(text, found)
    if exact and not wants_json(request):
        return RedirectResponse(exact, 303)
    found.sort(key=lambda one: nearness(text, one.name))
    close = closest_names(text, set(console.state.tables.topics)) if text and not found else []
    return await console.page(
        request, "search.html", text=text, found=found[:MOST], more=max(0, len(found) - MOST), close=close, live=False,
        several=False,
    )  # fmt: skip


async def find(console: Console, viewer: Viewer, text: str) -> list[Found]:
    """What has the text in its name and this viewer may see, unsorted; the viewer has the rights of the page."""
    if not text:
        return []
    return [*islice(_found(console, viewer, text.lower()), 1000), *await _users(console, viewer, text.lower())]


def exactly(text: str, found: Iterable[Found | FoundIn]) -> str:
    """The page of the only thing that has exactly this name; empty: nothing has it, or several things have."""
    pages = [one.path for one in found if one.name == text]
    return pages[0] if len(pages) == 1 else ""


def nearness(text: str, name: str) -> tuple[bool, int, str]:
    """The sort key of a found name; the most similar name comes first."""
    return not name.lower().startswith(text.lower()), len(name), name


def _found(console: Console, viewer: Viewer, text: str) -> Iterator[Found]:
    tables, url = console.state.tables, console.url
    yield from _in_tables(console, tables, text)
    now_ms = console.state.latest_ms
    for one in console.lanes.gone(now_ms, DAY_MS):
        if text in f"{one.broker_name} {one.addr}".lower() and one.broker_name not in tables.brokers:
            yield Found(
                marked("broker name that left"), one.broker_name, url("/broker", name=one.broker_name), one.addr
            )
    for topic in console.topic_names():
        if text in topic.lower():
            yield Found(marked("topic"), topic, url("/topic", name=topic))
    for namespace, keys in tables.kv.items():
        if viewer.may(of_kv(namespace)):
            for key in keys:
                if text in key.lower():
                    yield Found(marked("KV key"), key, url("/kv") + f"#{namespace}", namespace)
    for asked in console.missing.names():
        if text in asked.name.lower() and asked.name not in tables.topics and viewer.may(of_route(asked.name)):
            note = say("asked for in vain {number} times", number=asked.times)
            yield Found(marked("no topic"), asked.name, url("/topic", name=asked.name), note)


def _in_tables(console: Console, tables: Tables, text: str) -> Iterator[Found]:
    url = console.url
    for cluster in sorted(tables.clusters):
        if text in cluster.lower():
            yield Found(marked("cluster"), cluster, url("/cluster", name=cluster))
    for name, row in sorted(tables.brokers.items()):
        if text in name.lower():
            yield Found(marked("broker name"), name, url("/broker", name=name), row.cluster)
        for addr in row.broker_addrs.values():
            if text in addr.lower():
                yield Found(marked("address"), addr, url("/broker", name=name), name)


async def _users(console: Console, viewer: Viewer, text: str) -> list[Found]:
    """Users; each leads to the page of users, or, for a viewer who may not see it, to the user's changes."""
    if not viewer.may(READ_CONFIG):
        return []
    try:
        policy = await PolicyStore(console.state.store).read()
    except RegistryError:  # Redis is away, or its login may not read users: none is found
        return []
    path, field = ("/users", "filter") if viewer.may(STRICTEST) else ("/changes", "author")
    names = (name for name in sorted(policy.users) if text in name.lower())
    return [Found(marked("user"), name, console.url(path, **{field: name})) for name in names]
