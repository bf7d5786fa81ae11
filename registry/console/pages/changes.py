"""The page of changes, which is filtered and live, and the page of each change; the events for open pages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ...events.changes import TYPES, Change, KvDeleted, KvPut, TopicDeleted, TopicRegistered
from ...events.journal import CHANGES
from ...operators.export import csv_head, csv_line
from ...operators.history import Wanted, broker_names_of, whole
from ...operators.language import ENGLISH, choose_language, say
from ...operators.words import moment
from ...store.change_reader import find_change, read_back, read_first
from ...store.store import Store
from ...store.streams import last_entry_by
from ..context import BadRequest, Console, NotThere, change_number
from ..login.needs import needs_of_change
from ..login.viewer import Viewer, viewer_of
from ..state import OpenPage
from ..twins import Twin

_PER_PAGE: Final = 100
_SCANNED: Final = 20_000
_TOLD_EVERY_S: Final = 5.0
_CLOCK_MS: Final = 60_000
_LEAST_S: Final = 1.0
_FILTERS: Final = ("kind", "topic", "broker", "author")


class Range(NamedTuple):
    """The changes that an address asks for, by its filters."""

    given: dict[str, str]  # the filters of the address; times are in milliseconds
    since_ms: int
    until_ms: int | None
    wanted: Wanted  # whether a change fits the filters, and the viewer may see it


async def range_of(console: Console, request: Request) -> Range:
    """Read the filters of an address."""
    given = {name: request.query_params.get(name, "").strip() for name in _FILTERS}
    kind, topic, broker, author = given.values()
    viewer = viewer_of(request)
    since_ms, until_ms = await console.instant(request, "since") or 0, await console.instant(request, "until")
    if until_ms is not None and until_ms < since_ms:
        raise BadRequest(say("until {until} is before since {since}", until=moment(until_ms), since=moment(since_ms)))
    if kind and kind not in TYPES:
        raise BadRequest(
            say("{given}: expected one of {names}", given=f"kind={kind[:40]}", names=", ".join(sorted(TYPES)))
        )

    def wanted(change: Change) -> bool:
        return (
            change.ms >= since_ms
            and (until_ms is None or change.ms <= until_ms)
            and (not kind or change.type == kind)
            and (not topic or _is_of_topic(change, topic))
            and (not broker or any(broker in name for name in broker_names_of(change)))
            and (not author or (change.by is not None and author.lower() in str(change.by).lower()))
            and viewer.may_see(change)
        )

    given |= {"since": str(since_ms or ""), "until": str(until_ms or "")}
    return Range(given, since_ms, until_ms, wanted)


def _is_of_topic(change: Change, topic: str) -> bool:
    if isinstance(change, (TopicDeleted, TopicRegistered)):
        return change.topic == topic
    if isinstance(change, (KvPut, KvDeleted)):
        return change.key == topic
    return topic in getattr(change, "topics", ()) or topic in getattr(change, "dropped", ())


CHANGES_TWIN: Final = Twin(
    "The newest changes first; before: go on before that number.",
    {"changes": list[Change], "next_before": int | None}, (*_FILTERS, "since", "until", "before", "at"),
)  # fmt: skip
CHANGE_TWIN: Final = Twin("One change, whole.", {"change": Change, "parts": int, "entry_id": str}, ())


async def changes(console: Console, request: Request) -> Response:
    """The page of the newest changes, or of the changes before a given one."""
    given, since_ms, until_ms, wanted = await range_of(console, request)
    store = console.state.store
    before = request.query_params.get("before", "")
    at_ms, then, unknown = await console.then_if_known(request)
    start, found, more, scanned = "", list[Change](), False, 0
    end_ms = min((ms for ms in (at_ms, until_ms) if ms is not None), default=None)
    if end_ms is not None and not before:
        start = await _behind(store, end_ms)
    if before:
        located = await find_change(store, change_number(before))
        if located is None:
            raise NotThere(say("Change {number} is not in the stream any more.", number=before[:20]))
        start = located[0]
    oldest: Change | None = None
    if console.state.stale_since_ms is None:
        async for parts in _read_range(store, since_ms, start):
            scanned += len(parts)
            oldest = parts[0]
            if wanted(one := whole(parts)):
                found.append(one)
            if len(found) >= _PER_PAGE or scanned >= _SCANNED:
                more = True
                break
        first = await read_first(store)
    else:
        found, first = [one for one in reversed(console.state.recent) if wanted(one)][:_PER_PAGE], None
    return await console.page_of(
        request, "changes.html", then, changes=found, given=given, kinds=sorted(TYPES), before=before, first=first,
        next_before=oldest.seq if more and oldest else None, scanned=scanned,
        live=not before and end_ms is None, since_ms=since_ms or None, until_ms=until_ms,
        at_ms=at_ms, unknown=unknown,
    )  # fmt: skip


async def _behind(store: Store, at_ms: int) -> str:
    """The lowest stream id that is above those of all changes up to an instant."""
    newest = await last_entry_by(store, CHANGES, at_ms)
    return newest.behind if newest is not None else "0-1"  # before everything


async def _read_range(store: Store, since_ms: int, before: str) -> AsyncIterator[list[Change]]:
    """The changes since an instant and of the minute before, as the clock may have gone back; the newest first."""
    async for parts in read_back(store, before=before):
        if parts[0].ms < since_ms - _CLOCK_MS:
            return
        yield parts


async def export(console: Console, request: Request) -> StreamingResponse:
    """All changes of a range as a file, the newest first: ``as=csv``, else JSON, one on each line."""
    asked = await range_of(console, request)
    choose_language(ENGLISH)  # for programs
    is_csv = request.query_params.get("as") == "csv"
    name = "changes.csv" if is_csv else "changes.jsonl"
    media = "text/csv; charset=utf-8" if is_csv else "application/x-ndjson"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(_exported(console.state.store, asked, is_csv), media_type=media, headers=headers)


async def _exported(store: Store, asked: Range, is_csv: bool) -> AsyncIterator[bytes]:
    before = "" if asked.until_ms is None else await _behind(store, asked.until_ms)
    if is_csv:
        yield csv_head().encode()
    async for parts in _read_range(store, asked.since_ms, before):
        if asked.wanted(one := whole(parts)):
            yield csv_line(one).encode() if is_csv else msgspec.json.encode(one) + b"\n"


async def change(console: Console, request: Request) -> Response:
    """The page of one change with all its members."""
    seq = change_number(request.path_params["seq"])
    located = await find_change(console.state.store, seq)
    if located is None:
        first = await read_first(console.state.store)
        text = say("Change {number} is not in the stream.", number=seq)
        if first:
            text += say(" It begins with change {number}; the lake may have earlier ones.", number=first.seq)
        raise NotThere(text)
    entry_id, parts = located
    one = whole(parts)
    for needs in needs_of_change(one):
        viewer_of(request).check(needs)
    text = msgspec.json.format(msgspec.json.encode(one), indent=2).decode()
    most = 20_000
    return await console.page(
        request, "change.html", change=one, parts=len(parts), entry_id=entry_id, text=text[:most],
        cut=max(0, len(text) - most), names=broker_names_of(one), topic=getattr(one, "topic", ""),
        cluster=getattr(one, "cluster", None),
    )  # fmt: skip


async def events(console: Console, request: Request) -> StreamingResponse:
    """The stream of a browser, which its open pages share (static/stream.js)."""
    return stream([(console, viewer_of(request))])


def stream(watched: Sequence[tuple[Console, Viewer]]) -> StreamingResponse:
    """The stream of a browser, for the namespaces that its viewer may see.

    A ``state`` event has the last change of the tables, the revision of the rules and the text of the status, and with
    several namespaces the namespace. It is sent when one of these has changed, at most once a second, and else every
    few seconds. ``ended``: the session is over.
    """
    return StreamingResponse(_events(dict(watched)), media_type="text/event-stream")


async def _events(watched: dict[Console, Viewer]) -> AsyncIterator[bytes]:
    sent: dict[Console, dict[str, str]] = {}
    sent_all_at = -_TOLD_EVERY_S
    with OpenPage(*(console.state for console in watched)) as listener:
        yield b"retry: 1000\n\n"
        while not any(console.state.stopping for console in watched):
            told_at = time.monotonic()
            if told_at - sent_all_at >= _TOLD_EVERY_S:
                sent, sent_all_at = {}, told_at
            for console, viewer in list(watched.items()):
                of = {"namespace": console.namespace} if console.is_one_of_several else {}
                if not viewer.is_on():
                    yield f"event: ended\ndata:{of.get('namespace', '')}\n\n".encode()
                    del watched[console]
                    continue
                told = {
                    "position": console.state.position, "rules": viewer.rules, "status": str(console.status()), **of,
                }  # fmt: skip
                if told != sent.get(console):
                    sent[console] = told
                    yield b"event: state\ndata: " + msgspec.json.encode(told) + b"\n\n"
            if not watched:
                return
            await listener.wait(_TOLD_EVERY_S)
            await asyncio.sleep(max(0.0, told_at + _LEAST_S - time.monotonic()))
