"""Computes the figures that gold must show from the observed streams: one plain model, without Spark.

Definitions are those of docs/pipeline.md. Where they leave a choice, this is how they are read here:

- A moment is Redis time in whole milliseconds; what several events of one millisecond do in between is seen by nobody.
- A period is ``[start, end)``; the last one is cut at the end of observation: the newest event or heartbeat. An event,
  a spell and a recovery belong to the period that their moment is in.
- A spell's length is its whole length, also where it began in an earlier period.
- "At the end" of a period is just before it; at the end of observation everything that is known counts. Lookup counts
  that were written down later than that do not.
- A broker has a row for each period from its first appearance to the one in which it was last seen, also for those in
  between in which it was away. A name that appears without a master is unwritable from that moment on.
- A topic has a row where it had queue data or changed.
- A change of queue data ends one row and begins another: two changes. One that sets what is there already is none.
- Heartbeats: the interval is to the beat before of the same process at the same front end, within one life (an entry
  with no interval begins a new one); it is taken at the front end that heard the process most often on that day, of
  several the first by name. Percentiles and the median are of nearest rank, halves are rounded to the even number.
  A beat is expected after the median interval between two beats by one request, a registration or a heartbeat (322,
  904): of the one that was sent more often on that day, or of both, if they were sent as often, the shorter one.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from tests.simulate_oracle.history import History, Steps
from tests.simulate_oracle.observe import Observed, lookups

HOUR_MS: Final = 3_600_000
GRAINS: Final = {"hour": HOUR_MS, "day": 24 * HOUR_MS}
FLAP_MS: Final = 300_000

Row = dict[str, Any]
GoldRows = dict[str, list[Row]]

_COUNTS: Final = {
    "registrations": "broker_registered",
    "expiries": "broker_expired",
    "closes": "broker_closed",
    "unregistrations": "broker_unregistered",
    "reaps": "broker_reaped",
}


def figures(observed: Observed, *, flap_ms: int = FLAP_MS, end_ms: int | None = None) -> GoldRows:
    """Table -> rows as gold has them; ``period_start`` in milliseconds.

    Args:
        end_ms: end of observation; the newest change or heartbeat unless given.
    """
    moments = [entry["ms"] for entry in (*observed.changes, *observed.heartbeats)]
    if not moments:
        return {}
    end_ms = observed.end_ms if end_ms is None else end_ms
    history = History(observed.changes)
    tables: GoldRows = defaultdict(list)
    for grain, length_ms in GRAINS.items():
        for start_ms in range(min(moments) // length_ms * length_ms, end_ms + 1, length_ms):
            period = _Period(grain, start_ms, length_ms, end_ms)
            tables["broker"] += _brokers(history, period, flap_ms)
            tables["topic"] += _topics(history, observed, period)
            tables["cluster"] += _clusters(history, period)
            tables["unused_topic"] += _unused(history, observed, period)
            tables["missing_topic"] += _missing(observed, period)
            tables["heartbeat"] += _heartbeats(observed, period)
    return dict(tables)


class _Period:
    """From ``start_ms`` until ``end_ms``, where observation may end earlier than the hour or day (``full_ms``)."""

    def __init__(self, grain: str, start_ms: int, length_ms: int, observed_until_ms: int) -> None:
        self.grain, self.start_ms, self.full_ms = grain, start_ms, start_ms + length_ms
        self.observed_until_ms = observed_until_ms
        self.end_ms = min(self.full_ms, observed_until_ms)

    @property
    def last_ms(self) -> int:
        """What is so at its end is so at this moment."""
        return self.end_ms if self.end_ms < self.full_ms else self.full_ms - 1

    def __contains__(self, ms: int) -> bool:
        return self.start_ms <= ms <= self.last_ms

    def row(self, **columns: Any) -> Row:
        return {"grain": self.grain, "period_start": self.start_ms, **columns}


def _brokers(history: History, period: _Period, flap_ms: int) -> Iterator[Row]:
    for name, present in sorted(history.present.items()):
        first_ms = present.first_ms
        if first_ms > period.last_ms or present.last_ms(True, period.observed_until_ms) < period.start_ms:
            continue
        writable = history.writable[name]
        observed_ms = period.end_ms - max(first_ms, period.start_ms)
        present_ms = present.lasting(True, period.start_ms, period.end_ms)
        writable_ms = writable.lasting(True, period.start_ms, period.end_ms)
        outages, back = _spells(present, period)
        unwritable, writable_again = _spells(writable, period)
        events = Counter(kind for ms, kind in history.events[name] if ms in period)
        yield period.row(
            cluster=history.cluster_at(name, period.last_ms),
            broker_name=name,
            observed_ms=observed_ms,
            present_ms=present_ms,
            writable_ms=writable_ms,
            availability=present_ms / observed_ms if observed_ms else None,
            write_availability=writable_ms / observed_ms if observed_ms else None,
            outages=outages,
            **_recoveries("", "recoveries", back, flap_ms),
            unwritable_spells=unwritable,
            **_recoveries("write_", "write_recoveries", writable_again, flap_ms),
            **{column: events[kind] for column, kind in _COUNTS.items()},
        )


def _spells(steps: Steps, period: _Period) -> tuple[int, list[int]]:
    """How many spells without it begin in the period, and the lengths of those that end in it."""
    spells = steps.spells(False)
    begun = sum(begin in period for begin, _ in spells)
    return begun, [end - begin for begin, end in spells if end is not None and end in period]


def _recoveries(prefix: str, count: str, lengths: list[int], flap_ms: int) -> Row:
    return {
        count: len(lengths),
        f"{prefix}recovery_ms_mean": sum(lengths) / len(lengths) if lengths else None,
        f"{prefix}recovery_ms_max": max(lengths, default=None),
        f"{prefix}flaps": sum(length < flap_ms for length in lengths),
    }


def _topics(history: History, observed: Observed, period: _Period) -> Iterator[Row]:
    asked = _asked(observed, period, found=True)
    changed = Counter(topic for ms, topic, _ in history.queue_changes if ms in period)
    for topic, routable in sorted(history.routable.items()):
        routable_ms = routable.lasting(True, period.start_ms, period.end_ms)
        if not (routable_ms or changed[topic]):
            continue
        queues = history.queues_at(topic, period.last_ms)
        yield period.row(
            topic=topic,
            routable_ms=routable_ms,
            writable_ms=history.topic_writable[topic].lasting(True, period.start_ms, period.end_ms),
            lookups=asked[topic],
            changes=changed[topic],
            brokers=len(queues),
            write_queues=sum(queues),
            **_skew(queues),
        )


def _skew(values: list[int]) -> Row:
    """Population standard deviation by mean, and greatest by mean; None where there is nothing to compare."""
    mean = sum(values) / len(values) if values else 0.0
    if not mean:
        return {"queue_cv": None, "queue_max_mean": None}
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    return {"queue_cv": deviation / mean, "queue_max_mean": max(values) / mean}


def _clusters(history: History, period: _Period) -> Iterator[Row]:
    changed = Counter(cluster for ms, _, cluster in history.queue_changes if ms in period)
    for cluster in sorted(history.clusters()):
        brokers = history.brokers_at(cluster, period.last_ms)
        if not (brokers or history.cluster_lasting(cluster, period.start_ms, period.end_ms) or changed[cluster]):
            continue
        tables = [history.topics_at(name, period.last_ms) for name in brokers]
        sums = [sum(table.values()) for table in tables]
        yield period.row(
            cluster=cluster,
            brokers=len(brokers),
            topics=len({topic for table in tables for topic in table}),
            write_queues=sum(sums),
            changes=changed[cluster],
            **_skew(sums),
        )


def _unused(history: History, observed: Observed, period: _Period) -> Iterator[Row]:
    asked = _asked(observed, period, found=True)
    for topic, routable in sorted(history.routable.items()):
        routable_ms = routable.lasting(True, period.start_ms, period.end_ms)
        if routable_ms and not asked[topic]:
            yield period.row(topic=topic, routable_ms=routable_ms)


def _missing(observed: Observed, period: _Period) -> Iterator[Row]:
    for topic, count in sorted(_asked(observed, period, found=False).items()):
        yield period.row(topic=topic, lookups=count)


def _asked(observed: Observed, period: _Period, *, found: bool) -> Counter[str]:
    counted: Counter[str] = Counter()
    for topic, was_found, count in lookups([entry for entry in observed.lookups if entry["ms"] in period]):
        if was_found is found:
            counted[topic] += count
    return counted


def _heartbeats(observed: Observed, period: _Period) -> Iterator[Row]:
    by_who = _grouped(observed.heartbeats, lambda entry: entry["who"])
    for who, entries in sorted(by_who.items()):
        here = [entry for entry in entries if entry["ms"] in period]
        if not here:
            continue
        day_ms = period.start_ms // GRAINS["day"] * GRAINS["day"]
        intervals = [(ms, interval) for ms, interval in _intervals(entries) if day_ms <= ms < day_ms + GRAINS["day"]]
        mine = sorted(interval for ms, interval in intervals if ms in period)
        expected = _expected(entries, day_ms)
        beats = [entry for entry in here if entry["kind"] != "refused"]
        yield period.row(
            who=who,
            broker_name=next((entry["broker_name"] for entry in reversed(here) if entry.get("broker_name")), None),
            beats=len(beats),
            refused=len(here) - len(beats),
            front_ends=len({entry["front_end"] for entry in beats}),
            interval_ms_p50=_rank(mine, 50),
            interval_ms_p99=_rank(mine, 99),
            interval_ms_max=_rank(mine, 100),
            expected_ms=expected,
            missed_beats=sum(max(0, round(interval / expected) - 1) for interval in mine) if expected else 0,
        )


def _expected(entries: list[Row], day_ms: int) -> int | None:
    """The interval after which a beat of one process is expected on a day."""
    found = []
    for is_heartbeat in (True, False):
        timed = _intervals(entries, lambda entry, wanted=is_heartbeat: (entry["kind"] == "touch") is wanted)  # type: ignore[misc]
        mine = sorted(interval for ms, interval in timed if day_ms <= ms < day_ms + GRAINS["day"])
        if mine:
            found.append((-len(mine), _rank(mine, 50)))
    return min(found)[1] if found else None  # type: ignore[type-var]


def _intervals(entries: list[Row], wanted: Callable[[Row], bool] = lambda _: True) -> list[tuple[int, int]]:
    """(moment, interval) of one process, at its usual front end of each day, from one such beat to the next."""
    beats = [entry for entry in entries if entry["kind"] != "refused"]
    heard = Counter((entry["ms"] // GRAINS["day"], entry["front_end"]) for entry in beats)
    last: dict[str, int] = {}
    found = []
    for entry in beats:
        day, front_end = entry["ms"] // GRAINS["day"], entry["front_end"]
        if entry["interval_ms"] < 0:
            last = {}  # another life
        if not wanted(entry):
            continue
        if front_end in last:
            most = min((-count, name) for (a_day, name), count in heard.items() if a_day == day)
            if most[1] == front_end:
                found.append((entry["ms"], entry["ms"] - last[front_end]))
        last[front_end] = entry["ms"]
    return found


def _grouped(entries: Iterable[Row], key: Callable[[Row], str]) -> dict[str, list[Row]]:
    groups: defaultdict[str, list[Row]] = defaultdict(list)
    for entry in entries:
        groups[key(entry)].append(entry)
    return groups


def _rank(values: list[int], percent: int) -> int | None:
    """Nearest rank of sorted values."""
    return values[max(1, math.ceil(len(values) * percent / 100)) - 1] if values else None
