"""Compares two instants: the cells that only one of them has, and the cells that differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ...model import BrokerRow, QueueData
from ...operators.language import marked, say
from ...operators.words import queues_text
from ...tables.tables import Tables
from ..context import Console, paged
from ..links import Named
from ..login.needs import READ_CONFIG, of_kv, of_route
from ..login.viewer import Viewer, viewer_of
from ..twins import Twin


class ShownDifference(NamedTuple):
    """One cell of the tables. before, after: None: the cell did not exist. names: those of it that have a page."""

    kind: str
    name: str
    before: str | None
    after: str | None
    names: tuple[Named, ...] = ()


TWIN: Final = Twin(
    "What differs between two instants.",
    {"differences": list[ShownDifference], "count": int, "number": int, "pages": int},
    ("at", "and", "page"),
)


async def compare(console: Console, request: Request) -> Response:
    """The page that compares the instants ``at`` and ``and``; without ``and`` it compares ``at`` with now."""
    at_ms, and_ms = await console.instant(request), await console.instant(request, "and")
    found: list[ShownDifference] = []
    if at_ms is not None:
        before = (await console.past.at(at_ms)).tables
        after = console.state.tables if and_ms is None else (await console.past.at(and_ms)).tables
        found = differences(before, after, viewer_of(request))
    return await console.page_of(
        request, "compare.html", None, first_ms=at_ms, second_ms=and_ms, at_ms=at_ms, live=False,
        **paged(request, found, "differences"),
    )  # fmt: skip


def differences(before: Tables, after: Tables, viewer: Viewer) -> list[ShownDifference]:
    """The differences that a viewer may see: brokers first, then topics, KV and settings."""
    found = _cells(marked("broker"), _addrs(before.brokers), _addrs(after.brokers))
    for topic in sorted({*before.topics, *after.topics}):
        was, now = before.topics.get(topic, {}), after.topics.get(topic, {})
        if was != now and viewer.may(of_route(topic)):
            found += _cells(marked("topic"), _queues(topic, was), _queues(topic, now))
    found += _cells("KV", _flat(before.kv, viewer), _flat(after.kv, viewer))
    if viewer.may(READ_CONFIG):
        found += _cells(marked("setting"), _settings(before), _settings(after))
    return found


# (the name of a cell, the names in it that have a page) -> the value of the cell
_Cells = Mapping[tuple[str, tuple[Named, ...]], str]


def _cells(kind: str, before: _Cells, after: _Cells) -> list[ShownDifference]:
    return [
        ShownDifference(kind, cell[0], before.get(cell), after.get(cell), cell[1])
        for cell in sorted({*before, *after})
        if before.get(cell) != after.get(cell)
    ]


def _addrs(rows: Mapping[str, BrokerRow]) -> _Cells:
    return {
        (f"{row.cluster} / {name} id {broker_id}", (Named("cluster", row.cluster), Named("broker", name))): addr
        for name, row in rows.items()
        for broker_id, addr in row.broker_addrs.items()
    }


def _queues(topic: str, cells: Mapping[str, QueueData]) -> _Cells:
    return {
        (
            say("{name} at {places}", name=topic, places=name),
            (Named("topic", topic), Named("broker", name)),
        ): queues_text(data)
        for name, data in cells.items()
    }


def _flat(kv: Mapping[str, Mapping[str, str]], viewer: Viewer) -> _Cells:
    seen = {name: table for name, table in kv.items() if viewer.may(of_kv(name))}
    return {(f"{name} / {key}", ()): value for name, table in seen.items() for key, value in table.items()}


def _settings(tables: Tables) -> _Cells:
    return {(key, ()): value for key, value in tables.config.items()}
