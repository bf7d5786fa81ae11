"""Changes: live, filtered, back to where the stream begins, and each under an address of its own."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, StreamingResponse

from ...events.changes import TYPES, Change, KvDeleted, KvPut, TopicDeleted, TopicRegistered
from ...events.journal import CHANGES
from ...operators.history import broker_names_of, whole
from ...store.change_reader import find_change, read_back, read_first
from ...store.streams import last_entry_by
from ..context import BadRequest, Console, NotThere
from ..login.needs import needs_of_change
from ..login.viewer import Viewer, viewer_of
from ..state import MOMENT_S, Listener

_PER_PAGE: Final = 100
_SCANNED: Final = 20_000
_PING_S: Final = 10.0
_TABLES_EVERY_S: Final = 1.0
_ROWS: Final = 1000
_FILTERS: Final = ("kind", "topic", "broker", "author")

Wanted = Callable[[Change], bool]


def wanted_of(request: Request) -> tuple[dict[str, str], Wanted]:
    """The filters of an address, and whether a change passes all of them, and may be shown.

    Raises:
        BadRequest: there is no such kind of change.
    """
    given = {name: request.query_params.get(name, "").strip() for name in _FILTERS}
    kind, topic, broker, author = given.values()
    viewer = viewer_of(request)
    if kind and kind not in TYPES:
        raise BadRequest(f"kind={kind[:40]}: expected one of {', '.join(sorted(TYPES))}")

    def wanted(change: Change) -> bool:
        return (
            (not kind or change.type == kind)
            and (not topic or _is_of_topic(change, topic))
            and (not broker or any(broker in name for name in broker_names_of(change)))
            and (not author or (change.by is not None and author.lower() in str(change.by).lower()))
            and viewer.may_see(change)
        )

    return given, wanted


def _is_of_topic(change: Change, topic: str) -> bool:
    if isinstance(change, (TopicDeleted, TopicRegistered)):
        return change.topic == topic
    if isinstance(change, (KvPut, KvDeleted)):
        return change.key == topic
    return topic in getattr(change, "topics", ()) or topic in getattr(change, "dropped", ())


async def changes(console: Console, request: Request) -> HTMLResponse:
    """The page: the newest ones, or those before one of them."""
    given, wanted = wanted_of(request)
    store, since = console.state.store, console.state.position
    before = request.query_params.get("before", "")
    at_ms, then, unknown = await console.then_if_known(request)
    start, found, more, scanned = "", list[Change](), False, 0
    if at_ms is not None and not before:
        newest = await last_entry_by(store, CHANGES, at_ms)
        start = newest.behind if newest is not None else "0-1"  # before everything
    if before:
        located = await find_change(store, _number(before))
        if located is None:
            raise NotThere(f"Change {before[:20]} is not in the stream any more.")
        start = located[0]
    oldest: Change | None = None
    if console.state.stale_since_ms is None:
        async for parts in read_back(store, before=start):
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
    return await console.page(
        request, "changes.html", changes=found, given=given, kinds=sorted(TYPES), before=before, first=first,
        next_before=oldest.seq if more and oldest else None, scanned=scanned, since=since,
        live=not before and at_ms is None, at_ms=at_ms, then=then, unknown=unknown, **await console.slider(),
    )  # fmt: skip


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise BadRequest(f"{text[:30]!r}: expected the number of a change")
    return int(text)


async def change(console: Console, request: Request) -> HTMLResponse:
    """One change, whole."""
    seq = _number(request.path_params["seq"])
    located = await find_change(console.state.store, seq)
    if located is None:
        first = await read_first(console.state.store)
        raise NotThere(
            f"Change {seq} is not in the stream."
            + (f" It begins with change {first.seq}, of what was before the lake may know." if first else "")
        )
    entry_id, parts = located
    one = whole(parts)
    for needs in needs_of_change(one):
        viewer_of(request).check(needs)
    text = msgspec.json.format(msgspec.json.encode(one), indent=2).decode()
    most = 20_000
    return await console.page(
        request, "change.html", change=one, parts=len(parts), entry_id=entry_id, text=text[:most],
        cut=max(0, len(text) - most),
    )  # fmt: skip


# live


def _event(name: str, data: str, event_id: str = "") -> bytes:
    """One event as text/event-stream has it; no line end of the data ends it."""
    lines = "".join(f"data: {line}\n" for line in data.splitlines()) or "data: \n"
    return (f"event: {name}\n" + (f"id: {event_id}\n" if event_id else "") + lines + "\n").encode()


async def events(console: Console, request: Request) -> StreamingResponse:
    """The stream of an open page: whether it is stale, that tables changed, and with ``changes=1`` the changes."""
    _, wanted = wanted_of(request)
    with_changes = request.query_params.get("changes") == "1"
    seen = request.headers.get("last-event-id") or request.query_params.get("since", "")
    rules = request.query_params.get("rules", "")
    return StreamingResponse(
        _events(console, viewer_of(request), wanted, with_changes, seen, rules), media_type="text/event-stream"
    )


async def _events(
    console: Console, viewer: Viewer, wanted: Wanted, with_changes: bool, seen: str, rules: str
) -> AsyncIterator[bytes]:
    state = console.state
    with Listener(state) as listener:
        yield b"retry: 1000\n\n" + _event("status", console.status())
        if rules and rules != viewer.rules:  # they changed after the page was made, and before this stream began
            yield _event("rules", "") + _event("again", "")
        if seen:
            missed = _missed(console, seen)
            if missed is None:
                yield _event("again", "")
            elif with_changes:
                for group in missed:
                    if wanted(whole(group)):
                        yield await _row(console, group)
        clock = asyncio.get_running_loop().time
        told_at, due = 0.0, bool(seen) and seen != state.position
        while not state.stopping:
            found = await listener.take(0.1 if due and not told_at else _TABLES_EVERY_S if due else _PING_S)
            if not viewer.is_on():
                yield _event("ended", "")
                return
            if listener.rules:
                listener.rules = False
                yield _event("rules", "")
            if listener.lost:
                listener.lost = False
                yield _event("again", "") + _event("status", console.status())
                continue
            out = [_event("status", console.status())] if not all(found) else []
            due = due or bool(out)  # what else a page says of Redis that is away, or is back
            for group in _groups(found):
                due = True
                if with_changes and wanted(whole(group)):
                    out.append(await _row(console, group))
            if due and clock() - told_at >= _TABLES_EVERY_S:
                out.append(_event("tables", str(state.seq)))
                told_at, due = clock(), False
            yield b"".join(out) or b": still here\n\n"


def _groups(found: list[Change | None]) -> Iterator[list[Change]]:
    """The changes of a list, each with all its parts."""
    there = (change for change in found if change is not None)
    for _, group in itertools.groupby(there, key=lambda one: one.seq - one.part):
        yield list(group)


def _missed(console: Console, seen: str) -> list[list[Change]] | None:
    """What was changed since a page saw this; None: more than is kept, or in another epoch."""
    epoch, _, seq = seen.partition(":")
    recent = console.state.recent
    if epoch != console.state.epoch or not (seq.isascii() and seq.isdigit()):
        return None
    if int(seq) >= console.state.seq:
        return []
    if not recent or recent[0].seq > int(seq) + 1:
        return None
    return list(_groups([one for one in recent if one.seq > int(seq)]))


async def _row(console: Console, group: list[Change]) -> bytes:
    """A change as a line of the page, rendered once for all pages that are open; then others have the processor."""
    key, rows = (console.state.epoch, group[-1].seq), console.rows
    row = rows.get(key)
    if row is None:
        html = console.fragment("change_row.html", change=whole(group), new=True, console=console)
        row = rows[key] = _event("change", html, f"{key[0]}:{key[1]}")
        while len(rows) > _ROWS:
            del rows[next(iter(rows))]
        await asyncio.sleep(MOMENT_S)
    return row
