"""The page of all brokers: each process, the time until it expires, its front ends; the page of one broker name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from ...events.by import By
from ...events.changes import Change
from ...model import MASTER_ID, BrokerRow
from ...operators.drained import DrainNow, drain_of
from ...operators.history import Wanted, broker_names_of, whole
from ...operators.language import marked, say
from ...operators.maintenance import Maintenance, maintained
from ...operators.words import duration
from ...store.change_reader import read_back
from ...store.operator_reads import BrokerInfo
from ...tables.tables import Tables
from ...tables.writable import is_read_only
from ..context import BadRequest, Console, NotThere, order, paged
from ..facts import Facts
from ..login.viewer import viewer_of
from ..past import Then
from ..recent.lanes import DAY_MS, SPANS, Gone
from ..twins import Twin

_NO_LANE: Final = Markup("")
_GONE: Final = 50
_CHANGES: Final = 20
_SCANNED: Final = 5_000


class ProcessLine(NamedTuple):
    """A broker process as the page shows it. Of the past only the first five and the last two members are known."""

    cluster: str
    broker_name: str
    broker_id: int
    addr: str
    topics: int
    data_version: str = ""
    deadline_ms: int = 0
    timeout_ms: int = 0
    left_ms: int = 0
    left: str = ""
    front_ends: str = ""
    lane: Markup = _NO_LANE
    since_ms: int | None = None  # since_ms, by: the last change of its broker name
    by: By | None = None


_SORTS: Final[dict[str, Callable[[ProcessLine], Any]]] = {
    "cluster": lambda row: (row.cluster, row.broker_name, row.broker_id),
    "name": lambda row: (row.broker_name, row.broker_id),
    "address": lambda row: (row.addr.rpartition(":")[0], row.addr),
    "topics": lambda row: row.topics,
    "left": lambda row: row.deadline_ms,
}
_STATES: Final = {
    "overdue": marked("overdue"),
    "read-only": marked("no topic can be written to"),
    "no-master": marked("broker name without a master"),
}


def _fits(tables: Tables, state: str, row: ProcessLine) -> bool:
    """Whether a broker is in this state, a filter of the page."""
    if state == "overdue":
        return row.left_ms == 0
    if state == "no-master":
        return MASTER_ID not in tables.brokers[row.broker_name].broker_addrs
    return is_read_only(tables, row.broker_name)


_LISTED: Final = {"rows": list[ProcessLine], "count": int, "number": int, "pages": int, "gone": list[Gone]}
BROKERS_TWIN: Final = Twin(
    "Each broker process; gone: those that left.", _LISTED,
    ("at", "filter", "cluster", "state", "sort", "lane", "page"),
)  # fmt: skip
BROKER_TWIN: Final = Twin(
    "One broker name.",
    {"name": str, "rows": list[ProcessLine], "row": BrokerRow | None, "topics": int, "gone": list[Gone],
     "changes": list[Change], "maintenance": Maintenance | None, "drain": DrainNow | None},
    ("name", "at"),
)  # fmt: skip


async def brokers(console: Console, request: Request) -> Response:
    """The page of all broker processes."""
    text = request.query_params.get("filter", "").strip()
    cluster = request.query_params.get("cluster", "")
    state, span = request.query_params.get("state", ""), request.query_params.get("lane", "hour")
    for given, chosen, among in (("state", state, ("", *_STATES)), ("lane", span, SPANS)):
        if chosen not in among:
            names = ", ".join(filter(None, among))
            raise BadRequest(say("{given}: expected one of {names}", given=f"{given}={chosen[:30]}", names=names))
    then = await console.then(request)
    facts = await console.facts.now() if then is None else None
    rows = past_rows(then) if then else live_rows(console, facts)
    if text:
        wanted = text.lower()
        rows = [row for row in rows if any(wanted in part.lower() for part in (row.cluster, row.broker_name, row.addr))]
    tables = console.state.tables if then is None else then.tables
    if cluster:
        rows = [row for row in rows if row.cluster == cluster]
    if state:
        rows = [row for row in rows if row.broker_name in tables.brokers and _fits(tables, state, row)]
    gone: list[Gone] = []
    redis_ms, span_ms = facts.head.now_ms if facts else 0, SPANS[span]
    if then is None:
        lost = console.lanes.gone(redis_ms, span_ms)
        fits = [one for one in lost if text.lower() in f"{one.broker_name} {one.addr}".lower()]
        gone = sorted(fits, key=lambda one: -one.moment.ms)[:_GONE]
    return await console.page_of(
        request, "brokers.html", then, filter=text, cluster=cluster, clusters=sorted(tables.clusters), state_=state,
        states=_STATES, span=span, lanes=console.lanes, gone=gone, span_ms=span_ms,
        **listed(console, request, rows, redis_ms, span_ms),
    )  # fmt: skip


def listed(console: Console, request: Request, rows: list[ProcessLine], redis_ms: int, span_ms: int) -> dict[str, Any]:
    """The processes of one page, sorted as its address says, each with its lane."""
    sort = order(request, _SORTS, "cluster")
    rows = sorted(rows, key=_SORTS[sort.removeprefix("-")], reverse=sort.startswith("-"))
    shown = paged(request, rows)
    here = [_drawn(console, row, redis_ms, span_ms) for row in shown["rows"]]
    return {**shown, "rows": here, "sort": sort, "redis_ms": redis_ms}


def _drawn(console: Console, row: ProcessLine, redis_ms: int, span_ms: int) -> ProcessLine:
    """The row with its lane; a past row has no lane."""
    if not row.timeout_ms:
        return row
    return row._replace(lane=console.lanes.draw(row.broker_name, row.addr, redis_ms, span_ms))


def live_rows(console: Console, facts: Facts | None) -> list[ProcessLine]:
    """Each broker process now; none if Redis never answered."""
    if facts is None:
        return []
    topics, now_ms = console.state.tables.broker_topics, facts.head.now_ms
    return [_live(info, len(topics.get(info.broker_name, ())), now_ms) for info in facts.brokers]


def _live(info: BrokerInfo, topics: int, now_ms: int) -> ProcessLine:
    left = max(0, info.expires_in_ms)
    return ProcessLine(
        info.cluster, info.broker_name, info.broker_id, info.broker_addr, topics,
        f"{info.data_version.counter}", now_ms + info.expires_in_ms, info.heartbeat_timeout_millis, left,
        _left(left), _front_ends(info),
    )  # fmt: skip


def _front_ends(info: BrokerInfo) -> str:
    """The names of the front ends that a broker is connected to; if they are unknown, how many there are."""
    if isinstance(info.connections, list):
        return ", ".join(sorted({one.front_end for one in info.connections}))
    return str(info.front_ends)


def _left(ms: int) -> str:
    """The time left, in whole seconds below a minute: console.js counts it down."""
    return (f"{ms // 1000}s" if ms < 60_000 else duration(ms)) if ms else say("overdue")


def past_rows(then: Then) -> list[ProcessLine]:
    """Each broker process as it was at an instant."""
    nothing: tuple[int | None, By | None] = (None, None)
    return [
        ProcessLine(
            row.cluster, name, broker_id, addr, len(then.tables.broker_topics.get(name, ())),
            since_ms=then.since.get(name, nothing)[0], by=then.since.get(name, nothing)[1],
        )
        for name, row in then.tables.brokers.items()
        for broker_id, addr in row.broker_addrs.items()
    ]  # fmt: skip


async def broker(console: Console, request: Request) -> Response:
    """The page of a broker name, also of one that left within the last day."""
    name = request.query_params.get("name", "")
    then = await console.then(request)
    facts = await console.facts.now()
    tables = console.state.tables if then is None else then.tables
    rows = past_rows(then) if then else live_rows(console, facts)
    rows = [row for row in rows if row.broker_name == name]
    redis_ms = facts.head.now_ms if facts else 0
    gone = [] if then else [one for one in console.lanes.gone(redis_ms, DAY_MS) if one.broker_name == name]
    if not rows and not gone and name not in tables.broker_topics:
        raise NotThere(say(
            "No broker name {name} is registered, and none of this name left within the last day.", name=repr(name)
        ))  # fmt: skip
    changes = await changes_of(console, request, lambda one: name in broker_names_of(one)) if then is None else []
    rows = [_drawn(console, one, redis_ms, DAY_MS) for one in rows]
    maintenance = maintained(tables.kv).get(name)
    drain = None
    if facts is not None and then is None and (maintenance is not None or is_read_only(tables, name)):
        drain = drain_of(name, facts.fleet.front_ends, maintenance, redis_ms)
    return await console.page_of(
        request, "broker.html", then, name=name, rows=rows, row=tables.brokers.get(name), gone=gone, changes=changes,
        topics=len(tables.broker_topics.get(name, ())), redis_ms=redis_ms, maintenance=maintenance, drain=drain,
    )  # fmt: skip


async def changes_of(console: Console, request: Request, wanted: Wanted) -> list[Change]:
    """The last changes that match and that this viewer may see, the newest first."""
    viewer, found, scanned = viewer_of(request), list[Change](), 0
    if console.state.stale_since_ms is not None:
        known = [one for one in reversed(console.state.recent) if wanted(one) and viewer.may_see(one)]
        return known[:_CHANGES]
    async for parts in read_back(console.state.store):
        one = whole(parts)
        if wanted(one) and viewer.may_see(one):
            found.append(one)
        scanned += len(parts)
        if len(found) >= _CHANGES or scanned >= _SCANNED:
            break
    return found
