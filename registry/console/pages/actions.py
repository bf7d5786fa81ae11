"""Actions: what an operator may change, each with a preview first. Only with ``console --actions``."""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ...events.changes import TopicDeleted, WritePermSet
from ...model import BrokerRow, QueueData
from ...names import printable
from ...operators import previews
from ...operators.history import whole
from ...operators.instants import parse_length_ms
from ...operators.language import in_english, marked, say
from ...operators.previews import Mistaken, Preview, heard_text
from ...operators.words import queues_text
from ...store.change_reader import find_change
from ...store.store import Store
from ...tables.tables import Tables
from ..context import BadRequest, Console, NotThere, PageNotAllowed, change_number
from ..forms import read_checked_form
from ..login.needs import needs_of_action, needs_of_change, needs_of_preview
from ..login.viewer import viewer_of
from ..twins import Twin, twin_path, wants_json
from ..undo import can_undo, undo_of
from .users import allow

logger = logging.getLogger(__name__)

_FIELDS: Final = (
    "do", "name", "reason", "for", "topic", "cluster", "queues", "kv_namespace", "key", "value", "refused",
)  # fmt: skip
_QUEUES: Final = re.compile(r"(\S+)=(\d{1,5}):(\d{1,5})(?::([0-7]))?")
_TITLES: Final = {
    "wipe": marked("Take the write permission from a broker name"),
    "drain": marked("Put a broker name into maintenance"),
    "restore": marked("Put back what a wipe took"),
    "restore-all": marked("Give every topic of a broker name permission 6"),
    "forget": marked("Forget a broker name"),
    "delete-topic": marked("Delete a topic"),
    "set-topic": marked("Give a topic queues"),
    "put-kv": marked("Set a key"),
    "delete-kv": marked("Delete a key"),
    "allow": marked("Allow what was refused"),
}

ACTIONS_TWIN: Final = Twin("What can be done here: the broker names that actions know.", {"names": list[str]}, ())
ACTION_TWIN: Final = Twin(
    "What an action would do; to do it, a person confirms it.", {"title": str, "preview": Preview}, _FIELDS
)


def _check_allowed(console: Console) -> None:
    if not console.actions:
        raise PageNotAllowed(say(
            "this console only reads: 'mqregistry console --actions' starts one that may change something"
        ))  # fmt: skip
    if console.state.stale_since_ms is not None:
        raise PageNotAllowed(say(
            "what is shown is out of date, so nothing is changed: {reason}", reason=console.state.reason
        ))  # fmt: skip


async def actions(console: Console, request: Request) -> Response:
    """The page with the forms of all actions."""
    _check_allowed(console)
    return await console.page(request, "actions.html", names=sorted(console.state.tables.brokers))


async def undo(console: Console, request: Request) -> Response:
    """Redirect to the preview of the action that reverses a change."""
    _check_allowed(console)
    found = await find_change(console.state.store, change_number(request.path_params["seq"]))
    if found is None:
        raise NotThere(say("This change is not in the stream any more."))
    change = whole(found[1])
    for needs in needs_of_change(change):
        viewer_of(request).check(needs)
    is_past_needed = can_undo(change) and not isinstance(change, (TopicDeleted, WritePermSet))
    before = (await console.past.at(change.ms - 1)).tables if is_past_needed else Tables()
    asked = undo_of(change, before, console.state.tables)
    return RedirectResponse(console.url(twin_path("/action") if wants_json(request) else "/action", **asked), 303)


async def action(console: Console, request: Request) -> Response:
    """The preview of one action."""
    _check_allowed(console)
    asked = {name: request.query_params.get(name, "") for name in _FIELDS}
    return await _ask(console, request, asked, await _preview(console, request, asked))


async def do(console: Console, request: Request) -> Response:
    """Execute a confirmed action if its preview is still the same."""
    _check_allowed(console)
    form = await read_checked_form(request)
    asked = {name: form.get(name, "") for name in _FIELDS}
    preview = await _preview(console, request, asked)
    if form.get("seen") != _digest(preview):
        return await _ask(console, request, asked, preview, changed=True)
    if preview.work is not None:
        with in_english():  # the log is in English: a preview in another language is made again
            logged = preview if request.state.language == "en" else await _preview(console, request, asked)
        await preview.work()
        logger.info("%s: %s", printable(str(_store(console, request).by)), printable(logged.done))
    return await console.page(request, "done.html", title=_title(asked), text=preview.done, live=False)


