"""Holds what all page handlers of a namespace need, and makes pages from templates."""

from __future__ import annotations

import contextlib
import functools
import re
import secrets
import time
from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from gettext import NullTranslations
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import jinja2
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ..config.settings import Settings
from ..errors import RegistryError, StoreUnavailable
from ..events.changes import Change
from ..names import printable
from ..operators.instants import parse_instant
from ..operators.language import language, say
from ..operators.time_zone import local_datetime, time_zone_name
from ..operators.words import counted, duration, moment, perm, some, what
from .charts import minutes_chart
from .facts import FactReader
from .findings import LEVEL_NAMES, TopicSums, clock, sum_topics
from .links import Named, find_name, names_in
from .locale.chosen import keep_language, of_page, say_html, say_number_html, shown
from .locale.commands import in_namespace
from .login.logins import Logins
from .login.needs import STRICTEST
from .login.viewer import Viewer, viewer_of
from .past import NotKnown, NotYet, Past, Then
from .recent.beats import Beats
from .recent.lanes import Lanes
from .recent.missing import MissingNames
from .report import ReportSource
from .state import State
from .twins import VERSION, Failure, PageHead, failure_twin, page_twin, wants_json
from .undo import can_undo

_PER_PAGE: Final = 100
_WORDS: Final = 1000
_COMMAND: Final = re.compile(r"'(mqregistry [^']+)'")


class BadRequest(RegistryError):
    """The address of the page has a wrong value; the message says what was expected."""


class PageNotAllowed(RegistryError):
    """Nothing may be changed here, or by this request; the message says why."""


class NotThere(RegistryError):
    """The named thing does not exist; the message may name existing ones that have a page."""

    def __init__(self, text: str, names: Iterable[Named] = ()) -> None:
        super().__init__(text)
        self.names = tuple(names)


class PageWriter:
    """Makes HTML of templates, with the addresses of other pages."""

    def __init__(self, root_path: str, home_path: str | None, version: str, namespace: str = "") -> None:
        self.root_path = root_path.rstrip("/")  # the addresses of these pages begin with this path
        # all addresses of this process begin with this path; each of several namespaces has its pages at /ns/NAME below
        self.home_path = self.root_path if home_path is None else home_path.rstrip("/")
        self.version = version
        self.namespace = namespace  # the namespace of these pages; empty: none

    @property
    def is_one_of_several(self) -> bool:
        """Whether the process has pages of other namespaces, too."""
        return self.home_path != self.root_path

    def url(self, path: str, **query: Any) -> str:
        """The address of a page, with the given members of a query."""
        return _address(self.root_path + path, query)

    def home_url(self, path: str, **query: Any) -> str:
        """The address of a page that all namespaces of this process share."""
        return _address(self.home_path + path, query)

    def _static(self, name: str) -> str:
        return self.home_url(f"/static/{name}", v=self.version)

    def fragment(self, template: str, **values: Any) -> str:
        """The HTML that a template makes."""
        ours = {"url": self.url, "home_url": self.home_url, "static": self._static, "linked": self.linked}
        return _environment().get_template(template).render(ours | {"version": self.version} | values)

    def linked(
        self, text: str, names: Iterable[Named], prefix: str, at_ms: int | None = None, *, in_list: bool = False
    ) -> Markup:
        """A sentence in which names lead to their pages.

        Args:
            names: in the order of the text, which may lack some of them. prefix: the ids of the links begin with it; a
                refresh finds the focused link by its id. in_list: the sentence is an item of a list, and each item has
                a link of its own: the Tab key skips the links in the sentence.
        """
        made: list[str] = []
        place, rest = 0, ' tabindex="-1">' if in_list else ">"
        for number, (kind, name) in enumerate(names, 1):
            begin = find_name(text, name, place)
            if begin >= 0:
                href = escape(self.url(f"/{kind}", name=name, at=at_ms))
                link = f'<a id="{prefix}-{number}" href="{href}"{rest}{_plain(name)}</a>'
                made += _plain(text[place:begin]), link
                place = begin + len(name)
        return Markup("".join((*made, _plain(text[place:]))))

    def outside(self, request: Request, template: str, status: int, **values: Any) -> HTMLResponse:
        """A page for somebody who is not logged in: it shows nothing of the tables."""
        page = HTMLResponse(self.fragment(template, namespace=self.namespace, **of_page(request), **values), status)
        keep_language(request, page, self.home_path)
        return page


