"""From events to operations on cells, each addressed to the bucket that holds its cells.

Bucket 0, the *head*, is told everything but queue data and mappings: brokers, clusters, live info, KV, settings.
Buckets 1..TOPIC_BUCKETS share the topics among them, by a hash of the topic: one topic is in one bucket, and a broker
that goes is told to all of them. Within a bucket operations are applied in the order of ``seq``; no bucket needs to
know of another.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final
from zlib import crc32

import msgspec
from msgspec import UNSET

from registry import change as kinds
from registry.change import Change, Live, Row, decode_change
from registry.errors import RegistryError
from registry.model import QueueData

HEAD: Final = 0
TOPIC_BUCKETS: Final = 8
BUCKETS: Final = 1 + TOPIC_BUCKETS

# Operations carry a number for the type of their event.
SNAPSHOT: Final = "snapshot"
KINDS: Final = (*sorted(kinds.TYPES), SNAPSHOT)
_NUMBER: Final = {kind: number for number, kind in enumerate(KINDS)}

# Parts of one snapshot share their seq: what orders operations is seq, then part.
_PART_BITS: Final = 20

ROW_SAME: Final = 0
ROW_GONE: Final = 1
ROW_SET: Final = 2


class LakeError(RegistryError):
    """The lake lacks what is asked of it, or what it holds contradicts itself; the message says what to do."""


class HeadOp(msgspec.Struct, array_like=True, gc=False):
    """What an event says of everything but queue data and mappings."""

    kind: int
    broker_name: str = ""
    row_state: int = ROW_SAME
    row: Row | None = None
    who: str | None = None
    cluster: str | None = None
    addr: str | None = None
    broker_id: int | None = None
    live: Live | None = None
    filter_servers: list[str] | None = None
    kv_namespace: str | None = None
    key: str | None = None
    value: str | None = None
    config: dict[str, str] | None = None


class TopicOp(msgspec.Struct, array_like=True, gc=False):
    """What an event says of the topics of one bucket.

    gone: a brokerName that lost all its queue data. sets: topic, brokerName, read, write, perm, flag. drops: topic,
    brokerName. mappings: topic, brokerName, JSON text.
    """

    kind: int
    gone: str | None = None
    sets: list[tuple[str, str, int, int, int, int]] = []
    drops: list[tuple[str, str]] = []
    mappings: list[tuple[str, str, str]] = []


# One operation on its way to its bucket: bucket, order (see order_of), ms (the moment it counts as of), payload.
Op = tuple[int, int, int, bytes]


def order_of(seq: int, part: int) -> int:
    """One number that rises with seq and, within it, with part."""
    return seq << _PART_BITS | part


def seq_of(order: int) -> int:
    """The seq in an order."""
    return order >> _PART_BITS


def bucket_of(topic: str) -> int:
    """Where a topic's cells are."""
    return 1 + crc32(topic.encode()) % TOPIC_BUCKETS


class Floors:
    """Moments never run backwards: in each of these spans of seq a moment is at least so late.

    Args:
        spans: (first seq, last seq, ms), rising.
    """

    def __init__(self, spans: Sequence[tuple[int, int, int]]) -> None:
        self._firsts = [span[0] for span in spans]
        self._spans = spans

    def moment(self, seq: int, ms: int) -> int:
        """When a change counts as done that says ``ms``."""
        if not self._spans:
            return ms
        at = bisect_right(self._firsts, seq) - 1
        if at >= 0 and seq <= self._spans[at][1]:
            return max(ms, self._spans[at][2])
        return ms


