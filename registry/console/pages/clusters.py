"""One cluster: its brokers, broker names without a master, topics, lookups and last changes."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ...events.changes import Change
from ...model import MASTER_ID
from ...operators.history import broker_names_of
from ...operators.language import say
from ...operators.words import some
from ...tables.tables import Tables
from ...tables.writable import is_read_only
from ..context import Console, NotThere
from ..links import Named
from ..recent.lanes import SPANS
from ..twins import Twin
from .brokers import ProcessLine, changes_of, listed, live_rows, past_rows

TWIN: Final = Twin(
    "One cluster. Its lookups are those of its topics, for each minute of the last hour.",
    {"name": str, "names": list[str], "no_master": list[str], "read_only": list[str], "topics": int,
     "lookups": dict[int, int] | None, "rows": list[ProcessLine], "count": int, "number": int, "pages": int,
     "changes": list[Change]},
    ("name", "at", "sort", "page"),
)  # fmt: skip
_NO_NAMES: Final = frozenset[str]()


async def cluster(console: Console, request: Request) -> Response:
    """The page of one cluster: its brokers, topics and sizes."""
    name = request.query_params.get("name", "")
    then = await console.then(request)
    facts = await console.facts.now() if then is None else None
    tables = console.state.tables if then is None else then.tables
    names = sorted(tables.clusters.get(name, _NO_NAMES))

    def is_of_it(change: Change) -> bool:
        return getattr(change, "cluster", None) == name or any(one in names for one in broker_names_of(change))

    changes = await changes_of(console, request, is_of_it) if then is None and name else []
    if not names and not changes:
        close = difflib.get_close_matches(name, tables.clusters, 3) or tables.clusters
        text = (
            say("No broker of a cluster {name} is registered", name=repr(name)) if then is None
            else say("No broker of a cluster {name} was registered", name=repr(name))
        )  # fmt: skip
        if close:
            there = say("; there is {names}", names=some(close))
            text += there if then is None else say("; there was {names}", names=some(close))
        raise NotThere(say("{sentence}.", sentence=text), [Named("cluster", one) for one in sorted(close)])
    rows = [row for row in (past_rows(then) if then else live_rows(console, facts)) if row.cluster == name]
    redis_ms = facts.head.now_ms if facts else 0
    return await console.page_of(
        request, "cluster.html", then, name=name, names=names,
        no_master=[one for one in names if one in tables.brokers and MASTER_ID not in tables.brokers[one].broker_addrs],
        read_only=[one for one in names if is_read_only(tables, one)], overdue=sum(row.left_ms == 0 for row in rows),
        topics=len(topics_of(tables, name)), until_ms=redis_ms,
        lookups=dict(console.missing.of_cluster.get(name, {})) if then is None else None,
        changes=changes, **listed(console, request, rows, redis_ms, SPANS["hour"]),
    )  # fmt: skip


def topics_of(tables: Tables, cluster: str, among: Collection[str] | None = None) -> list[str]:
    """The given topics (None: all) that are at a broker name of the cluster, in the given order."""
    names, topics = tables.clusters.get(cluster, _NO_NAMES), tables.topics
    return [one for one in (topics if among is None else among) if not names.isdisjoint(topics.get(one, ()))]
