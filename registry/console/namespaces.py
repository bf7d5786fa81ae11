"""Serves several namespaces of one Redis: a first page lists them, and one search looks through all of them.

Each namespace has its pages below ``/ns/NAME``, and its own users and rules. Without a login to a namespace a viewer
does not see whether it exists: its addresses answer like those of a namespace that does not exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ..operators.language import say
from .context import Console, PageWriter
from .findings import ConsoleFinding
from .locale.chosen import keep_language, of_page, speak
from .login.needs import LIST
from .login.viewer import Viewer
from .pages import changes, login, search
from .pages.now import wrong_now
from .twins import VERSION, PageHead, Twin, openapi, page_twin, twin_path, wants_json

_FIRST_TWIN: Final = "/namespaces.json"
_SEARCH: Final = "/search"
_ORDER: Final = ("bad", "warn", "note", "")
_HEAD: Final = PageHead(version=VERSION, namespace="", position="")


class NamespaceLine(NamedTuple):
    """A namespace on the first page."""

    name: str
    level: str  # level and text of the worst finding; empty: nothing is wrong
    text: str
    wrong: int  # the number of findings without notes
    user: str  # the user who is logged in to it
    page: str
    show: str = ""  # the page that shows more about the worst finding
    # the sizes; None: the viewer has no right to list the tables
    brokers: int | None = None
    broker_names: int | None = None
    clusters: int | None = None
    topics: int | None = None
    front_ends: int | None = None


TWIN: Final = Twin(
    "The namespaces of this console, and what is wrong in each, the worst first.",
    {"namespaces": list[NamespaceLine]}, (),
)  # fmt: skip
SEARCH_TWIN: Final = Twin(
    "What has a text in its name, in all namespaces.",
    {"text": str, "found": list[search.FoundIn], "more": int}, ("q",),
)  # fmt: skip


class Namespaces(PageWriter):
    """The first page of a console with several namespaces, and the routes to the pages of each.

    ``apps``: the pages of each namespace; an address without a namespace leads to the first of them.
    """

    def __init__(self, apps: Mapping[Console, ASGIApp], version: str) -> None:
        first = next(iter(apps))
        super().__init__(first.home_path, None, version)
        self._first = first
        self._apps = {console.namespace: (console, app) for console, app in apps.items()}

    def _seen(self, request: Request) -> list[tuple[Console, Viewer]]:
        """The namespaces that a viewer may know of."""
        viewers = ((console, console.who(request)) for console, _ in self._apps.values())
        return [(console, viewer) for console, viewer in viewers if viewer is not None]

    def routes(self) -> list[BaseRoute]:
        """The addresses of this page, and those of all namespaces."""
        return [
            Route("/", self.first_page, methods=["GET"]),
            Route(_FIRST_TWIN, _twin_of(self.first_page), methods=["GET"]),
            Route(_SEARCH, self.search, methods=["GET"]),
            Route(twin_path(_SEARCH), _twin_of(self.search), methods=["GET"]),
            Route("/openapi.json", self.describe, methods=["GET"]),
            Route("/events", self.events, methods=["GET"]),
            Mount("/ns", self),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request below ``/ns``."""
        request = Request(scope, receive)
        speak(request, self.namespace)
        name, slash, rest = scope["path"].removeprefix("/ns/").partition("/")
        console, app = self._apps.get(name, (None, None))
        answer: ASGIApp
        if console is None or app is None or console.who(request) is None:
            request.state.is_twin = rest.endswith(".json")
            answer = self._no_namespace(request)
        elif not slash:
            answer = RedirectResponse(self.url(f"/ns/{name}/"))
        else:
            answer, path = app, f"/{rest}"
            scope = {**scope, "path": path, "raw_path": path.encode(), "root_path": ""}
        await answer(scope, receive, send)

    def _no_namespace(self, request: Request) -> Response:
        if self._first.logins is not None:
            return login.ask(self, request)
        return PlainTextResponse(
            say("this console has no such namespace; its first page lists those that it has") + "\n", 404
        )

    async def first_page(self, request: Request) -> Response:
        """The namespaces, and what is wrong in each."""
        speak(request, self.namespace, english=wants_json(request))
        seen = self._seen(request)
        if not seen:
            return login.ask(self, request)
        lines = sorted(
            await asyncio.gather(*(self._line(request, console, viewer) for console, viewer in seen)),
            key=lambda line: (_ORDER.index(line.level), -line.wrong, line.name),
        )
        if wants_json(request):
            return page_twin(_HEAD, TWIN, {"namespaces": lines})
        return self._page(request, "namespaces.html", seen[0][1], lines=lines)

    async def search(self, request: Request) -> Response:
        """The search in all namespaces that this viewer may list."""
        speak(request, self.namespace, english=wants_json(request))
        seen = self._seen(request)
        if not seen:
            return login.ask(self, request)
        text = request.query_params.get("q", "").strip()
        found = [
            search.FoundIn(console.namespace, *one)
            for console, viewer in _listed(seen) for one in await search.find(console, viewer, text)
        ]  # fmt: skip
        exact = search.exactly(text, found)
        if exact and not wants_json(request):
            return RedirectResponse(exact, 303)
        found.sort(key=lambda one: (*search.nearness(text, one.name), one.namespace))
        values = {"text": text, "found": found[: search.MOST], "more": max(0, len(found) - search.MOST)}
        if wants_json(request):
            return page_twin(_HEAD, SEARCH_TWIN, values)
        return self._page(request, "search.html", seen[0][1], several=True, **values)

    def _page(self, request: Request, template: str, viewer: Viewer, **values: Any) -> Response:
        of = {"viewer": viewer, "path": request.scope["path"], "text": "", **of_page(request)}
        page = HTMLResponse(self.fragment(template, **(of | values)))
        keep_language(request, page, self.home_path)
        return page

    async def describe(self, _: Request) -> Response:
        """OpenAPI's description of the first page and the search; each namespace describes its own pages."""
        twins = {_FIRST_TWIN: TWIN, twin_path(_SEARCH): SEARCH_TWIN}
        return JSONResponse(openapi(twins, self.version, self.root_path))

    async def _line(self, request: Request, console: Console, viewer: Viewer) -> NamespaceLine:
        speak(request, console.namespace, english=wants_json(request))  # sets the language of this task alone
        page = console.url("/")
        if not viewer.may(LIST):
            return NamespaceLine(
                console.namespace, "note", say("Your rights do not show its lists."), 0, viewer.name, page
            )
        facts = await console.facts.now()
        findings, _ = await wrong_now(console, facts)
        tables = console.state.tables
        worst = findings[0] if findings else ConsoleFinding("note", "")
        return NamespaceLine(
            console.namespace, worst.level if findings else "", worst.text,
            sum(finding.level != "note" for finding in findings), viewer.name, page,
            show=console.url(worst.page) if worst.page else "", brokers=len(facts.brokers) if facts else 0,
            broker_names=len(tables.brokers), clusters=len(tables.clusters), topics=len(tables.topics),
            front_ends=sum(one.state != "gone" for one in facts.fleet.front_ends) if facts else 0,
        )  # fmt: skip

    async def events(self, request: Request) -> Response:
        """One stream for all namespaces that a viewer may see: browsers open at most six connections to a host."""
        speak(request, self.namespace)
        seen = self._seen(request)
        if not seen:
            return login.ask(self, request)
        listed = _listed(seen)
        return (
            changes.stream(listed) if listed else PlainTextResponse(say("no right to list anything here") + "\n", 403)
        )

    async def elsewhere(self, request: Request, _: Exception) -> Response:
        """Redirect an address without a namespace to the first one: it is older than the other namespaces."""
        speak(request, self.namespace)
        if self._first.who(request) is None:
            return login.ask(self, request)
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(self._first.url(request.scope["path"]) + query, 307)


def _twin_of(page: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """The handler that answers with a page as JSON, for programs."""

    async def answer(request: Request) -> Response:
        request.state.is_twin = True
        return await page(request)

    return answer


def _listed(seen: Sequence[tuple[Console, Viewer]]) -> list[tuple[Console, Viewer]]:
    """The namespaces whose tables the viewer may list; the search and the stream of one namespace need this, too."""
    return [(console, viewer) for console, viewer in seen if viewer.may(LIST)]
