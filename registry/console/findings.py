"""Says in sentences what is wrong, since when, until when and why, from tables and facts. Does no I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

from ..auth.policy import Mode
from ..events.changes import Change
from ..model import DEFAULT_HEARTBEAT_TIMEOUT_MS, MASTER_ID
from ..operators.language import marked, say, say_number
from ..operators.words import counted, duration, moment, some
from ..store.operator_reads import BrokerInfo
from ..tables.tables import Tables
from ..tables.writable import is_unwritable
from .facts import Facts
from .links import Named, brokers_named
from .recent.signs import Signs

Level = Literal["bad", "warn", "note"]
LEVEL_NAMES: Final[dict[Level, str]] = {"bad": marked("Wrong"), "warn": marked("Look"), "note": marked("Note")}
"""The words of pages for each level, in English; the worst first."""

_HEARD_MS: Final = 5_000
_SWEPT_MS: Final = 10_000
_BEHIND_MS: Final = 3_000
_UNREACHABLE_MOST: Final = 10
_RECENT_MS: Final = 3_600_000
# the text that a front end writes into Redis about a broker that clients cannot reach (channels.py)
_REGISTERS: Final = re.compile(r"a broker registers as (\S+), (.+), over a connection from (\S+)")


class ConsoleFinding(NamedTuple):
    """A finding that an operator should check, in one or two sentences."""

    level: Level
    text: str
    page: str = ""  # the path, with its query, of the page that shows more
    dismiss: str = ""  # the key of the departure, if an operator can dismiss it
    names: tuple[Named, ...] = ()  # the names in the text that have a page


class TopicSums(NamedTuple):
    """Counts of topics, over all of them."""

    topics: int
    unwritable: int  # topics other than RocketMQ's own for which a producer finds no queue
    without_route: int  # of these, topics whose broker names are all gone


def sum_topics(tables: Tables) -> TopicSums:
    """Count over all topics; 40,000 topics take about 20 ms, so callers keep the result."""
    unwritable = without = 0
    for topic, queue_datas in tables.topics.items():
        if is_unwritable(tables, topic):
            unwritable += 1
            without += not any(name in tables.brokers for name in queue_datas)
    return TopicSums(len(tables.topics), unwritable, without)


def clock(ms: int, now_ms: int) -> str:
    """A time of day, with its date if that is not today's."""
    text = moment(ms)
    return text[11:19] if text[:10] == moment(now_ms)[:10] else text[:19]


def find(
    facts: Facts | None, tables: Tables, sums: TopicSums, *, stale_since_ms: int | None, reason: str,
    away: tuple[int, int] | None, recent: Iterable[Change] = (),
) -> list[ConsoleFinding]:  # fmt: skip
    """All findings of now, except the incidents of brokers (recent/incidents.py).

    Args:
        stale_since_ms: when Redis last answered; None while it answers. reason: why it does not answer.
        away: begin and end of its last absence. recent: the last changes, to see which of them a front end lacks.
    """
    found: list[ConsoleFinding] = []
    if stale_since_ms is not None:
        at = moment(stale_since_ms)[11:19]
        text = say("This page shows the state of {time}: {reason}", time=at, reason=reason)
        found.append(ConsoleFinding("bad", text))
    if facts is not None:
        if stale_since_ms is None:
            found += (*_hearing(facts, away), *_empty(facts, tables), *_overdue(facts))
            found += (*_fleet(facts, recent), *_unreachable(facts))
        found += _streams(facts)
        found += _refused(facts)
    found += _routes(tables, sums)
    return found


def find_then(tables: Tables, sums: TopicSums, signs: Signs, at_ms: int) -> list[ConsoleFinding]:
    """The findings of a past instant, from its tables and the signs of life before it, the worst first."""
    found = []
    if tables.brokers and signs.heard_ms is not None and at_ms - signs.heard_ms > DEFAULT_HEARTBEAT_TIMEOUT_MS:
        text = say(
            "No broker was heard since {time}: every front end was away, or Redis was.",
            time=clock(signs.heard_ms, at_ms),
        )
        found.append(ConsoleFinding("bad", text, "/front-ends"))
    return [*found, *_routes(tables, sums)]


