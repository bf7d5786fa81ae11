"""What must be so, by what was acknowledged: plain values, without I/O. The clock is time.monotonic (seconds).

A broker *lives* from an acknowledged registration on, for as long as it is heard in time and does not itself close the
connection that the registry knows it by. What is said about it here is the least that the documents promise
(docs/architecture.md, "Rules" and "How far a view can be trusted"); a situation in which they promise nothing is
not judged.
"""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .timeline import UNNOTICED_S, Timeline, united, within

MARGIN_S = 0.3
"""Of a broker's timeout: what the measuring itself may take."""
FOLLOW_S = 4.0
"""A worker that does not hear the change stream says so after this: a read of 1 s, 1 s of silence, a renewal."""
CLOSE_S = 2.0
"""What a front end had to do for a connection that closed is done after so much undisturbed time."""
GHOST_SLACK_S = 3.5
"""A sweeper is back within milliseconds of a deadline; the rest is for a busy machine."""


@dataclasses.dataclass
class BrokerState:
    """One broker process as the registry must know it.

    life: counts the times at which it may have been removed. beat_sent: when the last acknowledged sign of life was
    sent; repeated: the same of registrations alone. topics: those that it registers as a master, and that nobody else
    touches -> when first acknowledged in this life. ended: (when, how), how one of silent, closed, unregistered.
    closed_at: when it last closed a connection itself; closes: front end -> the same of that one. moved_at: when it
    last took another cluster name. beats: the last acknowledged ones, as (answered, sent); spells: (when, whether it
    lives from then on).
    """

    uid: str
    name: str
    broker_id: int
    addr: str
    cluster: str
    timeout_s: float
    front_ends: tuple[int, ...]
    life: int = 0
    lives: bool = False
    beat_sent: float = 0.0
    repeated: float = 0.0
    registered_at: float = 0.0
    topics: dict[str, float] = dataclasses.field(default_factory=dict)
    ended: tuple[float, str] | None = None
    closed_at: float = 0.0
    closes: dict[int, float] = dataclasses.field(default_factory=dict)
    moved_at: float = -1e9
    beats: deque[tuple[float, float]] = dataclasses.field(default_factory=lambda: deque(maxlen=300))
    spells: list[tuple[float, bool]] = dataclasses.field(default_factory=list)

    @property
    def who(self) -> str:
        return f"{self.cluster}|{self.addr}"

    def acknowledged(self, sent: float, answered: float, topics: Iterable[str]) -> None:
        """A registration was answered with 0."""
        if self.ended is not None or sent <= self.closed_at:
            return
        if self._is_late(sent):
            self._ends(sent)
        if not self.lives:
            self.lives, self.life, self.registered_at, self.topics = True, self.life + 1, answered, {}
            self.spells.append((answered, True))
        self.beats.append((answered, sent))
        self.beat_sent = self.repeated = max(self.beat_sent, sent)
        for topic in topics:
            self.topics.setdefault(topic, answered)

    def beaten(self, sent: float, answered: float) -> None:
        """A heartbeat without registration was answered with 0; one that was removed it does not bring back.

        A worker that stood still answers late, and for a broker that was removed meanwhile with 0, too.
        """
        if self._is_late(answered):
            self._ends(sent)
        if self.lives:
            self.beats.append((answered, sent))
            self.beat_sent = max(self.beat_sent, sent)

    def _is_late(self, at: float) -> bool:
        """Whether it may have been removed before a beat that was heard then: none was sent in between."""
        return self.lives and at - self.beat_sent > self.timeout_s - MARGIN_S

    def may_be_gone(self, at: float, front_end: int) -> None:
        """It closed a connection itself: the registry may remove it, until it registers again.

        What this front end has still to do for that connection, its close last of all, may come later.
        """
        self._ends(at)
        self.closed_at = self.closes[front_end] = at

    def end(self, when: float, how: str) -> None:
        """It will not be heard any more."""
        self._ends(when)
        self.ended = when, how

    def _ends(self, at: float) -> None:
        if self.lives:
            self.spells.append((at, False))
        self.lives = False