class Exploder:
    """Makes operations of events.

    Args:
        floors: what keeps moments from running backwards.
        snapshot: the events are those of a snapshot: each bucket is told so first.
    """

    def __init__(self, floors: Floors, *, snapshot: bool = False) -> None:
        self._floors = floors
        self._snapshot = snapshot
        self._encode: Callable[[object], bytes] = msgspec.msgpack.Encoder().encode
        self._buckets: dict[str, int] = {}

    def __call__(self, seq: int, ms: int, part: int, e: bytes) -> Iterator[Op]:
        """The operations of one entry."""
        change = decode_change(e)
        order, ms = order_of(seq, part), self._floors.moment(seq, ms)
        if self._snapshot and part == 1:
            reset = self._encode(HeadOp(_NUMBER[SNAPSHOT]))
            yield HEAD, order_of(seq, 0), ms, reset
            for bucket in range(1, BUCKETS):
                yield bucket, order_of(seq, 0), ms, self._encode(TopicOp(_NUMBER[SNAPSHOT]))
        kind = _NUMBER.get(change.type)
        if kind is None:
            if not change.ignorable:
                raise kinds.UnknownChange(change)
            return
        head = head_op(kind, change)
        if head is not None:
            yield HEAD, order, ms, self._encode(head)
        for bucket, op in self._topic_ops(kind, change):
            yield bucket, order, ms, self._encode(op)

    def _bucket(self, topic: str) -> int:
        bucket = self._buckets.get(topic)
        if bucket is None:
            if len(self._buckets) > 500_000:
                self._buckets.clear()
            bucket = self._buckets[topic] = bucket_of(topic)
        return bucket

    def _topic_ops(self, kind: int, change: Change) -> Iterator[tuple[int, TopicOp]]:
        """In the order of Tables.apply: a brokerName that goes, else new queue data, dropped topics, mappings."""
        if change.type == kinds.TOPIC_REGISTERED:
            if change.topic is not None:
                cells = [_cell(change.topic, name, data) for name, data in change.queue_datas.items()]
                yield self._bucket(change.topic), TopicOp(kind, sets=cells)
            return
        if change.type == kinds.TOPIC_DELETED:
            if change.topic is not None:
                drops = [(change.topic, name) for name in change.broker_names]
                yield self._bucket(change.topic), TopicOp(kind, drops=drops)
            return
        name = change.broker_name
        if change.row is None:
            for bucket in range(1, BUCKETS):
                yield bucket, TopicOp(kind, name)
            return
        if len(change.topics) == 1 and not change.dropped and not change.mappings:
            for topic, data in change.topics.items():
                yield self._bucket(topic), TopicOp(kind, None, [_cell(topic, name, data)])
            return
        ops: dict[int, TopicOp] = {}
        for topic, data in change.topics.items():
            self._op(ops, kind, topic).sets.append(_cell(topic, name, data))
        for topic in change.dropped:
            self._op(ops, kind, topic).drops.append((topic, name))
        for topic, mapped_name, text in change.mappings:
            self._op(ops, kind, topic).mappings.append((topic, mapped_name, text))
        yield from ops.items()

    def _op(self, ops: dict[int, TopicOp], kind: int, topic: str) -> TopicOp:
        bucket = self._bucket(topic)
        op = ops.get(bucket)
        if op is None:
            op = ops[bucket] = TopicOp(kind)
        return op


def _cell(topic: str, name: str, data: QueueData) -> tuple[str, str, int, int, int, int]:
    return topic, name, data.read_queue_nums, data.write_queue_nums, data.perm, data.topic_sys_flag


def head_op(kind: int, change: Change) -> HeadOp | None:
    """What the head is told of an event; None: nothing."""
    if change.type in (kinds.TOPIC_REGISTERED, kinds.TOPIC_DELETED):
        return None
    if change.type in (kinds.KV_PUT, kinds.KV_DELETED):
        if change.kv_namespace is None:
            return None
        return HeadOp(kind, kv_namespace=change.kv_namespace, key=change.key, value=change.value)
    if change.type == kinds.CONFIG_SET:
        return HeadOp(kind, config=change.config)
    if change.row is UNSET and change.who is None and change.cluster is None:
        return None
    return HeadOp(
        kind,
        change.broker_name,
        ROW_SAME if change.row is UNSET else ROW_GONE if change.row is None else ROW_SET,
        change.row if isinstance(change.row, Row) else None,
        change.who,
        change.cluster,
        change.addr,
        change.broker_id,
        change.live,
        change.filter_servers,
    )