def _hearing(facts: Facts, away: tuple[int, int] | None) -> Iterator[ConsoleFinding]:
    now_ms, up_ms = facts.head.now_ms, facts.head.up_since_ms
    told_ms = (one.told_ms for one in facts.fleet.front_ends)  # also of front ends that have no lease any more
    last_ms = max((*(worker.heard_ms or 0 for worker in facts.workers), *told_ms), default=0)
    if last_ms < now_ms - _HEARD_MS:
        since = say("since {time}", time=clock(last_ms, now_ms)) if last_ms else say("now")
        text = say(
            "No front end hears brokers {since}: none renews its lease. Clients get no answer from this registry. No "
            "broker is removed before a front end has been back for the timeout of the broker.",
            since=since,
        )  # fmt: skip
        yield ConsoleFinding("bad", text, "/front-ends")
        return
    first = min((broker.last_update_timestamp for broker in facts.brokers), default=now_ms)
    longest = max((broker.heartbeat_timeout_millis for broker in facts.brokers), default=0)
    if not facts.brokers or now_ms - up_ms > longest or first > up_ms:
        return
    until_ms = min(now_ms + broker.expires_in_ms for broker in facts.brokers)
    seen = away is not None and abs(away[1] - up_ms) < _SWEPT_MS
    end = clock(up_ms, now_ms)
    why = (
        say("because Redis was away {duration}, until {time}", duration=duration(away[1] - away[0]), time=end)
        if away is not None and seen
        else say("because Redis, or every front end, was away until {time}", time=end)
    )
    if until_ms > now_ms:
        text = say("No broker is removed until {time}, {why}.", time=clock(until_ms, now_ms), why=why)
        yield ConsoleFinding("note", text, "/brokers")


def _empty(facts: Facts, tables: Tables) -> Iterator[ConsoleFinding]:
    addresses = sorted({one.address for one in facts.fleet.front_ends if one.state == "ready" and one.address})
    if not tables.brokers and addresses:
        text = say(
            "No broker is registered. Brokers and clients find this registry by namesrvAddr={addresses}",
            addresses=";".join(addresses),
        )
        yield ConsoleFinding("note", text, "/front-ends")


def _fleet(facts: Facts, recent: Iterable[Change]) -> Iterator[ConsoleFinding]:
    now_ms, fleet = facts.head.now_ms, facts.fleet
    old = [(change.seq, change.ms) for change in recent]
    for one in fleet.front_ends:
        views = sorted({worker.facts.view for worker in one.workers if not worker.gone} - {"fresh", ""})
        missing = sum(seq > one.seq and ms < one.told_ms - _BEHIND_MS for seq, ms in old)
        level: Level = "warn"
        if one.state == "gone":
            text = say("The front end {name} is gone since {time}.", name=one.name, time=clock(one.told_ms, now_ms))
        elif one.state == "not ready":
            text = say("The front end {name} is not ready: it answers nobody yet.", name=one.name)
        elif one.state == "draining":
            text = say("The front end {name} is draining: it sends clients away.", name=one.name)
            level = "note"
        elif views:
            text = say(
                "The front end {name} answers with tables that may be old ({views}).", name=one.name,
                views=", ".join(views),
            )  # fmt: skip
        elif missing:
            text = say(
                "The front end {name} is behind: it lacks {changes} of more than {seconds} s ago.", name=one.name,
                changes=counted(missing, "change"), seconds=_BEHIND_MS // 1000,
            )  # fmt: skip
        else:
            continue
        yield ConsoleFinding(level, text, "/front-ends")
    there = [one for one in fleet.sweepers if not one.gone]
    if fleet.sweepers and not there:
        last_ms = max(one.last_sweep_ms for one in fleet.sweepers)
        text = say(
            "No sweeper is there since {time}: brokers that fall silent stay in every route.",
            time=clock(last_ms, now_ms),
        )
        yield ConsoleFinding("bad", text, "/front-ends")


def _unreachable(facts: Facts) -> Iterator[ConsoleFinding]:
    told = {text.partition(", over ")[0]: text for one in facts.fleet.front_ends for worker in one.workers
            if not worker.gone for text in worker.facts.unreachable}  # fmt: skip
    for text in sorted(told.values())[:_UNREACHABLE_MOST]:
        what = f"{text[0].upper()}{text[1:]}"
        if told_of := _REGISTERS.fullmatch(text):
            addr, why, source = told_of.groups()
            what = say(
                "A broker registers as {addr}, {why}, over a connection from {source}", addr=addr, why=say(why),
                source=source,
            )  # fmt: skip
        text = say("{what}: clients will not reach it. Set brokerIP1 in its broker.conf.", what=what)
        yield ConsoleFinding("warn", text, "/brokers")


