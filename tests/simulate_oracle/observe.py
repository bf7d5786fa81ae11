"""Reads the registry's streams after a simulated day, and compares them with the plan.

It uses plain Redis commands and plain JSON: none of the pipeline's own reading.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict, deque
from typing import Any, Final

import msgspec

from mqregistry.errors import StoreError
from mqregistry.simulate.day import DayPlan, OpKind
from mqregistry.store import keys
from mqregistry.store.connection.asyncio_client import open_client
from mqregistry.store.connection.errors import mapped_errors
from tests.simulate_oracle.expect import Effect, Expected

Event = dict[str, Any]
"""One entry's JSON; of a change in parts, all of its topics."""

_PAGE: Final = 1000
_STREAMS: Final = {"changes": keys.changes, "heartbeats": keys.heartbeats, "lookups": keys.lookups}


class Observed(msgspec.Struct, frozen=True):
    """The streams' entries of one run, oldest first; ``changes`` by ``seq`` and whole."""

    epoch: str
    changes: list[Event]
    heartbeats: list[Event]
    lookups: list[Event]

    @property
    def end_ms(self) -> int:
        """The newest change or heartbeat: where observation ends; 0: there is nothing."""
        return max((entry["ms"] for entry in (*self.changes, *self.heartbeats)), default=0)


class Observer:
    """Reads what is written to one namespace from now on."""

    def __init__(self, url: str, namespace: str) -> None:
        self._url, self._namespace = url, namespace
        self._seq = 0
        self._after: dict[str, str] = {}

    async def begin(self) -> None:
        """Note where the streams end.

        Raises:
            StoreUnavailable, StoreError: Redis; there is no such namespace.
        """
        client = open_client(self._url, timeout_ms=5000, max_connections=1)
        try:
            with mapped_errors("reading the streams"):
                epoch, seq = await client.hmget(keys.meta(self._namespace), "epoch", "seq")
                if epoch is None:
                    raise StoreError(
                        f"namespace {self._namespace!r} is not in this Redis: start a front end on it first"
                    )
                self._epoch, self._seq = epoch.decode(), int(seq or 0)
                for name, key in _STREAMS.items():
                    last = await client.xrevrange(key(self._namespace), count=1)
                    self._after[name] = last[0][0].decode() if last else "0"
        finally:
            await client.aclose()

    async def read(self) -> Observed:
        """All since :meth:`begin`.

        Raises:
            StoreUnavailable, StoreError: Redis; it is another registry now, or events are missing.
        """
        client = open_client(self._url, timeout_ms=5000, max_connections=1)
        try:
            with mapped_errors("reading the streams"):
                epoch = (await client.hget(keys.meta(self._namespace), "epoch") or b"").decode()
                if epoch != self._epoch:
                    raise StoreError(f"the registry is another one now: epoch {epoch!r}, at the start {self._epoch!r}")
                found = {name: await self._entries(client, name) for name in _STREAMS}
        finally:
            await client.aclose()
        return Observed(epoch, self._whole(found["changes"]), found["heartbeats"], found["lookups"])

    async def _entries(self, client: Any, name: str) -> list[Event]:
        entries: list[Event] = []
        last = self._after[name]
        while page := await client.xrange(_STREAMS[name](self._namespace), min=f"({last}", count=_PAGE):
            entries += (msgspec.json.decode(fields[b"e"]) for _, fields in page)
            last = page[-1][0].decode()
        return entries

    def _whole(self, events: list[Event]) -> list[Event]:
        """Events in parts become one; a hole in seq is an error."""
        whole: list[Event] = []
        seq = self._seq
        for event in events:
            if event["seq"] != seq + 1:
                raise StoreError(
                    f"event {seq + 1} is not in the stream, the next one is {event['seq']}: was it trimmed?"
                )
            seq += 1
            if event.get("part", 1) == 1:
                whole.append(event)
            else:
                whole[-1].setdefault("topics", {}).update(event.get("topics", {}))
        return whole


