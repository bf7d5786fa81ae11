"""Brokers: each process, how long it has left, and over how many front ends it is connected."""

from __future__ import annotations

from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import HTMLResponse

from ...events.by import By
from ...operators.words import duration
from ...store.operator_reads import BrokerInfo
from ..context import PER_PAGE, Console, page_number
from ..past import Then


class Row(NamedTuple):
    """A broker process as the page shows it. Of the past only the first five are known."""

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
    since_ms: int | None = None
    by: By | None = None


async def brokers(console: Console, request: Request) -> HTMLResponse:
    """The page."""
    text = request.query_params.get("filter", "").strip()
    then = await console.then(request)
    facts: Any = None
    if then is None:
        facts = await console.facts.now()
        topics = console.state.tables.broker_topics
        now_ms = facts.head.now_ms if facts else 0
        rows = [_live(info, len(topics.get(info.broker_name, ())), now_ms) for info in (facts.brokers if facts else ())]
    else:
        rows = _past(then)
    if text:
        wanted = text.lower()
        rows = [row for row in rows if any(wanted in part.lower() for part in (row.cluster, row.broker_name, row.addr))]
    number, pages = page_number(request, len(rows))
    return await console.page(
        request, "brokers.html", rows=rows[(number - 1) * PER_PAGE : number * PER_PAGE], count=len(rows),
        number_=number, pages=pages, filter=text, then=then, at_ms=then.at_ms if then else None,
        redis_ms=facts.head.now_ms if facts else 0, **await console.slider(),
    )  # fmt: skip


def _live(info: BrokerInfo, topics: int, now_ms: int) -> Row:
    left = max(0, info.expires_in_ms)
    return Row(
        info.cluster, info.broker_name, info.broker_id, info.broker_addr, topics,
        f"{info.data_version.counter}", now_ms + info.expires_in_ms, info.heartbeat_timeout_millis, left,
        _left(left), _front_ends(info),
    )  # fmt: skip


def _front_ends(info: BrokerInfo) -> str:
    """The front ends that a broker is connected to, by their names."""
    if isinstance(info.connections, list):
        return ", ".join(sorted({one.front_end for one in info.connections}))
    return str(info.front_ends)


def _left(ms: int) -> str:
    """Whole seconds, as console.js counts them down."""
    return (f"{ms // 1000}s" if ms < 60_000 else duration(ms)) if ms else "overdue"


def _past(then: Then) -> list[Row]:
    nothing: tuple[int | None, By | None] = (None, None)
    return sorted(
        Row(
            row.cluster, name, broker_id, addr, len(then.tables.broker_topics.get(name, ())),
            since_ms=then.since.get(name, nothing)[0], by=then.since.get(name, nothing)[1],
        )
        for name, row in then.tables.brokers.items()
        for broker_id, addr in row.broker_addrs.items()
    )  # fmt: skip
