"""Answers the questions that an operator asks first, in a few words each."""

from __future__ import annotations

from typing import NamedTuple

from ..gold.figures import DAY_MS
from .facts import ReportFacts, Spell
from .formats import count, length, moment, share

GOOD, WARN, BAD = "good", "warn", "bad"
_NO_TIME = "no time has passed since the first broker came"


class Headline(NamedTuple):
    """A question, its answer, the details, and how bad it is (tone): good, warn, bad."""

    question: str
    answer: str
    detail: str
    tone: str


def first_line(facts: ReportFacts) -> str:
    """The worst finding, as one sentence."""
    away = {name for name, state in facts.now.items() if state == "absent"}
    since = {spell.broker_name: spell for spell in facts.spells if spell.open and spell.broker_name in away}
    at = moment(facts.until_ms)
    if away and len(away) == len(facts.now):
        went_ms = max((spell.start_ms for spell in since.values()), default=facts.since_ms)
        return f"No broker was registered at {at}; the last one went at {moment(went_ms)}."
    if since:
        spell = min(since.values(), key=lambda spell: spell.start_ms)
        others = f"; {count(len(away) - 1, 'other broker is', 'other brokers are')} also away" if len(away) > 1 else ""
        lasted = f"for {length(spell.length_ms)} until {at}"
        return f"{spell.broker_name} has been away since {moment(spell.start_ms)}: {lasted}{others}."
    found = unwritable(facts.spells)
    if found:
        worst = max(found, key=lambda spell: (spell.length_ms, -spell.start_ms))
        lasted = length(worst.length_ms)
        if worst.open:
            found_worst = f"has taken no messages since {moment(worst.start_ms)}: for {lasted} until {at}"
        else:
            what = "was away" if worst.state == "absent" else "took no messages"
            found_worst = f"{what} for {lasted}, {_from_to(worst)}"
        several = f"; {count(len(found), 'such stretch', 'such stretches')} in all" if len(found) > 1 else ""
        return f"{worst.broker_name} {found_worst}{several}."
    missed = [row for row in facts.beats if row["missed_beats"]]
    if missed:
        worst_row = max(missed, key=lambda row: row["missed_beats"])
        name = worst_row["broker_name"] or worst_row["who"]
        return (
            f"Every broker took messages all the time; heartbeats of {name} came late, at worst "
            f"{length(worst_row['interval_ms_max'])} after the previous one."
        )
    if not facts.spells:
        return "No broker was registered for longer than an instant."
    return "Nothing was wrong: every broker took messages all the time, and every heartbeat came in time."


def headlines(facts: ReportFacts) -> list[Headline]:
    """The headlines, most urgent first."""
    return [_now(facts), _worst(facts), _unwritable(facts), _flapping(facts), _alarms(facts)]


def unwritable(spells: list[Spell]) -> list[Spell]:
    """The times in which brokers had no writable queue; consecutive absent and read-only spells count as one time."""
    found: list[Spell] = []
    for spell in spells:
        if spell.state in ("writable", "unknown"):
            continue
        last = found[-1] if found else None
        if last and last.broker_name == spell.broker_name and last.end_ms == spell.start_ms:
            found[-1] = Spell(spell.cluster, spell.broker_name, "unwritable", last.start_ms, spell.end_ms, spell.open)
        else:
            found.append(spell)
    return found


def _now(facts: ReportFacts) -> Headline:
    at = moment(facts.until_ms)
    absent = sorted(name for name, state in facts.now.items() if state == "absent")
    read_only = sorted(name for name, state in facts.now.items() if state == "read_only")
    question = f"Who is away at {at}?"
    last_first = sorted(facts.gone, key=lambda name: (-facts.gone[name], name))
    before = [f"left before this time and not back: {_names(last_first)}"] if last_first else []
    if not facts.now:
        return Headline(question, "no broker", "; ".join(before) or "none was registered", WARN)
    known = len(facts.now)
    if not absent and not read_only:
        details = ["every broker of this time has a master and a writable queue", *before]
        return Headline(question, f"all {known} writable" if known > 1 else "writable", "; ".join(details), GOOD)
    details = [f"absent: {_names(absent)}"] if absent else []
    details += [f"no writable queue: {_names(read_only)}"] if read_only else []
    answer = f"{len(absent) + len(read_only)} of {known} {'down' if absent else 'not writable'}"
    return Headline(question, answer, "; ".join([*details, *before]), BAD)


def _names(names: list[str], most: int = 4) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def _worst(facts: ReportFacts) -> Headline:
    question = "Which broker has the lowest availability?"
    if not facts.brokers or facts.brokers[0]["availability"] is None:
        return Headline(question, "–", _NO_TIME if facts.now else "no broker was seen", WARN)
    worst = facts.brokers[0]
    if worst["availability"] == 1:
        return Headline(question, "none", f"{count(len(facts.brokers), 'broker')}, all present all the time", GOOD)
    gone = length(worst["observed_ms"] - worst["present_ms"])
    detail = f"present {share(worst['availability'])} of the time: {gone} absent, {count(worst['outages'], 'outage')}"
    if worst["gone_ms"] is not None:
        detail += f"; left at {moment(worst['gone_ms'])}, and its availability ends with that hour"
    return Headline(question, worst["broker_name"], detail, BAD if worst["availability"] < 0.999 else WARN)


def _unwritable(facts: ReportFacts) -> Headline:
    question = "How long could a broker not be written to?"
    found = unwritable(facts.spells)
    if not facts.spells:
        return Headline(question, "–", _NO_TIME if facts.now else "no broker was seen", WARN)
    if not found:
        return Headline(question, "none", "writes were possible on every broker", GOOD)
    longest = max(found, key=lambda spell: (spell.length_ms, -spell.start_ms))
    when = f"since {moment(longest.start_ms)}, not over yet" if longest.open else _from_to(longest)
    detail = f"{longest.broker_name}, {when}"
    return Headline(question, length(longest.length_ms), detail, BAD if longest.length_ms >= 60_000 else WARN)


def _from_to(spell: Spell) -> str:
    same_day = spell.start_ms // DAY_MS == spell.end_ms // DAY_MS
    return f"from {moment(spell.start_ms)} to {moment(spell.end_ms, date=not same_day)}"


def _flapping(facts: ReportFacts) -> Headline:
    question = "Who flaps?"
    flapping = sorted((row for row in facts.brokers if row["flaps"]), key=lambda row: -row["flaps"])
    if not flapping:
        return Headline(question, "none", "no broker went away and came back at once", GOOD)
    names = [f"{row['broker_name']} ({row['flaps']}×)" for row in flapping]
    return Headline(question, count(len(flapping), "broker"), _names(names), BAD if flapping[0]["flaps"] > 2 else WARN)


def _alarms(facts: ReportFacts) -> Headline:
    question = "Did a reader of the streams fall behind?"
    if not facts.alarms:
        return Headline(question, "none", "the registry's streams were within their limits", GOOD)
    last = facts.alarms[-1]
    about = " ".join(str(last[name]) for name in ("stream", "reader") if last[name])
    detail = f"last: {last['alarm']}{f' ({about})' if about else ''}, {last['at']:%Y-%m-%d %H:%M:%S}"
    return Headline(question, str(len(facts.alarms)), detail, BAD)