async def _ask(
    console: Console, request: Request, asked: Mapping[str, str], preview: Preview, *, changed: bool = False
) -> Response:
    return await console.page(
        request, "action.html", asked=asked, title=_title(asked), preview=preview, seen=_digest(preview),
        changed=changed, author=_store(console, request).by, live=False,
    )  # fmt: skip


def _title(asked: Mapping[str, str]) -> str:
    title = _TITLES[asked["do"]]
    return say(title)


def _store(console: Console, request: Request) -> Store:
    """The store for the viewer's changes, whose events name the viewer."""
    by = viewer_of(request).by()
    return console.state.store if by is None else console.state.store.on_behalf_of(by)


async def _preview(console: Console, request: Request, asked: Mapping[str, str]) -> Preview:
    what, name = asked["do"], asked["name"].strip()
    if what not in _TITLES:
        raise BadRequest(say("{given}: expected one of {names}", given=f"do={what[:30]}", names=", ".join(_TITLES)))
    queues = _parse(asked["queues"]) if what == "set-topic" else {}
    viewer = viewer_of(request)
    viewer.check(needs_of_action(asked, queues, console.state.tables.brokers))
    viewer.check(needs_of_preview(asked))
    store = _store(console, request)
    match what:
        case "wipe":
            return await previews.wipe(store, name)
        case "drain":
            return await previews.drain(store, name, asked["reason"].strip()[:200], _until_ms(asked["for"]))
        case "restore":
            return await previews.restore(store, name)
        case "restore-all":
            return await previews.restore_all(store, name)
        case "forget":
            return await previews.forget(store, name)
        case "delete-topic":
            return await previews.delete_topic(store, asked["topic"], asked["cluster"], _shown)
        case "set-topic":
            return await previews.set_topic(store, asked["topic"], queues)
        case "put-kv":
            return await previews.set_kv(store, asked["kv_namespace"], asked["key"], asked["value"])
        case "allow":
            viewer.check_may_give()
            return await allow(store, asked["refused"])
    return await previews.set_kv(store, asked["kv_namespace"], asked["key"], None)


def _until_ms(text: str) -> int | None:
    """The end of a duration that begins now; rounded to the minute, so that preview and confirmation are the same."""
    if not text.strip():
        return None
    try:
        return round((time.time() * 1000 + parse_length_ms(text.strip())) / 60_000) * 60_000
    except ValueError as error:
        raise Mistaken(str(error)) from None


def _shown(topic: str, queue_datas: Mapping[str, QueueData], rows: Mapping[str, BrokerRow]) -> str:
    return "\n".join([
        say("topic {name}", name=topic),
        *(f"{name}: {queues_text(data)}" for name, data in sorted(queue_datas.items())),
    ])  # fmt: skip


def _parse(text: str) -> dict[str, tuple[int, int, int]]:
    found = {}
    for part in text.split():
        match = _QUEUES.fullmatch(part)
        if match is None:
            raise Mistaken(say(
                "{given}: expected BROKER_NAME=READ:WRITE[:PERM], as broker-a=8:8:6", given=repr(part[:100])
            ))  # fmt: skip
        name, read, write, value = match.groups()
        found[name] = int(read), int(write), 6 if value is None else int(value)
    if not found:
        raise Mistaken(say("no queues are given: expected BROKER_NAME=READ:WRITE[:PERM], as broker-a=8:8:6"))
    return found


def _digest(preview: Preview) -> str:
    """The digest of a preview, without the time since a heartbeat, because it changes all the time."""
    heard = re.escape(heard_text("0")).replace("0", r"[\w.]+", 1)
    lines = [re.sub(heard, "", line) for line in preview.lines]
    return hashlib.sha256("\n".join([*lines, preview.done]).encode()).hexdigest()
