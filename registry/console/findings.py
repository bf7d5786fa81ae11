"""Is anything wrong? In words: what, since when, until when and why. Pure: tables and facts in, sentences out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

from ..auth.policy import Mode
from ..events.changes import Change
from ..model import DEFAULT_HEARTBEAT_TIMEOUT_MS, MASTER_ID, BrokerRow
from ..operators.words import counted, duration, moment, some
from ..store.operator_reads import BrokerInfo
from ..tables.tables import Tables
from ..tables.writable import is_unwritable
from .facts import Facts
from .links import Named, brokers_named
from .recent.signs import Signs

Level = Literal["bad", "warn", "note"]
LEVEL_NAMES: Final[dict[Level, str]] = {"bad": "Wrong", "warn": "Look", "note": "Note"}
"""What pages call a level."""

_HEARD_MS: Final = 5_000
_SWEPT_MS: Final = 10_000
_BEHIND_MS: Final = 3_000
_UNREACHABLE_MOST: Final = 10
_RECENT_MS: Final = 3_600_000


class ConsoleFinding(NamedTuple):
    """One sentence or two.

    names: which in it have a page. page: where there is more, as a path with its query. dismiss: the departure that it
    tells of, which an operator can take off the page.
    """

    level: Level
    text: str
    page: str = ""
    dismiss: str = ""
    names: tuple[Named, ...] = ()


class TopicSums(NamedTuple):
    """Counted over all topics.

    unwritable: topics other than RocketMQ's own for which a producer finds no queue. without_route: those of them
    whose broker names are all gone.
    """

    topics: int
    unwritable: int
    without_route: int


def sum_topics(tables: Tables) -> TopicSums:
    """Go through all topics once: 40,000 take some 20 ms, so callers keep it."""
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
    """Everything but what happened to brokers that somebody should look at.

    Args:
        stale_since_ms: when Redis last answered, None while it does. reason: why it does not. away: from when to when
            it last did not. recent: the last changes, to see which of them a front end lacks.
    """
    found: list[ConsoleFinding] = []
    if stale_since_ms is not None:
        at = moment(stale_since_ms)[11:19]
        found.append(ConsoleFinding("bad", f"What is shown here is of {at}: {reason}"))
    if facts is not None:
        found += _hearing(facts, away) if stale_since_ms is None else ()
        found += _empty(facts, tables) if stale_since_ms is None else ()
        found += _overdue(facts) if stale_since_ms is None else ()
        found += _fleet(facts, recent) if stale_since_ms is None else ()
        found += _unreachable(facts) if stale_since_ms is None else ()
        found += _streams(facts)
        found += _refused(facts)
    found += _routes(tables, sums)
    return found


def worst_first(findings: Iterable[ConsoleFinding]) -> list[ConsoleFinding]:
    """The same, sorted by their level."""
    order = {"bad": 0, "warn": 1, "note": 2}
    return sorted(findings, key=lambda finding: order[finding.level])


def find_then(tables: Tables, sums: TopicSums, signs: Signs, at_ms: int) -> list[ConsoleFinding]:
    """Everything that somebody should have looked at, as far as the tables of an instant and the signs of life before
    it tell, the worst first.
    """
    found = []
    if tables.brokers and signs.heard_ms is not None and at_ms - signs.heard_ms > DEFAULT_HEARTBEAT_TIMEOUT_MS:
        text = f"No broker was heard since {clock(signs.heard_ms, at_ms)}: every front end was away, or Redis was."
        found.append(ConsoleFinding("bad", text, "/front-ends"))
    return [*found, *_routes(tables, sums)]


def _hearing(facts: Facts, away: tuple[int, int] | None) -> Iterator[ConsoleFinding]:
    now_ms, up_ms = facts.head.now_ms, facts.head.up_since_ms
    told_ms = (one.told_ms for one in facts.fleet.front_ends)  # also of leases that are gone by now
    last_ms = max((*(worker.heard_ms or 0 for worker in facts.workers), *told_ms), default=0)
    if last_ms < now_ms - _HEARD_MS:
        since = f"since {clock(last_ms, now_ms)}" if last_ms else "now"
        yield ConsoleFinding(
            "bad",
            f"No front end hears brokers {since}: none renews its lease. Clients get no answer from this registry; no "
            "broker is removed until a front end was back for as long as brokers may be silent.",
            "/front-ends",
        )
        return
    first = min((broker.last_update_timestamp for broker in facts.brokers), default=now_ms)
    longest = max((broker.heartbeat_timeout_millis for broker in facts.brokers), default=0)
    if not facts.brokers or now_ms - up_ms > longest or first > up_ms:
        return
    until_ms = min(now_ms + broker.expires_in_ms for broker in facts.brokers)
    seen = away is not None and abs(away[1] - up_ms) < _SWEPT_MS
    why = (
        f"because Redis was away {duration(away[1] - away[0])}, until {clock(up_ms, now_ms)}"
        if away is not None and seen
        else f"because Redis, or every front end, was away until {clock(up_ms, now_ms)}"
    )
    if until_ms > now_ms:
        yield ConsoleFinding("note", f"Nobody is removed until {clock(until_ms, now_ms)}, {why}.", "/brokers")


def _empty(facts: Facts, tables: Tables) -> Iterator[ConsoleFinding]:
    addresses = sorted({one.address for one in facts.fleet.front_ends if one.state == "ready" and one.address})
    if not tables.brokers and addresses:
        text = f"No broker is registered. Brokers and clients find this registry by namesrvAddr={';'.join(addresses)}"
        yield ConsoleFinding("note", text, "/front-ends")


def _fleet(facts: Facts, recent: Iterable[Change]) -> Iterator[ConsoleFinding]:
    now_ms, fleet = facts.head.now_ms, facts.fleet
    old = [(change.seq, change.ms) for change in recent]
    for one in fleet.front_ends:
        views = sorted({worker.facts.view for worker in one.workers if not worker.gone} - {"fresh", ""})
        missing = sum(seq > one.seq and ms < one.told_ms - _BEHIND_MS for seq, ms in old)
        if one.state == "gone":
            yield ConsoleFinding(
                "warn", f"The front end {one.name} is gone since {clock(one.told_ms, now_ms)}.", "/front-ends"
            )
        elif one.state == "not ready":
            yield ConsoleFinding(
                "warn", f"The front end {one.name} is not ready: it answers nobody yet.", "/front-ends"
            )
        elif one.state == "draining":
            yield ConsoleFinding("note", f"The front end {one.name} is draining: it sends clients away.", "/front-ends")
        elif views:
            text = f"The front end {one.name} answers with tables that may be old ({', '.join(views)})."
            yield ConsoleFinding("warn", text, "/front-ends")
        elif missing:
            text = f"The front end {one.name} is behind: it lacks {counted(missing, 'change')} of more than "
            yield ConsoleFinding("warn", f"{text}{_BEHIND_MS // 1000} s ago.", "/front-ends")
    there = [one for one in fleet.sweepers if not one.gone]
    if fleet.sweepers and not there:
        last_ms = max(one.last_sweep_ms for one in fleet.sweepers)
        text = f"No sweeper is there since {clock(last_ms, now_ms)}: brokers that fall silent stay in every route."
        yield ConsoleFinding("bad", text, "/front-ends")


def _unreachable(facts: Facts) -> Iterator[ConsoleFinding]:
    told = {text.partition(", over ")[0]: text for one in facts.fleet.front_ends for worker in one.workers
            if not worker.gone for text in worker.facts.unreachable}  # fmt: skip
    for text in sorted(told.values())[:_UNREACHABLE_MOST]:
        yield ConsoleFinding(
            "warn",
            f"{text[0].upper()}{text[1:]}: clients will not reach it. Set brokerIP1 in its broker.conf.",
            "/brokers",
        )


def _overdue(facts: Facts) -> Iterator[ConsoleFinding]:
    overdue = sorted((one for one in facts.brokers if one.expires_in_ms < 0), key=lambda one: one.expires_in_ms)
    if not overdue:
        return
    worst_ms = -overdue[0].expires_in_ms
    shown = sorted(overdue, key=_process)
    names, linked = some(map(_process, shown)), brokers_named(one.broker_name for one in shown)
    if worst_ms > _SWEPT_MS:
        yield ConsoleFinding(
            "bad",
            f"No sweeper removes brokers that are overdue, for {duration(worst_ms)}: {names}. Clients are still sent "
            "to them. 'mqregistry sweep' is one; front ends have one unless they were started with --no-sweep.",
            "/brokers",
            names=linked,
        )
    else:
        what = "broker is" if len(overdue) == 1 else "brokers are"
        text = f"{len(overdue)} {what} overdue and about to be removed: {names}."
        yield ConsoleFinding("warn", text, "/brokers", names=linked)


def _process(broker: BrokerInfo) -> str:
    return f"{broker.broker_name} {broker.broker_addr}"


def _streams(facts: Facts) -> Iterator[ConsoleFinding]:
    for name, reader in sorted(facts.survey.readers.items()):
        if reader.silent:
            since = clock(reader.seen_ms, facts.head.now_ms)
            yield ConsoleFinding(
                "warn",
                f"The reader {name} is silent since {since}: the streams keep nothing for it any more.",
                "/streams",
            )
        for stream, position in sorted(reader.positions.items()):
            if position.state == "lost":
                yield ConsoleFinding(
                    "bad", f"The reader {name} lost entries of {stream} that were trimmed before it had read them.",
                    "/streams",
                )  # fmt: skip
            elif position.state == "near":
                yield ConsoleFinding(
                    "warn",
                    f"The reader {name} is {counted(position.behind, 'entry', 'entries')} behind in {stream}, and "
                    "about to lose some.",
                    "/streams",
                )


def _refused(facts: Facts) -> Iterator[ConsoleFinding]:
    since_ms = facts.head.now_ms - _RECENT_MS
    recent = [one for one in facts.refused or () if one.last_ms > since_ms and one.mode == Mode.ENFORCE]
    if not recent:
        return
    last = recent[0]
    who = last.kind.user or "somebody who signed nothing"
    yield ConsoleFinding(
        "warn",
        f"Requests of {counted(len({one.kind.user for one in recent}), 'user')} were refused within the last hour, the "
        f"last at {clock(last.last_ms, facts.head.now_ms)} of {who} from {last.last.source or 'an unknown address'}. "
        "'mqregistry auth observe' says which rule allows them.",
        "/users",
    )


def _routes(tables: Tables, sums: TopicSums) -> Iterator[ConsoleFinding]:
    without = sorted(name for name, row in tables.brokers.items() if _has_no_master(row))
    if without:
        what = "broker name has" if len(without) == 1 else "broker names have"
        yield ConsoleFinding(
            "warn",
            f"{len(without)} {what} no master, so nobody can write there: {some(without)}.",
            "/brokers",
            names=brokers_named(without),
        )
    if sums.unwritable:
        what = "topic has" if sums.unwritable == 1 else "topics have"
        more = f" {sums.without_route} of them have no route at all." if sums.without_route else ""
        yield ConsoleFinding(
            "warn", f"{sums.unwritable} {what} nowhere to write to.{more}", "/topics?state=unwritable"
        )  # fmt: skip


def _has_no_master(row: BrokerRow) -> bool:
    return MASTER_ID not in row.broker_addrs
