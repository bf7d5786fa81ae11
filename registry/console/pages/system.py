"""The page of front ends and Redis, and the page of the streams and their readers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ...errors import StoreUnavailable
from ...events.journal import STREAMS
from ...operators.language import say
from ...store.connection.url import without_password
from ...store.leases import LEASE_MS
from ...store.processes import SWEEPER_SILENT_MS, Fleet, FrontEnd, read_front_ends_of_the_hour
from ...store.streams import Survey, count_behind
from ..context import Console
from ..recent.signs import Sign, Signs, is_direct, signs_by, streams_by
from ..twins import Twin


class FrontEndThen(NamedTuple):
    """A front end at an instant of the past."""

    name: str  # if it is unknown: words with the id
    address: str = ""
    release: str = ""
    started_ms: int | None = None
    gone_ms: int | None = None  # when it was last heard of; None: it was not gone
    sign: Sign | None = None  # what it did in the minute before; None: nothing


FRONT_ENDS_TWIN: Final = Twin(
    "Front ends and sweepers; of an instant: rows.",
    {"fleet": Fleet | None, "redis": str, "rows": list[FrontEndThen] | None},
)  # fmt: skip
STREAMS_TWIN: Final = Twin("The streams and their readers.", {"survey": Survey | None})


async def front_ends(console: Console, request: Request) -> Response:
    """The page of the processes that hear brokers, and of the Redis that they share."""
    at_ms, then, unknown = await console.then_if_known(request)
    facts = await console.facts.now()
    given: dict[str, Any] = {
        "facts": facts, "fleet": facts.fleet if facts else None, "redis": without_password(console.state.store.url),
    }  # fmt: skip
    if at_ms is None:
        told = {worker.incarnation for one in facts.fleet.front_ends for worker in one.workers} if facts else set()
        workers = facts.workers if facts else []
        given["nameless"] = [worker for worker in workers if worker.incarnation not in told and worker.heard_ms]
    else:
        store = console.state.store
        signs = await signs_by(store, at_ms)
        told_of = await read_front_ends_of_the_hour(store)
        console.facts.remember(told_of)
        rows, later = front_ends_then(told_of, signs, at_ms, console.facts.front_end)
        sweepers = [one for one in facts.fleet.sweepers if one.facts.started_ms <= at_ms] if facts else []
        silent = {one.id for one in sweepers if one.gone and at_ms - one.last_sweep_ms > SWEEPER_SILENT_MS}
        given |= {"rows": rows, "later": later, "signs": signs, "sweepers": sweepers, "silent": silent}
    template = "front_ends.html" if at_ms is None else "front_ends_then.html"
    return await console.page_of(request, template, then, at_ms=at_ms, unknown=unknown, **given)


def front_ends_then(
    told: list[FrontEnd], signs: Signs, at_ms: int, name: Callable[[str], str]
) -> tuple[list[FrontEndThen], list[FrontEnd]]:
    """The known front ends of an instant, and those that were started later.

    Args:
        told: front ends that had a status within the last hour. name: id -> name of any other front end.
    """
    rows = [
        FrontEndThen(
            one.name, one.address, one.release, one.started_ms,
            one.told_ms if one.state == "gone" and at_ms - one.told_ms > LEASE_MS else None, signs.of.get(one.id),
        )
        for one in told if one.started_ms <= at_ms or one.id in signs.of
    ]  # fmt: skip
    known = {one.id for one in told}
    direct = [sign for one, sign in signs.of.items() if is_direct(one)]
    rows += [
        FrontEndThen(name(one), sign=sign) for one, sign in signs.of.items() if one not in known and not is_direct(one)
    ]  # fmt: skip
    if direct:
        sign = Sign(max(one.last_ms for one in direct), sum(one.brokers for one in direct))
        rows.append(FrontEndThen(say("brokers that write to Redis themselves"), sign=sign))
    later = [one for one in told if one.started_ms > at_ms and one.id not in signs.of]
    return sorted(rows, key=lambda one: (one.gone_ms is not None, one.name, one.started_ms or 0)), later


async def streams(console: Console, request: Request) -> Response:
    """The three streams, how far back each goes, and what each reader has acknowledged."""
    at_ms, then, unknown = await console.then_if_known(request)
    facts = await console.facts.now()
    past, readers = {}, facts.survey.readers if facts is not None else {}
    if at_ms is not None and facts is not None:
        past = await streams_by(console.state.store, facts.survey, at_ms)
    elif facts is not None and console.state.stale_since_ms is None:
        with contextlib.suppress(StoreUnavailable):  # Redis has just gone: the page says so, and shows estimates
            readers = (await count_behind(console.state.store, facts.survey)).readers
    return await console.page_of(
        request, "streams.html", then, facts=facts, survey=facts.survey if facts else None, readers=readers,
        streams=STREAMS, past=past, at_ms=at_ms, unknown=unknown,
    )  # fmt: skip