def _overdue(facts: Facts) -> Iterator[ConsoleFinding]:
    overdue = sorted((one for one in facts.brokers if one.expires_in_ms < 0), key=lambda one: one.expires_in_ms)
    if not overdue:
        return
    worst_ms = -overdue[0].expires_in_ms
    shown = sorted(overdue, key=_process)
    names, linked = some(map(_process, shown)), brokers_named(one.broker_name for one in shown)
    if worst_ms > _SWEPT_MS:
        text = say(
            "Brokers are overdue by up to {duration}, and no sweeper removes them: {names}. Clients are still sent to "
            "them. 'mqregistry sweep' starts a sweeper; front ends have one unless they were started with --no-sweep.",
            duration=duration(worst_ms), names=names,
        )  # fmt: skip
        yield ConsoleFinding("bad", text, "/brokers", names=linked)
    else:
        text = say_number(
            "{number} broker is overdue and about to be removed: {names}.",
            "{number} brokers are overdue and about to be removed: {names}.", len(overdue), names=names,
        )  # fmt: skip
        yield ConsoleFinding("warn", text, "/brokers", names=linked)


def _process(broker: BrokerInfo) -> str:
    return f"{broker.broker_name} {broker.broker_addr}"


def _streams(facts: Facts) -> Iterator[ConsoleFinding]:
    for name, reader in sorted(facts.survey.readers.items()):
        if reader.silent:
            since = clock(reader.seen_ms, facts.head.now_ms)
            text = say(
                "The reader {name} is silent since {time}: the streams keep nothing for it any more.", name=name,
                time=since,
            )  # fmt: skip
            yield ConsoleFinding("warn", text, "/streams")
        for stream, position in sorted(reader.positions.items()):
            if position.state == "lost":
                text = say(
                    "The reader {name} lost entries of {stream} that were trimmed before it had read them.", name=name,
                    stream=stream,
                )  # fmt: skip
                yield ConsoleFinding("bad", text, "/streams")
            elif position.state == "near":
                entries = counted(position.behind, "entry", "entries")
                text = say(
                    "The reader {name} is {entries} behind in {stream}, and about to lose some.", name=name,
                    entries=entries, stream=stream,
                )  # fmt: skip
                yield ConsoleFinding("warn", text, "/streams")


def _refused(facts: Facts) -> Iterator[ConsoleFinding]:
    since_ms = facts.head.now_ms - _RECENT_MS
    recent = [one for one in facts.refused or () if one.last_ms > since_ms and one.mode == Mode.ENFORCE]
    if not recent:
        return
    last = recent[0]
    who = last.kind.user or say("somebody who signed nothing")
    text = say(
        "Requests of {users} were refused within the last hour, the last at {time} of {user} from {address}. "
        "'mqregistry auth observe' says which rule allows them.",
        users=counted(len({one.kind.user for one in recent}), "user"), time=clock(last.last_ms, facts.head.now_ms),
        user=who, address=last.last.source or say("an unknown address"),
    )  # fmt: skip
    yield ConsoleFinding("warn", text, "/users")


def _routes(tables: Tables, sums: TopicSums) -> Iterator[ConsoleFinding]:
    without = sorted(name for name, row in tables.brokers.items() if MASTER_ID not in row.broker_addrs)
    if without:
        text = say_number(
            "{number} broker name has no master, so nobody can write there: {names}.",
            "{number} broker names have no master, so nobody can write there: {names}.", len(without),
            names=some(without),
        )  # fmt: skip
        yield ConsoleFinding("warn", text, "/brokers", names=brokers_named(without))
    if sums.unwritable:
        text = say_number(
            "{number} topic has nowhere to write to.", "{number} topics have nowhere to write to.", sums.unwritable
        )  # fmt: skip
        if sums.without_route:
            text += say(" {number} of them have no route at all.", number=sums.without_route)
        yield ConsoleFinding("warn", text, "/topics?state=unwritable")