class Console(PageWriter):
    """One namespace of a console."""

    def __init__(
        self,
        state: State,
        past: Past,
        settings: Settings,
        *,
        actions: bool = False,
        root_path: str = "",
        home_path: str | None = None,
        version: str = "",
        report: ReportSource | None = None,
        logins: Logins | None = None,
    ) -> None:
        super().__init__(root_path, home_path, version, state.store.namespace)
        self.state = state
        self.past = past
        self.settings = settings
        self.actions = actions  # whether pages may change something
        self.facts = FactReader(state)
        self.lanes = Lanes(state, past)
        self.missing = MissingNames(state)
        self.beats = Beats(state)
        self.report = report or ReportSource(None, None)
        # None: there is no login, and the operator is the viewer of each request
        self.logins = logins
        self.operator = Viewer(secrets.token_urlsafe(32))
        self._sums: tuple[int, TopicSums] | None = None
        self._names: tuple[int, list[str]] | None = None
        self._words: dict[tuple[int, int, NullTranslations], Markup] = {}
        state.on_load.append(self._words.clear)

    def in_namespace(self, text: str) -> str:
        """Add the namespace to the commands in a text; the texts of :func:`say` have it already."""
        return in_namespace(text, self.namespace)

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """The tasks that run as long as the console."""
        works = [self.state.follow(), self.past.keep(), self.lanes.keep(), self.missing.keep(), self.beats.keep()]
        return works if self.logins is None else [*works, self.logins.rules.follow()]

    def who(self, request: Request) -> Viewer | None:
        """The viewer who sends a request; None: no session."""
        return self.operator if self.logins is None else self.logins.viewer(request)

    def words(self, change: Change) -> Markup:
        """The text of a change in a list. It is cached: each refresh of a page shows nearly the same changes."""
        # The key has the number of topics, because parts of the newest change may still be missing.
        key = change.seq, len(getattr(change, "topics", ())), language()
        made = self._words.get(key)
        if made is None:
            if len(self._words) >= _WORDS:
                self._words.clear()
            made = self.linked(what(change), names_in(change), f"c{change.seq}n", in_list=True)
            self._words[key] = made
        return made

    def sums(self) -> TopicSums:
        """The numbers over all topics, counted once for each state of the tables."""
        generation = self.state.generation
        if self._sums is None or self._sums[0] != generation:
            self._sums = generation, sum_topics(self.state.tables)
        return self._sums[1]

    def topic_names(self) -> list[str]:
        """The names of all topics now, sorted once for each state of the tables."""
        generation = self.state.generation
        if self._names is None or self._names[0] != generation:
            self._names = generation, sorted(self.state.tables.topics)
        return self._names[1]

    async def page(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        """A whole page, or its twin as JSON."""
        state = self.state
        at_ms = values.get("at_ms")
        if wants_json(request):
            return self._twin(request, status, values)
        query = {key: value for key, value in request.query_params.items() if key not in ("at", "and", "lang")}
        asked = {key: value for key, value in request.query_params.items() if key != "lang"}

        def again(**changed: Any) -> str:
            """The address of the page with some of its query changed; None removes a field."""
            path = request.scope["path"] if request.method == "GET" else "/"  # the answer to a form has no address
            return self.url(path, **(asked | changed))

        text = self.fragment(
            template,
            **{
                "console": self, "viewer": viewer_of(request), "connected": True, "state": state,
                "path": request.scope["path"],
                "query": query, "again": again, "at_ms": None, "live": at_ms is None, "here": str(request.url.query),
                "now_ms": round(time.time() * 1000), "namespace": self.namespace, "zone": _zone(),
                "status": self.status(), "position": state.position,
                "sees_users": viewer_of(request).may(STRICTEST), **of_page(request),
            } | values,
        )  # fmt: skip
        page = HTMLResponse(text, status)
        keep_language(request, page, self.home_path)
        return page

    def _twin(self, request: Request, status: int, values: Mapping[str, Any]) -> Response:
        twin = getattr(request.state, "twin", None)
        if status >= 400 or twin is None:
            title = values.get("title", "Refused")
            return failure_twin(Failure(status, title, values.get("text", ""), values.get("mend", "")))
        head = PageHead(
            version=VERSION, namespace=self.namespace, position=self.state.position, at_ms=values.get("at_ms"),
            stale_since_ms=self.state.stale_since_ms,
        )  # fmt: skip
        return page_twin(head, twin, values)

    def status(self) -> str:
        """The words at the top of each page: up to date, or since when it is stale."""
        return Markup(self.fragment("status.html", state=self.state))

    async def instant(self, request: Request, name: str = "at") -> int | None:
        """The instant that the address asks for; None: now. BadRequest: it is no time."""
        text = request.query_params.get(name, "").strip()
        if text in ("", "now"):
            return None
        if text.isascii() and text.isdigit() and len(text) > 8:
            if len(text) > 14:
                raise BadRequest(say("{text} ms is no time", text=text[:30]))
            return int(text)
        try:
            return parse_instant(text)
        except ValueError as error:
            raise BadRequest(str(error)) from None

    async def then(self, request: Request) -> Then | None:
        """The tables of the instant that the address asks for; None: now. NotKnown: that past is unknown."""
        at_ms = await self.instant(request)
        return None if at_ms is None else await self.past.at(at_ms)

    async def then_if_known(self, request: Request) -> tuple[int | None, Then | None, str]:
        """The instant (None: now), its tables (None: now, or unknown), and why the tables are unknown.

        For pages that show something of an instant even without its tables. NotYet: the instant has not come.
        """
        at_ms = await self.instant(request)
        if at_ms is None:
            return None, None, ""
        try:
            return at_ms, await self.past.at(at_ms), ""
        except NotYet:
            raise
        except NotKnown as error:
            return at_ms, None, self.in_namespace(str(error))

    async def page_of(self, request: Request, template: str, then: Then | None, **values: Any) -> Response:
        """A page of an instant (None: now), with a slider to other instants.

        ``values``: contain ``at_ms`` if the tables of that instant are unknown.
        """
        of = {"then": then, "at_ms": then.at_ms if then is not None else None, "slider": await self._slider()}
        return await self.page(request, template, **(of | values))

    async def _slider(self) -> dict[str, Any]:
        """The first and the last instant of the slider."""
        reach = None
        if self.state.stale_since_ms is None:
            with contextlib.suppress(StoreUnavailable):  # Redis has just gone: the page says so
                reach = await self.past.reach()
        lake_ms = await self.past.lake_since_ms()
        now_ms = round(time.time() * 1000)
        stream_ms = min(reach.since_ms, now_ms) if reach else None
        since_ms = min((ms for ms in (stream_ms, lake_ms) if ms is not None), default=None)
        whole = reach is not None and reach.whole
        return {"since_ms": since_ms, "now_ms": now_ms, "whole": whole, "stream_ms": stream_ms}


@functools.cache
def _environment() -> jinja2.Environment:
    """The templates, compiled once for all namespaces."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        # Rows follow each other without white space ("-%}"), else a refresh moves them and a selection is lost.
        autoescape=True, auto_reload=False, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined, finalize=shown,
    )  # fmt: skip
    # for values that a form sends back: they are escaped for HTML, but not made printable
    templates.filters["raw_text"] = lambda text: Markup(escape(text))
    templates.filters["commands"] = _COMMAND.split
    templates.globals |= {
        "moment": moment, "duration": duration, "perm": perm, "what": what, "some": some, "counted": counted,
        "clock": clock, "time_tag": time_tag, "minutes_chart": minutes_chart, "number": lambda value: f"{value:,}",
        "say": say_html, "say_number": say_number_html, "can_undo": can_undo, "names_in": names_in,
        "level_names": LEVEL_NAMES,
    }  # fmt: skip
    return templates


def _plain(text: str) -> str:
    """A text in the HTML of a page."""
    return str(escape(printable(text)))


def _address(path: str, query: Mapping[str, Any]) -> str:
    given = {key: value for key, value in query.items() if value not in (None, "")}
    mark = "&" if "?" in path else "?"
    return path + (f"{mark}{urlencode(given)}" if given else "")


def change_number(text: str) -> int:
    """The number of a change in an address; BadRequest: the text is no number."""
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise BadRequest(say("{text}: expected the number of a change", text=repr(text[:30])))
    return int(text)


def paged(request: Request, rows: Sequence[Any], name: str = "rows") -> dict[str, Any]:
    """The values of a list for a template: the rows of the requested page, as ``name``, and the number of all rows."""
    pages, text = max(1, -(-len(rows) // _PER_PAGE)), request.query_params.get("page", "1")
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        raise BadRequest(say("page={text}: expected a number from 1 to {pages}", text=text[:30], pages=pages))
    number = min(max(1, int(text)), pages)
    shown = rows[(number - 1) * _PER_PAGE : number * _PER_PAGE]
    return {name: shown, "count": len(rows), "number_": number, "pages": pages}


def order(request: Request, among: Collection[str], default: str) -> str:
    """The sort order in the address; '-' before the name sorts downwards. BadRequest: there is no such order."""
    chosen = request.query_params.get("sort", default)
    if chosen.removeprefix("-") not in among:
        raise BadRequest(say(
            "{given}: expected one of {names}, or one of them after a '-'", given=f"sort={chosen[:30]}",
            names=", ".join(among),
        ))  # fmt: skip
    return chosen


def time_tag(ms: int) -> Markup:
    """The HTML element of a time."""
    iso = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
    day, _, clock_time = moment(ms).partition(" ")
    # no part needs to be escaped, since all come from a number; escaping takes most of the time of Markup.format
    return Markup(
        f'<time datetime="{iso}"><span class="day">{day}</span> {clock_time[:8]}'
        f'<span class="ms">{clock_time[8:]}</span></time>'
    )


def _zone() -> dict[str, Any]:
    """The time zone of a page: its name (empty: this machine's), its words, and its minutes before UTC now."""
    now = local_datetime(time.time() * 1000)
    now = now if now.tzinfo is not None else now.astimezone()
    offset = now.utcoffset()
    minutes = 0 if offset is None else round(offset.total_seconds() / 60)
    return {"name": time_zone_name(), "text": now.strftime("%Z (UTC%z)"), "offset_min": minutes}