@dataclasses.dataclass
class Line:
    """One connection of a client, which leads to one worker process: what it has once seen there."""

    front_end: int
    known: dict[tuple[str, str], int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Loss:
    """Redis lost everything that it learned between ``since`` and ``until``.

    known_by: the front ends that are sure to know everything that was acknowledged before it; None: work it out.
    """

    since: float
    until: float
    known_by: frozenset[int] | None = None


class Model:
    """All brokers, and what answers may look like.

    merge_s: how long known routes are served after a loss (brokerChannelExpiredTimeMs).
    """

    def __init__(self, timeline: Timeline, front_ends: int, *, merge_s: float) -> None:
        self.timeline = timeline
        self.everybody = tuple(range(front_ends))
        self.merge_s = merge_s
        self.brokers: dict[str, BrokerState] = {}
        self.losses: list[Loss] = []
        self.started: dict[int, float] = {}  # front end -> when one of its workers was last started
        self.by_addr: dict[tuple[str, str], BrokerState] = {}

    def add(self, broker: BrokerState) -> BrokerState:
        before = self.by_addr.get((broker.name, broker.addr))
        if before is not None:  # another process on the same address: the closes of the first may still come
            broker.closes, broker.closed_at = dict(before.closes), before.closed_at
        self.brokers[broker.uid] = broker
        self.by_addr[(broker.name, broker.addr)] = broker
        return broker

    def lives(self, broker: BrokerState, at: float) -> bool:
        """Whether every table must have it at this moment."""
        return broker.lives and self._heard(broker, at, self._last_kept(broker, math.inf), broker.repeated)

    def lived(self, broker: BrokerState, at: float) -> bool:
        """The same of a moment that has passed."""
        lives = [lives for when, lives in broker.spells if when < at]
        sent = [sent for answered, sent in broker.beats if answered < at]
        return bool(lives and lives[-1] and sent) and self._heard(broker, at, self._last_kept(broker, at), max(sent))

    def _last_kept(self, broker: BrokerState, before: float) -> float:
        """When the last sign of life before this was sent that Redis knows: it may have lost later ones.

        It keeps the deadline of the last one that it has, and so the broker may go as much earlier as was lost, up to
        the 3 s that count as no gap. If it has none, it cannot remove the broker either.
        """
        sent = [sent for answered, sent in broker.beats if answered < before]
        if not self.losses or not sent:
            return max(sent, default=broker.beat_sent)
        lost = [(loss.since - 0.5, loss.until + 0.5) for loss in self.losses]
        kept = [
            sent for answered, sent in broker.beats
            if answered < before and not any(since < answered <= until for since, until in lost)
        ]  # fmt: skip
        return max(max(kept, default=max(sent)), max(sent) - UNNOTICED_S)

    def _heard(self, broker: BrokerState, at: float, beat_sent: float, repeated: float) -> bool:
        if any(repeated < loss.until + 0.5 and at > loss.until + self.merge_s - 0.5 for loss in self.losses):
            return False  # it had the time to register again, and did not, or was not heard
        if any(not self._is_done(closed, front_end, at) for front_end, closed in broker.closes.items()):
            return False
        excused_s = self.timeline.excused_s(self.everybody, beat_sent, at)
        return at - beat_sent - excused_s < broker.timeout_s - MARGIN_S

    def _is_done(self, closed: float, front_end: int, at: float) -> bool:
        """Whether a front end must have done everything for a connection that closed, and told Redis."""
        if closed > at:
            return True
        places = ("redis", "master", "peers", "load", f"fe{front_end}")
        busy = within(united(window for place in places for window in self.timeline.windows(place, 0.5)), closed, at)
        return at - closed - busy > CLOSE_S

    def living(self, at: float) -> list[BrokerState]:
        return [broker for broker in self.brokers.values() if self.lives(broker, at)]

    # losses

    def lost(self, since: float, until: float, known_by: frozenset[int] | None = None) -> None:
        self.losses.append(Loss(since, until, known_by))

    def lost_since(self, broker: BrokerState, topic_at: float) -> float | None:
        """When Redis last lost something that was acknowledged at ``topic_at``, unless the broker repeated it since."""
        last = None
        for loss in self.losses:
            if loss.since - 0.5 < topic_at <= loss.until + 0.5:
                last = loss.until
        if last is not None and broker.repeated > last + 0.5:
            return None
        return last

    # answers

    def judge_route(
        self, line: Line, topic: str, asked: float, answered: float, code: int, rows: Mapping[str, Any]
    ) -> list[str]:
        """What is wrong with an answer to 105, as sentences. rows: brokerName -> row of the route (code 0)."""
        wrong: list[str] = []
        for broker in self.brokers.values():
            since = broker.topics.get(topic)
            if since is None:
                continue
            row = rows.get(broker.name)
            there = row is not None and broker.addr in row.broker_addrs.values()
            key = (topic, broker.uid)
            if there:
                if broker.lives:
                    line.known[key] = broker.life
                continue
            if not self.lives(broker, answered) or since > asked:
                continue
            what = f"code {code}" if code else f"a route without {broker.addr}"
            if self._is_contested(broker):
                continue
            if line.known.get(key) == broker.life:
                wrong.append(
                    f"fe{line.front_end} answered {topic} with {what} over a connection that had the route of "
                    f"{broker.uid}; {self.says(broker, answered)}"
                )
            elif code in (0, 17) and self._must_be_known(line.front_end, broker, since, asked):
                wrong.append(
                    f"fe{line.front_end} answered {topic} with {what}, {answered - since:.2f} s after it was "
                    f"acknowledged to {broker.uid}; {self.says(broker, answered)}"
                )
        if code == 0:
            wrong += self.judge_rows(line.front_end, rows, answered)
        return wrong

    def judge_rows(self, front_end: int, rows: Mapping[str, Any], at: float) -> list[str]:
        """Addresses that should have gone."""
        wrong = []
        for name, row in rows.items():
            for addr in row.broker_addrs.values():
                broker = self.by_addr.get((name, addr))
                if broker is None:
                    wrong.append(f"fe{front_end} gave {addr} of {name}, which nobody registered")
                elif broker.ended is not None and (late := self.overdue_s(broker, at)) > 0:
                    wrong.append(
                        f"fe{front_end} still gave {broker.uid} ({addr}), {broker.ended[1]} for "
                        f"{at - broker.ended[0]:.1f} s, {late:.1f} s beyond its bound"
                    )
        return wrong

    def overdue_s(self, broker: BrokerState, at: float) -> float:
        """For how long a broker that ended should have been gone; only undisturbed time counts."""
        if broker.ended is None:
            return 0.0
        when, how = broker.ended
        bound_s = broker.timeout_s
        told = self.timeline.is_quiet(
            when - 15, min(at, when + CLOSE_S)
        )  # a front end that ends then may take it along
        at_once = how == "unregistered" or (how == "closed" and told)
        end_is_kept = not any(loss.since - 0.5 < when <= loss.until + 0.5 for loss in self.losses)
        if at_once and end_is_kept and when > broker.moved_at + broker.timeout_s:
            bound_s = 0.0
        quiet_s = self.timeline.quiet_s(when, at, pad_s=1.5)
        return quiet_s - bound_s - GHOST_SLACK_S

    def _is_contested(self, broker: BrokerState) -> bool:
        """Whether it took its id from another address, and a loss gave that the id back until it registers again.

        A row has one address for each id; the one that Redis holds counts (registry/tables/lost_changes.py).
        """
        lost = self.lost_since(broker, broker.registered_at) is not None
        return lost and any(
            (other.name, other.broker_id) == (broker.name, broker.broker_id) and other is not broker
            for other in self.brokers.values()
        )

    def _must_be_known(self, front_end: int, broker: BrokerState, since: float, asked: float) -> bool:
        """Whether this front end must have heard of it: it had the time, or else it must know that it does not."""
        if asked < since + FOLLOW_S:
            return False
        # woken, healed or started just now: what it has read is as old as the disturbance
        places = ("redis", "master", "clock", "peers", "load", f"fe{front_end}")
        if not self.timeline.is_quiet(asked - FOLLOW_S, asked, places):
            return False
        return self.lost_since(broker, since) is None

    def says(self, broker: BrokerState, at: float) -> str:
        return (
            f"its life {broker.life} began {at - broker.registered_at:.2f} s ago, its last acknowledged beat was sent "
            f"{at - broker.beat_sent:.2f} s ago, its timeout is {broker.timeout_s:g} s"
        )


@dataclasses.dataclass
class KvKey:
    """One key: the value acknowledged last (None: deleted or never put), and those that may have been taken."""

    acked: str | None = None
    maybe: set[str | None] = dataclasses.field(default_factory=set)
    sent_at: float = 0.0
    acked_at: float = 0.0

    def allows(self, value: str | None) -> bool:
        return value == self.acked or value in self.maybe

    def is_of(self, loss: Loss) -> bool:
        """Whether what was acknowledged last may be among what Redis lost."""
        return self.sent_at <= loss.until + 0.5 and self.acked_at > loss.since - 0.5


class KvModel:
    """What one writer writes, one after the other: the KV configuration of one namespace of keys, or settings.

    what: one of them, in findings.
    """

    def __init__(self, now: Callable[[], float], what: str = "KV key") -> None:
        self.now, self.what = now, what
        self.keys: dict[str, KvKey] = {}

    def written(self, key: str, value: str | None, *, acked: bool, sent: float | None = None) -> None:
        """A write was answered with 0; or not, and may have been, or still be, done."""
        state = self.keys.setdefault(key, KvKey())
        if acked:
            state.acked, state.acked_at = value, self.now()
            state.sent_at = state.acked_at if sent is None else sent
        else:
            state.maybe.add(value)

    def judge(self, table: Mapping[str, str], losses: Iterable[Loss] = ()) -> list[str]:
        """What is wrong with all keys as they are now, after everything has settled.

        Args:
            losses: those that no front end can make good; what was acknowledged during one is not judged.
        """
        losses = list(losses)
        wrong = []
        for key, state in sorted(self.keys.items()):
            found = table.get(key)
            if not state.allows(found) and not any(state.is_of(loss) for loss in losses):
                others = f" (or one of {sorted(map(str, state.maybe))}, not acknowledged)" if state.maybe else ""
                wrong.append(f"{self.what} {key} is {found}, acknowledged was {state.acked}{others}")
        wrong += [f"{self.what} {key} is {table[key]}, nobody wrote it" for key in sorted(set(table) - set(self.keys))]
        return wrong

    def settle(self, table: Mapping[str, str]) -> None:
        """Everything has settled: what is there now is what counts."""
        for key in set(self.keys) | set(table):
            self.keys[key] = KvKey(table.get(key), set(), self.now())
