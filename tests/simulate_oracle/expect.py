"""Computes what a plan does to the tables: a small model of a 5.x name server that applies it in order.

Source of the behaviour: RouteInfoManager (rocketmq 5.x), as far as plans need it. Only a master's topics count, or
those of the lowest id while acting masters are enabled, then without write permission. An unchanged table restores
what is absent and changes nothing else. A brokerName that loses its last master while acting masters are enabled
becomes read-only. The last address removes the brokerName and its topics.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from mqregistry.simulate.day import DayPlan, Member, Op, OpKind, SimulatedBroker

Queues = tuple[int, int, int]
"""Read queues, write queues, permission."""

_WRITE: Final = 2

REGISTERED: Final = "broker_registered"
_GONE_BY: Final = {OpKind.CLOSE: "broker_closed", OpKind.EXPIRE: "broker_expired", OpKind.LEAVE: "broker_unregistered"}


class Effect(msgspec.Struct, frozen=True):
    """One change of the tables.

    brokers: the brokerNames it concerns. addrs: of the row afterwards, {} when the name is gone, None when the row
    stays as it was. topics: new queue data of the one brokerName.
    """

    op: Op
    type: str
    brokers: tuple[str, ...]
    who: str | None = None
    addrs: dict[int, str] | None = None
    topics: dict[str, Queues] = {}
    topic: str | None = None


class _Table:
    """The table that the processes of one brokerName would register."""

    def __init__(self, broker: SimulatedBroker) -> None:
        self.topics: dict[str, Queues] = dict(broker.topics)
        self.counter = 1


class Expected:
    """Applies operations in order; returns what each does to the tables, and counts heartbeats."""

    def __init__(self, plan: DayPlan) -> None:
        self._members = plan.members()
        self._servers = plan.shape.servers
        self._tables = {broker.name: _Table(broker) for broker in plan.brokers}
        self._rows: dict[str, dict[int, str]] = {}
        self._queues: dict[str, dict[str, Queues]] = {}
        self._known: dict[tuple[str, int], int] = {}
        self._unlinked: Counter[tuple[str, int]] = Counter()
        self.beats: Counter[str] = Counter()
        """who -> entries on the heartbeat stream."""

    def apply(self, op: Op) -> Effect | None:
        """Apply the next operation; its effect, or None when it changes no table."""
        match op.kind:
            case OpKind.START | OpKind.REGISTER | OpKind.BEAT | OpKind.RELINK:
                return self._register(op, self._member(op))
            case OpKind.ASK | OpKind.TOUCH:
                self._beat(self._member(op))
            case OpKind.CLOSE | OpKind.EXPIRE | OpKind.LEAVE:
                return self._remove(op, self._member(op))
            case OpKind.UNLINK:
                self._unlinked[op.broker, self._member(op).id] += 1
            case OpKind.PUT_TOPIC:
                assert op.queues is not None
                table = self._tables[op.broker]
                table.topics[op.topic] = op.queues
                table.counter += 1
            case OpKind.DROP_TOPIC:
                table = self._tables[op.broker]
                del table.topics[op.topic]
                table.counter += 1
            case OpKind.DELETE_TOPIC:
                return self._delete(op)
            case OpKind.WIPE | OpKind.ADD:
                return self._set_perm(op)
        return None

    def _member(self, op: Op) -> Member:
        assert op.id is not None, op
        return self._members[op.broker, op.id]

    def _beat(self, member: Member) -> None:
        self.beats[member.who] += self._servers - self._unlinked[member.broker, member.id]

    def _register(self, op: Op, member: Member) -> Effect | None:
        name, process = member.broker, (member.broker, member.id)
        if op.kind is OpKind.RELINK:
            self._unlinked[process] -= 1
            self.beats[member.who] += 1
        else:
            self._beat(member)
        table, row = self._tables[name], self._rows.setdefault(name, {})
        is_new = member.id not in row
        row[member.id] = member.addr
        is_changed = is_new or self._known.get(process) != table.counter
        topics = self._changed_topics(member, table.topics, is_changed=is_changed)
        self._queues.setdefault(name, {}).update(topics)
        changed = is_new or bool(topics) or self._known.get(process) != table.counter
        self._known[process] = table.counter
        if not changed:
            return None
        return Effect(op, REGISTERED, (name,), member.who, dict(row) if is_new else None, topics)

    def _changed_topics(self, member: Member, topics: dict[str, Queues], *, is_changed: bool) -> dict[str, Queues]:
        present = self._queues.get(member.broker, {})
        acts = member.acting and member.id != 0 and member.id == min(self._rows[member.broker])
        if member.id != 0 and not acts:
            return {}
        said = {topic: _without_write(data) if acts else data for topic, data in topics.items()}
        return {
            topic: data
            for topic, data in said.items()
            if (topic not in present or is_changed) and present.get(topic) != data
        }

    def _remove(self, op: Op, member: Member) -> Effect:
        name, row = member.broker, self._rows[member.broker]
        del row[member.id]
        self._known.pop((name, member.id), None)
        self._unlinked.pop((name, member.id), None)
        topics: dict[str, Queues] = {}
        if not row:
            del self._rows[name]
            self._queues.pop(name, None)
        elif member.acting and min(row) > 0:
            present = self._queues.get(name, {})
            topics = {topic: _without_write(data) for topic, data in present.items() if data[2] & _WRITE}
            present.update(topics)
        return Effect(op, _GONE_BY[op.kind], (name,), member.who, dict(row), topics)

    def _delete(self, op: Op) -> Effect | None:
        names = tuple(name for name, queues in sorted(self._queues.items()) if op.topic in queues)
        for name in names:
            del self._queues[name][op.topic]
        return Effect(op, "topic_deleted", names, topic=op.topic) if names else None

    def _set_perm(self, op: Op) -> Effect | None:
        present = self._queues.get(op.broker, {})
        said = {
            topic: _without_write(data) if op.kind is OpKind.WIPE else (*data[:2], 6) for topic, data in present.items()
        }
        topics = {topic: data for topic, data in said.items() if data != present[topic]}
        present.update(topics)
        return Effect(op, "write_perm_set", (op.broker,), topics=topics) if topics else None


def _without_write(data: Queues) -> Queues:
    return (data[0], data[1], data[2] & ~_WRITE)
