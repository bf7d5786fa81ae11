"""Makes the plan of a day from its shape and the seed in it; the same shape gives the same plan on each machine."""

from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Iterator
from typing import Final

from .day import DayPlan, DayShape, Member, Op, OpKind, SimulatedBroker
from .incidents import Timeline, incidents

_ZIPF: Final = 1.1
_MISSING_SHARE: Final = 0.05
_KINDS: Final = ("pair", "acting", "single")
_QUEUES: Final = (1, 4, 4, 8, 8, 16)


def make_plan(shape: DayShape) -> DayPlan:
    """The operations of a day of this shape, in order of time."""
    brokers, topics = _fleet(shape)
    timelines = incidents(shape, brokers, _random(shape, "incidents"))
    topic_ops = list(_topic_ops(shape, brokers, topics, timelines, _random(shape, "topics")))
    timed = [op for timeline in timelines.values() for op in timeline.ops] + topic_ops
    for timeline in timelines.values():
        timed += _beats(shape, timeline, _random(shape, f"beats {timeline.broker.name}"))
    added = sorted({op.topic for op in topic_ops if op.kind is OpKind.PUT_TOPIC and op.topic not in topics})
    deleted = {op.topic for op in topic_ops if op.kind is OpKind.DELETE_TOPIC}
    chosen = _random(shape, "quiet")
    quiet = tuple(topic for topic in [*topics, *added] if chosen.random() < 0.15)
    never = tuple(f"sim-missing-{number}" for number in range(6))
    timed += _lookups(shape, [topic for topic in [*topics, *added] if topic not in quiet], never)
    timed.sort(key=lambda op: op.at_ms)  # a stable sort: operations planned for one moment keep their order
    always = sorted({topic for broker in brokers if broker.calm for topic in broker.topics} - deleted)
    return DayPlan(shape, brokers, tuple(always), never, quiet, tuple(_with_registrations(brokers, timed)))


def _random(shape: DayShape, purpose: str) -> random.Random:
    """A random generator for one part of the plan alone: more clients, for example, do not change the incidents."""
    return random.Random(f"{shape.seed} {purpose}")


def _fleet(shape: DayShape) -> tuple[tuple[SimulatedBroker, ...], list[str]]:
    """The brokers with their topics, and the names of the topics that can change."""
    chance = _random(shape, "fleet")
    tables: list[dict[str, tuple[int, int, int]]] = []
    frames = []
    for number in range(shape.brokers):
        cluster_number, place = number % shape.clusters, number // shape.clusters
        cluster = f"sim-{chr(ord('a') + cluster_number % 26)}{cluster_number // 26 or ''}"
        name = f"{cluster}-broker-{place:02d}"
        kind = _KINDS[(place + cluster_number) % len(_KINDS)]
        size = {"single": 1, "pair": 2, "acting": 2 + chance.randrange(2)}[kind]
        acting = kind == "acting"
        timeout_ms = shape.acting_timeout_ms if acting else shape.timeout_ms
        members = tuple(
            Member(name, member, cluster, _addr(number, member), acting, timeout_ms) for member in range(size)
        )
        frames.append((name, cluster, kind, place == 0, members))
        # As at a Java broker, one topic has the broker's name and one the cluster's. So a broker has at least two:
        # name servers refuse the first registration of a single topic.
        tables.append({name: (1, 1, 7), cluster: (16, 16, 7)})
    topics = [f"sim-topic-{number:03d}" for number in range(shape.topics)]
    for number, topic in enumerate(topics):
        places = list(range(number % shape.clusters, shape.brokers, shape.clusters))
        for place in chance.sample(places, chance.randint(1, len(places))):
            tables[place][topic] = _queues(chance)
    brokers = tuple(
        SimulatedBroker(name, cluster, kind, calm, members, table)
        for (name, cluster, kind, calm, members), table in zip(frames, tables, strict=True)
    )
    return brokers, topics


def _addr(broker: int, member: int) -> str:
    """An address on this machine, so that a name server that connects to this broker reaches no other machine."""
    return f"127.{10 + broker // 250}.{broker % 250}.{member + 1}:10911"


