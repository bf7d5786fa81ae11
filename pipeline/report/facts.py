"""Reads the rows and numbers of the report from gold, for one epoch and a stretch of time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..gold.figures import DAY_MS, HOUR_MS, NEVER, SHARES, last, read, sums
from ..lake.lake import Lake

_TOPIC_HOURS: Final = 48 * HOUR_MS  # over longer stretches topics are read by days
EVENTS: Final = ("registrations", "expiries", "closes", "unregistrations", "reaps")
Row = dict[str, Any]


@dataclass(frozen=True)
class Spell:
    """A broker's stay in one state, within the reported time. ``open``: the state still lasts."""

    cluster: str
    broker_name: str
    state: str
    start_ms: int
    end_ms: int
    open: bool

    @property
    def length_ms(self) -> int:
        """How long the state lasted within the reported time."""
        return self.end_ms - self.start_ms


@dataclass
class ReportFacts:
    """What the report says of one epoch between two moments.

    ``from_ms``, ``to_ms``: whole hours. ``since_ms``: from_ms, or the first appearance of a broker. ``until_ms``:
    to_ms, or the end of observation. ``now``: broker -> its state at until_ms. ``gone``: a broker that left before
    from_ms and did not return -> when it left.
    """

    namespace: str
    epoch: str
    from_ms: int
    to_ms: int
    since_ms: int
    until_ms: int
    now: dict[str, str] = field(default_factory=dict)
    gone: dict[str, int] = field(default_factory=dict)
    spells: list[Spell] = field(default_factory=list)
    brokers: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    beats: list[Row] = field(default_factory=list)
    clusters: list[Row] = field(default_factory=list)
    skewed: list[Row] = field(default_factory=list)
    missing: list[Row] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    alarms: list[Row] = field(default_factory=list)
    fragile: list[Row] = field(default_factory=list)
    topics: int = 0
    lookups: int = 0

    @property
    def empty(self) -> bool:
        """Whether nothing was seen in this time."""
        return not (self.brokers or self.topics or self.missing or self.beats)


