"""Makes the plots of the report, as Vega-Lite. Their colours suit light and dark pages; faults have strong colours."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, Final

import altair as alt

from ..gold.figures import HOUR_MS
from .facts import EVENTS, ReportFacts, Row
from .formats import length, moment, share
from .headlines import unwritable

MOST_ROWS: Final = 50  # in a plot: the worst brokers
_MOST_SPELLS: Final = 4_000
_MOST_COLUMNS: Final = 180
_GOOD, _WARN, _BAD = "#2a9d8f", "#e9a820", "#d1495b"
_STATES: Final = {"absent": _BAD, "present, not writable": _WARN, "unknown": "#9a9a9a"}
_EVENT_COLOURS: Final = ("#5b8fc7", _BAD, _WARN, "#8e7cc3", "#b0653a")
_BEATS: Final = {
    "on time": "#2a9d8f55", "late": "#f3d98b", "1 missed": "#f0a202", "2 to 5 missed": "#e4572e",
    "more missed": "#a3123b",
}  # fmt: skip
_LATE: Final = 1.2  # times the usual interval: a longer wait is late
_LABEL_ROOM: Final = 1.2  # the axis is longer than the longest bar by this factor: room for the label
_SHORTEST_MS: Final = 60_000  # a time axis is at least this long

Chart = dict[str, Any]


def availability(facts: ReportFacts) -> tuple[Chart | None, str]:
    """Bars of the states of every broker, worst broker first; and a note about brokers that are not shown."""
    down: Counter[str] = Counter()
    for spell in unwritable(facts.spells):
        down[spell.broker_name] += spell.length_ms
    names = sorted({spell.broker_name for spell in facts.spells}, key=lambda name: (-down[name], name))
    if not names:
        return None, ""
    shown = names if len(names) <= 12 else [name for name in names if down[name]][:MOST_ROWS]
    unwell = sum(down[name] > 0 for name in names) - len(shown)
    note = _left_out(len(names) - len(shown), unwell, "was writable throughout", "were writable throughout")
    if not shown:
        return None, f"All {len(names)} brokers were writable throughout."
    chosen = set(shown)
    whole: dict[str, list[int]] = {}
    bad = []
    for spell in facts.spells:
        if spell.broker_name not in chosen:
            continue
        life = whole.setdefault(spell.broker_name, [spell.start_ms, spell.end_ms])
        life[1] = spell.end_ms
        if spell.state != "writable":
            bad.append(spell)
    bad.sort(key=lambda spell: -spell.length_ms)
    if len(bad) > _MOST_SPELLS:
        note += f" Of {len(bad):,} stretches the {_MOST_SPELLS:,} longest are drawn."
    shares = {row["broker_name"]: row for row in facts.brokers}
    lives = [
        {"broker": name, "from": start, "to": end, "state": "writable",
         "present": share(shares.get(name, {}).get("availability")),
         "writable": share(shares.get(name, {}).get("write_availability"))}
        for name, (start, end) in whole.items()
    ]  # fmt: skip
    spells = [
        {"broker": spell.broker_name, "from": spell.start_ms, "to": spell.end_ms,
         "state": "present, not writable" if spell.state == "read_only" else spell.state,
         "since": moment(spell.start_ms), "until": "still" if spell.open else moment(spell.end_ms),
         "for": length(spell.length_ms)}
        for spell in bad[:_MOST_SPELLS]
    ]  # fmt: skip
    y = alt.Y("broker:N", sort=shown, title=None)
    x = _time(facts)
    base = alt.Chart(_data(lives)).mark_bar(color=_GOOD, opacity=0.35, height={"band": 0.62}).encode(
        x=x, x2="to", y=y, tooltip=_tips("broker", "present", "writable")
    )  # fmt: skip
    over = alt.Chart(_data(spells)).mark_bar(height={"band": 0.62}, strokeWidth=1.5).encode(
        x=_time(facts, domain=False), x2="to", y=y,
        color=_colour("state", _STATES), stroke=_colour("state", _STATES),
        tooltip=_tips("broker", "state", "since", "until", "for"),
    )  # fmt: skip
    return _spec((base + over) if spells else base, alt.Step(20)), note.strip()


def events(facts: ReportFacts) -> tuple[list[Chart], str]:
    """Registrations and the kinds of removal over time."""
    step = _bucket(facts)
    counts: Counter[tuple[int, str]] = Counter()
    for row in facts.events:
        for kind in EVENTS:
            counts[row["start_ms"] // step * step, kind] += row[kind]
    colours = dict(zip(EVENTS, _EVENT_COLOURS, strict=True))
    panels = []
    for kinds in (EVENTS[:1], EVENTS[1:]):
        stacked: Counter[int] = Counter()
        rows = []
        for start, kind in sorted(counts, key=lambda place: (place[0], EVENTS.index(place[1]))):
            if kind in kinds and counts[start, kind]:
                low, stacked[start] = stacked[start], stacked[start] + counts[start, kind]
                rows.append(
                    {**_cell(facts, start, step), "low": low, "high": stacked[start], "kind": kind,
                     "count": counts[start, kind], "when": _bucket_name(start, step)}
                )  # fmt: skip
        if rows:
            highest = max(stacked.values())
            axis = alt.Axis(values=list(range(0, highest + 1, -(-highest // 4))), format=",d", title=None)
            used = {kind: colours[kind] for kind in kinds if any(row["kind"] == kind for row in rows)}
            panel = alt.Chart(_data(rows), height=110).mark_bar(binSpacing=1).encode(
                x=_time(facts), x2="to", y=alt.Y("low:Q", axis=axis), y2="high",
                color=_colour("kind", used), tooltip=_tips("when", "kind", "count"),
            )  # fmt: skip
            panels.append(_spec(panel))
    return panels, f"One bar is {length(step)}." if panels else ""


def heartbeats(facts: ReportFacts) -> tuple[Chart | None, str]:
    """For every broker process and cell of time, how late its heartbeats were."""
    if not facts.beats:
        return None, ""
    step = _bucket(facts)
    cells: dict[tuple[str, int], Row] = {}
    bad: Counter[str] = Counter()
    for row in facts.beats:
        place = (row["who"], row["start_ms"] // step * step)
        cell = cells.setdefault(place, {"missed": 0, "late": 0.0, "beats": 0, "longest": 0, "name": ""})
        cell["missed"] += row["missed_beats"]
        cell["beats"] += row["beats"]
        cell["longest"] = max(cell["longest"], row["interval_ms_max"] or 0)
        cell["name"] = row["broker_name"] or cell["name"]
        if row["expected_ms"] and row["interval_ms_max"]:
            cell["late"] = max(cell["late"], row["interval_ms_max"] / row["expected_ms"])
        bad[row["who"]] += row["missed_beats"]
    worst: dict[str, float] = defaultdict(float)
    for (who, _), cell in cells.items():
        worst[who] = max(worst[who], cell["late"])
    names = sorted(worst, key=lambda who: (-bad[who], -worst[who], who))
    unwell = [who for who in names if bad[who] or worst[who] > _LATE]
    shown = names if len(names) <= 12 else unwell[:MOST_ROWS]
    note = _left_out(len(names) - len(shown), len(unwell) - len(shown), "was always on time", "were always on time")
    if not shown:
        return None, f"All {len(names)} broker processes beat on time."
    chosen = set(shown)
    labels = {who: f"{cell['name']}  {who.partition('|')[2]}".strip() for (who, _), cell in cells.items()}
    rows = [
        {"process": labels[who], **_cell(facts, start, step), "when": _bucket_name(start, step),
         "beats": cell["beats"], "missed": cell["missed"], "longest wait": length(cell["longest"]),
         "how": _how(cell["missed"], cell["late"])}
        for (who, start), cell in sorted(cells.items()) if who in chosen
    ]  # fmt: skip
    chart = alt.Chart(_data(rows)).mark_rect(height={"band": 0.8}).encode(
        x=_time(facts), x2="to", y=alt.Y("process:N", sort=[labels[who] for who in shown], title=None),
        color=_colour("how", _BEATS), tooltip=_tips("process", "when", "beats", "missed", "longest wait", "how"),
    )  # fmt: skip
    return _spec(chart, alt.Step(18)), f"One cell is {length(step)}. {note}".strip()


def _how(missed: int, late: float) -> str:
    if not missed:
        return "late" if late > _LATE else "on time"
    return "1 missed" if missed == 1 else "2 to 5 missed" if missed <= 5 else "more missed"


def skew(facts: ReportFacts) -> Chart | None:
    """Topics whose write queues are spread most unevenly over their brokers."""
    rows = [
        {"topic": row["topic"], "max_mean": row["queue_max_mean"], "brokers": row["brokers"],
         "write queues": row["write_queues"], "cv": f"{row['queue_cv']:.2f}",
         "label": f"{row['queue_max_mean']:.2f}×"}
        for row in facts.skewed if row["queue_cv"]
    ]  # fmt: skip
    if not rows:
        return None
    return _bars(rows, "topic", "max_mean", "most queues on one broker / mean (1 = even)",
                 _tips("topic", "brokers", "write queues", "cv"), "#8e7cc3")  # fmt: skip


def missing(facts: ReportFacts) -> Chart | None:
    """Topics that were looked up, but did not exist."""
    rows = [{**row, "label": f"{row['lookups']:,}"} for row in facts.missing[:15]]
    if not rows:
        return None
    return _bars(rows, "topic", "lookups", "lookups answered 'no such topic'", _tips("topic", "lookups"), _BAD)


def fragile(facts: ReportFacts) -> Chart | None:
    """The topics for which one loss would have ended writes during most of their time."""
    rows = [
        {"topic": row["topic"], "share": round(1 - row["score"], 4), "at risk": length(row["risk_ms"]),
         "any one broker": share(row["broker_loss_ms"] / row["routable_ms"]),
         "any one host": share(row["host_loss_ms"] / row["routable_ms"]),
         "any one zone": share(row["zone_loss_ms"] / row["routable_ms"]), "label": share(1 - row["score"])}
        for row in facts.fragile[:15] if row["risk_ms"]
    ]  # fmt: skip
    if not rows:
        return None
    tips = _tips("topic", "at risk", "any one broker", "any one host", "any one zone")
    return _bars(rows, "topic", "share", "share of its time in which one loss would have ended writes", tips, _WARN)


def _bars(rows: list[Row], name: str, value: str, title: str, tips: list[Any], colour: str) -> Chart:
    y = alt.Y(f"{name}:N", sort=[row[name] for row in rows], title=None)
    highest = max(row[value] for row in rows)
    room = alt.Scale(domain=[0, highest * _LABEL_ROOM], nice=False)
    step = 1 if isinstance(highest, int) else alt.Undefined
    x = alt.X(f"{value}:Q", title=title, scale=room, axis=alt.Axis(tickCount=5, tickMinStep=step))
    bars = alt.Chart(_data(rows)).mark_bar(color=colour, height={"band": 0.7}).encode(x=x, y=y, tooltip=tips)
    text = alt.Chart(_data(rows)).mark_text(align="left", dx=4).encode(x=x, y=y, text="label:N")
    return _spec(bars + text, alt.Step(20))


def _spec(chart: Any, height: Any = None) -> Chart:
    sized = chart.properties(width="container", **({"height": height} if height is not None else {}))
    spec: Chart = sized.to_dict()
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    spec.pop("config", None)  # the page sets one for light and one for dark
    return spec


def _data(rows: list[Row]) -> Any:
    return alt.Data(values=rows)  # type: ignore[no-untyped-call]


def _time(facts: ReportFacts, *, domain: bool = True) -> Any:
    if not domain:  # another layer of the plot sets it
        return alt.X("from:T", scale=alt.Scale(type="utc", nice=False))
    scale = alt.Scale(type="utc", domain=[facts.since_ms, _end(facts)], nice=False)
    form = "utcseconds(datum.value) ? '%H:%M:%S' : utchours(datum.value) || utcminutes(datum.value) ? '%H:%M' : '%b %d'"
    text = f"utcFormat(datum.value, {form})"
    axis = alt.Axis(title=None, labelExpr=text, tickCount=10, labelOverlap=True, grid=True)
    return alt.X("from:T", scale=scale, axis=axis)


def _end(facts: ReportFacts) -> int:
    """The end of all time axes (ms)."""
    return max(facts.until_ms, facts.since_ms + _SHORTEST_MS)


def _cell(facts: ReportFacts, start: int, step: int) -> Row:
    """The part of a period that is on the axis."""
    return {"from": max(start, facts.since_ms), "to": min(start + step, _end(facts))}


def _colour(column: str, colours: dict[str, str]) -> Any:
    return alt.Color(
        f"{column}:N", scale=alt.Scale(domain=list(colours), range=list(colours.values())),
        legend=alt.Legend(orient="top", title=None, symbolType="square"),
    )  # fmt: skip


def _tips(*names: str) -> list[Any]:
    return [alt.Tooltip(f"{name}:N") for name in names]


def _bucket(facts: ReportFacts) -> int:
    """The length of a bar or a cell (ms): an hour, or more if the report covers a long time."""
    hours = (facts.to_ms - facts.from_ms) // HOUR_MS
    days = -(-hours // (24 * _MOST_COLUMNS))
    return HOUR_MS * next((step for step in (1, 2, 3, 6, 12) if hours <= step * _MOST_COLUMNS), 24 * days)


def _bucket_name(start: int, step: int) -> str:
    return moment(start) if step == HOUR_MS else f"{moment(start)}, {length(step)}"


def _left_out(hidden: int, unwell: int, one: str, many: str) -> str:
    """The note about hidden rows, of which ``unwell`` had something to show."""
    unwell = max(0, unwell)
    well = hidden - unwell
    said = [f"The worst {MOST_ROWS} are shown; {unwell} more had something."] if unwell else []
    if well > 0:
        said.append(f"1 other {one}." if well == 1 else f"{well} others {many}.")
    return " ".join(said)