def _queues(chance: random.Random) -> tuple[int, int, int]:
    queues = chance.choice(_QUEUES)
    return queues, max(0, queues - chance.choice((0, 0, 0, 1, queues // 2))), 4 if chance.random() < 0.05 else 6


def _topic_ops(
    shape: DayShape,
    brokers: tuple[SimulatedBroker, ...],
    topics: list[str],
    timelines: dict[str, Timeline],
    chance: random.Random,
) -> Iterator[Op]:
    """Add, change and delete topics; never at a broker that hangs, since nobody knows exactly when it expires."""
    held = {broker.name: dict(broker.topics) for broker in brokers}
    changeable = list(topics)
    what = ["add", "change"] * max(1, len(topics) // 12) + ["delete"] * max(1, len(topics) // 16)
    chance.shuffle(what)
    if not topics:
        return
    first_ms, last_ms = shape.duration_ms // 8, shape.duration_ms * 7 // 8
    for number, each in enumerate(what):
        at_ms = first_ms + round((last_ms - first_ms) * (number + chance.random()) / len(what))
        settled = [broker.name for broker in brokers if timelines[broker.name].is_settled(at_ms)]
        if each == "add":
            cluster = chance.choice(sorted({broker.cluster for broker in brokers}))
            places = [broker.name for broker in brokers if broker.cluster == cluster and broker.name in settled]
            topic = f"sim-new-{number:03d}"
            for name in sorted(chance.sample(places, chance.randint(min(1, len(places)), len(places)))):
                held[name][topic] = _queues(chance)
                yield Op(at_ms, OpKind.PUT_TOPIC, name, topic=topic, queues=held[name][topic])
            continue
        movable = [
            topic
            for topic in changeable
            if (places := [name for name in held if topic in held[name]]) and set(places) <= set(settled)
        ]
        if not movable:
            continue
        topic = chance.choice(movable)
        places = sorted(name for name in held if topic in held[name])
        if each == "change":
            name = chance.choice(places)
            old = held[name][topic]
            held[name][topic] = (old[0] + 4, old[1] + 4, 6)
            yield Op(at_ms, OpKind.PUT_TOPIC, name, topic=topic, queues=held[name][topic])
        else:
            changeable.remove(topic)
            for name in places:
                del held[name][topic]
                yield Op(at_ms, OpKind.DROP_TOPIC, name, topic=topic)
            yield Op(at_ms, OpKind.DELETE_TOPIC, topic=topic, brokers=tuple(places))


def _beats(shape: DayShape, timeline: Timeline, chance: random.Random) -> Iterator[Op]:
    """The heartbeats of each process while it is up, with a jitter of 10 %."""
    for member in timeline.broker.members:
        touch = OpKind.TOUCH if timeline.touches else OpKind.ASK
        every = [(OpKind.BEAT, shape.beat_ms), *([(touch, shape.touch_ms)] if member.acting else [])]
        for kind, period_ms in every:
            for up_ms, down_ms in timeline.up(member.id):
                at_ms = up_ms + period_ms * chance.uniform(0.5, 1.0)
                while at_ms < down_ms:
                    if not timeline.is_stalled(member.id, at_ms):
                        yield Op(int(at_ms), kind, member.broker, member.id)
                    at_ms += period_ms * chance.uniform(0.9, 1.0)


def _lookups(shape: DayShape, names: list[str], never: tuple[str, ...]) -> Iterator[Op]:
    """Lookups of topics by Zipf's law; one in twenty is of a topic that does not exist."""
    if not shape.clients or not shape.lookups_per_s:
        return
    chance = _random(shape, "lookups")
    chance.shuffle(names)
    weights = [
        list(itertools.accumulate(1 / rank**_ZIPF for rank in range(1, len(pool) + 1))) for pool in (names, never)
    ]
    at_ms = float(shape.started_ms)
    while (at_ms := at_ms + chance.expovariate(shape.lookups_per_s / 1000)) < shape.duration_ms:
        client = chance.randrange(shape.clients)
        missing = not names or chance.random() < _MISSING_SHARE
        pool, weight = (never, weights[1]) if missing else (names, weights[0])
        topic = pool[bisect.bisect(weight, chance.random() * weight[-1])]
        yield Op(int(at_ms), OpKind.LOOKUP, topic=topic, client=client)


def _with_registrations(brokers: tuple[SimulatedBroker, ...], ops: list[Op]) -> Iterator[Op]:
    """Add after each change of a table a registration of each process that is up, the master first."""
    members = {broker.name: broker.members for broker in brokers}
    up: set[tuple[str, int]] = set()
    for op in ops:
        yield op
        if op.id is not None:
            if op.kind is OpKind.START:
                up.add((op.broker, op.id))
            elif op.kind in (OpKind.CLOSE, OpKind.SILENCE, OpKind.LEAVE):
                up.discard((op.broker, op.id))
        elif op.kind in (OpKind.PUT_TOPIC, OpKind.DROP_TOPIC):
            for member in members[op.broker]:
                if (op.broker, member.id) in up:
                    yield Op(op.at_ms, OpKind.REGISTER, op.broker, member.id)