def gather(
    lake: Lake, namespace: str, epoch: str, from_ms: int | None, to_ms: int | None, default_ms: int
) -> ReportFacts:
    """Read the facts of one epoch.

    Args:
        from_ms, to_ms: None: the last ``default_ms`` before the end of observation (or before ``to_ms``).
    """
    seen = last(lake, namespace, epoch)
    now = seen.now_ms if seen else 0
    to_ms = -(-min(now, to_ms or NEVER) // HOUR_MS) * HOUR_MS
    from_ms = max(0, to_ms - default_ms) if from_ms is None else from_ms // HOUR_MS * HOUR_MS
    states = read(lake, "broker_state", namespace, epoch)
    begins = pc.min(states["valid_from"]).as_py()
    since_ms = from_ms
    if begins is not None:  # the axis begins with the first broker
        since_ms = max(from_ms, round(begins.timestamp() * 1000))
        from_ms = max(from_ms, since_ms // HOUR_MS * HOUR_MS)
    facts = ReportFacts(namespace, epoch, from_ms, to_ms, since_ms, min(to_ms, now))
    if from_ms >= to_ms:
        return facts
    # a state that begins at the end of observation counts, although its length is 0
    _add_spells(facts, states, last_ms=facts.until_ms - (facts.until_ms < now))
    hours: dict[str, Any] = {"grain": "hour", "from_ms": from_ms, "to_ms": to_ms}
    left = {spell.broker_name: spell.start_ms for spell in facts.spells if spell.open and spell.state == "absent"}
    facts.brokers, facts.events = _brokers(read(lake, "broker", namespace, epoch, **hours), left)
    facts.beats = _starts(read(lake, "heartbeat", namespace, epoch, **hours)).to_pylist()
    clusters = _starts(read(lake, "cluster", namespace, epoch, **hours)).sort_by([("start_ms", "ascending")])
    facts.clusters = list({row["cluster"]: row for row in clusters.to_pylist()}.values())  # the last row of each
    _topics(lake, facts, hours)
    alarms = read(lake, "alarm", namespace, epoch, from_ms=from_ms, to_ms=to_ms)
    facts.alarms = alarms.sort_by([("seq", "ascending")]).to_pylist()
    return facts


def _ms(moments: Any) -> Any:
    return pc.divide(moments.cast(pa.int64()), 1000)


def _starts(rows: pa.Table) -> pa.Table:
    """The rows with start_ms instead of period_start."""
    return rows.append_column("start_ms", _ms(rows["period_start"])).drop_columns(["period_start", "grain"])


def _add_spells(facts: ReportFacts, states: pa.Table, last_ms: int) -> None:
    """Add the states, cut to the reported time; a broker that left before it and did not return is in ``gone`` only."""
    start = _ms(states["valid_from"]).to_pylist()
    end = _ms(states["valid_to"]).to_pylist()
    for row, since, till in zip(states.to_pylist(), start, end, strict=True):
        name, state, still = row["broker_name"], row["state"], till is None
        finish = NEVER if till is None else till
        is_last = since <= last_ms < finish
        if still and state == "absent" and since <= facts.from_ms:
            facts.gone[name] = since
            continue
        if is_last:
            facts.now[name] = state
        begin, finish = max(since, facts.from_ms), min(finish, facts.until_ms)
        if begin < finish:
            facts.spells.append(Spell(row["cluster"], name, state, begin, finish, still))
    facts.spells.sort(key=lambda spell: (spell.broker_name, spell.start_ms))


def _brokers(rows: pa.Table, gone: dict[str, int]) -> tuple[list[Row], list[Row]]:
    """Figures of every broker over the whole time, worst first, and the events of every hour.

    They are sums of gold's hours, as in SQL: a broker that left and did not return is observed to the end of the hour
    in which it left, because gold cannot know whether it left for good. ``gone``: such a broker -> when it left.
    """
    rows = _starts(rows)
    summed = ["observed_ms", "present_ms", "writable_ms", "outages", "recoveries", "flaps", "unwritable_spells",
              "write_recoveries", "write_flaps", *EVENTS]  # fmt: skip
    of_broker = rows.group_by("broker_name").aggregate(
        [*((name, "sum") for name in summed), ("cluster", "max"), ("recovery_ms_max", "max"),
         ("write_recovery_ms_max", "max")]
    )  # fmt: skip
    brokers = []
    for row in of_broker.to_pylist():
        row = {name.removesuffix("_sum").removesuffix("_max"): value for name, value in row.items()}
        row["gone_ms"] = gone.get(row["broker_name"])
        for share, part in SHARES.items():
            row[share] = row[part] / row["observed_ms"] if row["observed_ms"] else None
        brokers.append(row)
    brokers.sort(key=lambda row: (_worst(row["availability"]), _worst(row["write_availability"]), row["broker_name"]))
    return brokers, sums(rows, "start_ms", EVENTS).to_pylist()


def _worst(share: float | None) -> float:
    return 2 if share is None else share


def _topics(lake: Lake, facts: ReportFacts, hours: dict[str, Any]) -> None:
    """Add the facts about topics."""
    when = hours
    if facts.to_ms - facts.from_ms > _TOPIC_HOURS:
        when = {"grain": "day", "from_ms": facts.from_ms // DAY_MS * DAY_MS, "to_ms": facts.to_ms}
    place = (facts.namespace, facts.epoch)
    wanted = ["period_start", "topic", "lookups", "routable_ms"]
    rows = read(lake, "topic", *place, **when, columns=wanted)
    by_topic = sums(rows, "topic", ["lookups", "routable_ms"])
    facts.topics = by_topic.num_rows
    facts.lookups = pc.sum(by_topic["lookups"]).as_py() or 0
    unused = pc.and_(pc.equal(by_topic["lookups"], 0), pc.greater(by_topic["routable_ms"], 0))
    facts.unused = sorted(by_topic.filter(unused)["topic"].to_pylist())
    if rows.num_rows:
        last = round(pc.max(rows["period_start"]).as_py().timestamp() * 1000)
        now = read(lake, "topic", *place, grain=when["grain"], from_ms=last, to_ms=last + 1)
        now = now.filter(pc.greater(now["brokers"], 1)).sort_by(
            [("queue_max_mean", "descending"), ("queue_cv", "descending"), ("topic", "ascending")]
        )
        facts.skewed = now.slice(0, 15).to_pylist()
    facts.fragile = _fragile(read(lake, "resilience", *place, **when))
    missing = sums(read(lake, "missing_topic", *place, **when), "topic", ["lookups"])
    facts.missing = missing.sort_by([("lookups", "descending"), ("topic", "ascending")]).to_pylist()


def _fragile(rows: pa.Table) -> list[Row]:
    """Topics sorted by the share of their time in which one loss would have ended writes, worst first."""
    summed = ["routable_ms", "broker_loss_ms", "host_loss_ms", "zone_loss_ms", "any_loss_ms"]
    topics: list[Row] = sums(rows, "topic", summed).to_pylist()
    for row in topics:
        row["score"] = row["any_loss_ms"] / row["routable_ms"]
        row["risk_ms"] = row["routable_ms"] - row["any_loss_ms"]
    return sorted(topics, key=lambda row: (row["score"], -row["routable_ms"], row["topic"]))