async def until_lookups(observer: Observer, asked: int, within_s: float = 25.0) -> None:
    """Name servers write lookups down some seconds late: wait until as many as were answered are there, or for long.

    Raises:
        StoreUnavailable, StoreError: as :meth:`Observer.read`.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while True:
                if sum(count for _, _, count in lookups((await observer.read()).lookups)) >= asked:
                    return
                await asyncio.sleep(0.25)


def lookups(entries: list[Event]) -> list[tuple[str, bool, int]]:
    """Topic, found, how often; of each entry and topic."""
    counted: list[tuple[str, bool, int]] = []
    for entry in entries:
        for member, found in (("found", True), ("missing", False)):
            counted += ((topic, found, count) for topic, count in entry.get(member, {}).items())
    return counted


def differences(plan: DayPlan, observed: Observed, answers: Counter[tuple[str, bool]]) -> list[str]:
    """How the streams differ from the plan and from the answers to the clients: one sentence each.

    Events must come in the order of the plan as far as they concern the same brokerName; changes of
    other brokerNames may come in between.
    """
    expected = Expected(plan)
    waiting: defaultdict[str, deque[Effect]] = defaultdict(deque)
    for op in plan.ops:
        effect = expected.apply(op)
        for name in effect.brokers if effect is not None else ():
            waiting[name].append(effect)  # type: ignore[arg-type]  # not None: it has brokers
    return [
        *_changes(observed.changes, waiting),
        *_beats(observed.heartbeats, expected.beats),
        *_lookups(plan, observed.lookups, answers),
    ]


def _changes(events: list[Event], waiting: dict[str, deque[Effect]]) -> list[str]:
    wrong: list[str] = []
    off: set[str] = set()
    for event in events:
        names = tuple(sorted(event.get("broker_names") or [event.get("broker_name", "")]))
        if off.intersection(names):
            continue  # said once: what comes after it cannot fit either
        heads = [waiting[name][0] if waiting.get(name) else None for name in names]
        what = f"event {event['seq']} ({event['type']} of {event.get('topic') or event.get('who') or ', '.join(names)})"
        effect = heads[0]
        if effect is None or any(head is not effect for head in heads):
            due = ", ".join(f"{head.type} at {head.op.at_ms} ms" if head else "nothing" for head in heads)
            wrong.append(f"{what} is not planned; next for {', '.join(names)}: {due}")
            off.update(names)
            continue
        for name in names:
            waiting[name].popleft()
        if difference := _difference(event, effect, names):
            wrong.append(f"{what}, {effect.op.kind} at {effect.op.at_ms} ms: {difference}")
            off.update(names)
    left = [effect for name, effects in waiting.items() if name not in off for effect in effects]
    for effect in left[:20]:
        wrong.append(f"no event {effect.type} of {', '.join(effect.brokers)}, planned at {effect.op.at_ms} ms")
    return wrong


def _difference(event: Event, effect: Effect, names: tuple[str, ...]) -> str:
    if event["type"] != effect.type:
        return f"expected {effect.type}"
    if names != effect.brokers:
        return f"expected {effect.brokers} to be concerned"
    if (event.get("who"), event.get("topic")) != (effect.who, effect.topic):
        return f"expected {effect.who or effect.topic}"
    if effect.addrs is None:
        if "row" in event:
            return "the broker row was not to change"
    elif "row" not in event:
        return "the broker row was to change"
    elif addrs_of(event["row"]) != effect.addrs:
        return f"addresses are {event['row']}, expected {effect.addrs}"
    topics = {topic: queues_of(data) for topic, data in event.get("topics", {}).items()}
    if topics != effect.topics:
        return f"queue data is {topics}, expected {effect.topics}"
    return "topics were dropped" if event.get("dropped") else ""


def addrs_of(row: Event | None) -> dict[int, str]:
    """Broker id -> address; of no row, none."""
    return {int(number): addr for number, addr in row["addrs"].items()} if row else {}


def queues_of(data: Event) -> tuple[int, int, int]:
    """Read queues, write queues, permission."""
    return data["r"], data["w"], data["p"]


def _beats(entries: list[Event], expected: Counter[str]) -> list[str]:
    found = Counter(entry["who"] for entry in entries if entry["kind"] != "refused")
    return [
        f"{found[who]} heartbeats of {who} are on the stream, expected {expected[who]}"
        for who in sorted(found.keys() | expected.keys())
        if found[who] != expected[who]
    ]


def _lookups(plan: DayPlan, entries: list[Event], answers: Counter[tuple[str, bool]]) -> list[str]:
    counted: Counter[tuple[str, bool]] = Counter()
    for topic, found, count in lookups(entries):
        counted[topic, found] += count
    planned = Counter(op.topic for op in plan.ops if op.kind is OpKind.LOOKUP)
    asked: Counter[str] = Counter()
    for (topic, _), count in answers.items():
        asked[topic] += count
    wrong = [
        f"{topic} was looked up {asked[topic]} times, planned {planned[topic]}"
        for topic in sorted(asked.keys() | planned.keys())
        if asked[topic] != planned[topic]
    ]
    for topic, found in sorted(counted.keys() | answers.keys()):
        if counted[topic, found] != answers[topic, found]:
            wrong.append(
                f"{counted[topic, found]} lookups of {topic} {'found' if found else 'missing'} are on the stream, "
                f"{answers[topic, found]} were answered so"
            )
    return wrong
