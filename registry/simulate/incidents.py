"""Plans the incidents of each brokerName, one after the other, drawn from one shuffled list for all brokers.

Every kind of incident is drawn once before any kind is drawn again, so that a short day has all kinds.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from .day import DayShape, Op, OpKind, SimulatedBroker

# A sweeper expires brokers within 50 ms of the deadline; on a busy machine it takes longer.
_SWEEP_MS: Final = 300
_SETTLE_MS: Final = 150
_FOREVER: Final = 2**62


class Timeline:
    """The operations planned for one brokerName, and when each of its processes is up."""

    def __init__(self, broker: SimulatedBroker, touches: bool) -> None:
        self.broker = broker
        self.touches = touches  # whether processes of an acting-master group send 904 as heartbeat, not 322
        self.ops: list[Op] = []
        self._up: dict[int, list[list[int]]] = {member.id: [] for member in broker.members}
        self._stalls: list[tuple[int, int, int]] = []
        self._hung: list[tuple[int, int]] = []

    def start(self, at_ms: int, member: int) -> None:
        """The process starts, or starts again."""
        self.ops.append(Op(at_ms, OpKind.START, self.broker.name, member))
        self._up[member].append([at_ms, _FOREVER])

    def end(self, at_ms: int, member: int, kind: OpKind) -> None:
        """The process ends: it closes its connections, falls silent, or unregisters."""
        self.ops.append(Op(at_ms, kind, self.broker.name, member))
        self._up[member][-1][1] = at_ms

    def hang(self, at_ms: int, member: int, until_ms: int) -> None:
        """The process falls silent; name servers have dropped it by ``until_ms``."""
        self.end(at_ms, member, OpKind.SILENCE)
        self.ops.append(Op(until_ms, OpKind.EXPIRE, self.broker.name, member))
        self._hung.append((at_ms - _SETTLE_MS, until_ms))

    def stall(self, at_ms: int, member: int, until_ms: int) -> None:
        """The process misses heartbeats until ``until_ms``, too few to be dropped."""
        self._stalls.append((member, at_ms, until_ms))

    def add(self, at_ms: int, kind: OpKind, member: int | None = None, server: int | None = None) -> None:
        """Plan an operation that neither starts nor ends a process."""
        self.ops.append(Op(at_ms, kind, self.broker.name, member, server))

    def up(self, member: int) -> list[list[int]]:
        """Each span in which the process sends heartbeats, as [start, end) in milliseconds."""
        return self._up[member]

    def is_up(self, member: int) -> bool:
        """Whether the process is up at the end of what is planned so far."""
        return bool(self._up[member]) and self._up[member][-1][1] == _FOREVER

    def is_stalled(self, member: int, at_ms: float) -> bool:
        """Whether the process misses a heartbeat that is due at ``at_ms``."""
        return any(who == member and begin <= at_ms < end for who, begin, end in self._stalls)

    def is_settled(self, at_ms: int) -> bool:
        """Whether no process of this brokerName hangs at ``at_ms``."""
        return not any(begin <= at_ms <= end for begin, end in self._hung)


# Plans one incident from the shape, the broker's timeline, the start in milliseconds, and a random generator. Returns
# the end in milliseconds, or None if the incident does not fit this broker or the time that is left.
_Incident = Callable[[DayShape, Timeline, int, random.Random], int | None]


def _restart(kind: OpKind, least_ms: int, shortest: float, longest: float, *, master: bool = False) -> _Incident:
    """One process ends by ``kind``, and starts again after a share of the day from ``shortest`` to ``longest``.

    ``least_ms``: it starts again no sooner. ``master``: the process is the master of several.
    """

    def restart(shape: DayShape, line: Timeline, at_ms: int, chance: random.Random) -> int | None:
        if master and len(line.broker.members) == 1:
            return None
        member = 0 if master else chance.choice(line.broker.members).id
        back_ms = at_ms + max(least_ms, round(shape.duration_ms * chance.uniform(shortest, longest)))
        line.end(at_ms, member, kind)
        line.start(back_ms, member)
        return back_ms

    return restart


def _outage(shape: DayShape, line: Timeline, at_ms: int, chance: random.Random) -> int | None:
    """All processes of the brokerName close, one after the other, and start again in another order."""
    members = [member.id for member in line.broker.members]
    chance.shuffle(members)
    for member in members:
        line.end(at_ms, member, OpKind.CLOSE)
        at_ms += chance.randint(20, 120)
    at_ms += max(200, round(shape.duration_ms * chance.uniform(0.01, 0.05)))
    chance.shuffle(members)
    for member in members:
        line.start(at_ms, member)
        at_ms += chance.randint(50, 250)
    return at_ms


def _silence(shape: DayShape, line: Timeline, at_ms: int, chance: random.Random) -> int | None:
    member = chance.choice(line.broker.members)
    gone_ms = at_ms + member.timeout_ms + _SWEEP_MS
    back_ms = gone_ms + chance.randint(0, max(100, shape.duration_ms // 50))
    line.hang(at_ms, member.id, gone_ms)
    line.start(back_ms, member.id)
    return back_ms


def _stall(shape: DayShape, line: Timeline, at_ms: int, chance: random.Random) -> int | None:
    member = chance.choice(line.broker.members)
    beat_ms = shape.touch_ms if member.acting else shape.beat_ms
    most_ms = member.timeout_ms // 2
    if most_ms <= 2 * beat_ms:
        return None
    until_ms = at_ms + round(chance.uniform(2 * beat_ms, most_ms))
    line.stall(at_ms, member.id, until_ms)
    return until_ms


def _unlink(shape: DayShape, line: Timeline, at_ms: int, chance: random.Random) -> int | None:
    if shape.servers < 2:
        return None
    member, server = chance.choice(line.broker.members).id, chance.randrange(shape.servers)
    back_ms = at_ms + chance.randint(100, 2 * shape.beat_ms)
    line.add(at_ms, OpKind.UNLINK, member, server)
    line.add(back_ms, OpKind.RELINK, member, server)
    return back_ms


def _wipe(shape: DayShape, line: Timeline, at_ms: int, chance: random.Random) -> int | None:
    back_ms = at_ms + max(200, round(shape.duration_ms * chance.uniform(0.01, 0.05)))
    line.add(at_ms, OpKind.WIPE)
    line.add(back_ms, OpKind.ADD)
    return back_ms


_flap = _restart(OpKind.CLOSE, 50, 0.002, 0.008)
_leave = _restart(OpKind.LEAVE, 100, 0.01, 0.05)
_lose_master = _restart(OpKind.CLOSE, 200, 0.02, 0.08, master=True)
_CALM: Final[tuple[_Incident, ...]] = (_stall, _unlink, _wipe)
_DECK: Final[tuple[_Incident, ...]] = (_flap, _flap, _lose_master, _outage, _silence, _leave, *_CALM)


def incidents(shape: DayShape, brokers: tuple[SimulatedBroker, ...], chance: random.Random) -> dict[str, Timeline]:
    """BrokerName -> its timeline: the first starts, incidents in turn, and unregistering at the end."""
    lines = {}
    deck: list[_Incident] = []
    # if there are four brokerNames or more, one leaves and does not come back
    leaver = next((broker.name for broker in reversed(brokers) if not broker.calm), "") if len(brokers) >= 4 else ""
    for number, broker in enumerate(brokers):
        line = lines[broker.name] = Timeline(broker, touches=number % 2 == 0)
        at_ms = round(shape.starts_within_ms * chance.random())
        for member in broker.members:
            line.start(at_ms, member.id)
            at_ms += chance.randint(10, 60)
        last_ms = shape.duration_ms - max(2 * _SETTLE_MS, shape.duration_ms // 40)
        if broker.name == leaver:
            last_ms = round(shape.duration_ms * chance.uniform(0.5, 0.8))
        pause_ms = shape.duration_ms * 0.8 / max(0.1, shape.incidents)
        at_ms += shape.beat_ms
        while (at_ms := at_ms + _SETTLE_MS + round(pause_ms * chance.uniform(0.1, 1.0))) < last_ms:
            if not deck:
                deck = list(_DECK)
                chance.shuffle(deck)
            for incident in list(deck):
                if broker.calm and incident not in _CALM:
                    continue
                over_ms = _tried(incident, shape, line, at_ms, last_ms, chance)
                if over_ms is not None:
                    deck.remove(incident)
                    at_ms = over_ms
                    break
            else:
                deck = []
        if broker.name == leaver:
            for member in reversed(broker.members):
                line.end(last_ms, member.id, OpKind.LEAVE)
        if shape.goodbye:
            for member in reversed(broker.members):
                if line.is_up(member.id):
                    line.end(shape.duration_ms, member.id, OpKind.LEAVE)
        for member in broker.members:
            if line.is_up(member.id):
                line.up(member.id)[-1][1] = shape.duration_ms
    return lines


def _tried(
    incident: _Incident, shape: DayShape, line: Timeline, at_ms: int, last_ms: int, chance: random.Random
) -> int | None:
    """Plan an incident, and return its end in milliseconds; None: it does not fit, and nothing was planned."""
    trial = Timeline(line.broker, line.touches)
    for member in line.broker.members:
        trial.start(0, member.id)
    state = chance.getstate()
    over_ms = incident(shape, trial, at_ms, chance)
    if over_ms is None or over_ms >= last_ms:
        return None
    chance.setstate(state)
    return incident(shape, line, at_ms, chance)
