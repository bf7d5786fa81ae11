"""Splits the operations of events among the buckets that hold silver's cells.

Bucket 0, the *head*, holds everything but queue data and mappings: brokers, clusters, live info, KV, settings. The
others share the topics among them: one topic is in one bucket, whose number is a one and then the first bits of the
topic's hash; as many bits as the rows need (``split.py``). The removal of a brokerName goes to all of them. Within a
bucket operations are applied in the order of ``seq``; no bucket needs to know of another.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final
from zlib import crc32

import msgspec

from mqregistry.events.cells import (
    DropBroker,
    DropQueueData,
    Operation,
    SetMappings,
    SetQueueData,
    SetRev,
    operations,
)
from mqregistry.events.changes import TYPES, decode_change
from mqregistry.model import QueueData

HEAD: Final = 0
LEAST_BITS: Final = 4
MOST_BITS: Final = 12

# What goes to a bucket has a number for the type of its event.
SNAPSHOT: Final = "snapshot"
KINDS: Final = (*sorted(TYPES), SNAPSHOT)
_NUMBER: Final = {kind: number for number, kind in enumerate(KINDS)}

# Parts of one snapshot share their seq: the order is that of seq, then of part.
_PART_BITS: Final = 20

# One event's operations on their way to a bucket: bucket, order (see order_of), ms (the moment that counts), payload.
Parcel = tuple[int, int, int, bytes]

# What of an operation each bucket has to do.
_Shares = Iterable[tuple[int, Operation]]


class Payload(msgspec.Struct, array_like=True, gc=False):
    """What one event does to the cells of one bucket; of the kind SNAPSHOT and empty: a snapshot follows.

    by: who caused it, as JSON.
    """

    kind: int
    operations: list[Operation] = []
    by: str | None = None


SNAPSHOT_BEGINS: Final = msgspec.msgpack.encode(Payload(_NUMBER[SNAPSHOT]))


def order_of(seq: int, part: int) -> int:
    """One number that rises with seq and, within it, with part."""
    return seq << _PART_BITS | part


def seq_of(order: int) -> int:
    """The seq of which :func:`order_of` made an order."""
    return order >> _PART_BITS


def bucket_of(topic: str, bits: int) -> int:
    """The number of the bucket that holds a topic's cells, where there are ``2 ** bits`` of them."""
    return 1 << bits | crc32(topic.encode()) >> (32 - bits)


def buckets_of(topic: str) -> set[int]:
    """The same, however many there are or have been; below ``2 ** LEAST_BITS`` are those of before there were bits."""
    return {bucket_of(topic, bits) for bits in range(LEAST_BITS, MOST_BITS + 1)} | set(range(1 << LEAST_BITS))


def parts(buckets: Iterable[int]) -> list[frozenset[int] | None]:
    """Parts of a table that has these buckets: rows of one topic are in the same one. None: all of it is one."""
    found: dict[int, set[int]] = {}
    for bucket in buckets:
        found.setdefault(bucket >> max(0, bucket.bit_length() - 1 - LEAST_BITS), set()).add(bucket)
    if min(found, default=HEAD) < 1 << LEAST_BITS:
        return [None]
    return [frozenset(part) for _, part in sorted(found.items())]


class Moments:
    """As of when changes count that say another moment, because the clock was set back.

    Args:
        spans: (first seq, last seq, ms), rising.
    """

    def __init__(self, spans: Sequence[tuple[int, int, int]]) -> None:
        self._firsts = [span[0] for span in spans]
        self._spans = spans

    def of(self, seq: int, ms: int) -> int:
        """The moment at which a change counts as made whose event says ``ms``."""
        at = bisect_right(self._firsts, seq) - 1
        return self._spans[at][2] if at >= 0 and seq <= self._spans[at][1] else ms


class BucketRouter:
    """Turns entries of the change stream into parcels for the buckets.

    Args:
        moments: of changes that count as of another moment than they say.
        bits: how many buckets there are.
        snapshot: the events are those of a snapshot: each bucket gets SNAPSHOT_BEGINS first.
    """

    def __init__(self, moments: Moments, bits: int, *, snapshot: bool = False) -> None:
        self._moments = moments
        self._bits = bits
        self._every = [HEAD, *range(1 << bits, 2 << bits)]
        self._snapshot = snapshot
        self._encode: Callable[[object], bytes] = msgspec.msgpack.Encoder().encode
        self._buckets: dict[str, int] = {}

    def __call__(self, seq: int, ms: int, part: int, e: bytes) -> Iterator[Parcel]:
        """The parcels of one entry.

        Raises:
            UnknownChange: a type that this release neither knows nor may pass over.
        """
        change = decode_change(e)
        order, ms = order_of(seq, part), self._moments.of(seq, ms)
        if self._snapshot and part == 1:
            for bucket in self._every:
                yield bucket, order_of(seq, 0), ms, SNAPSHOT_BEGINS
        found: dict[int, list[Operation]] = {}
        for operation in operations(change):
            split = _SPLIT.get(type(operation), BucketRouter._to_head)
            for bucket, share in split(self, operation):
                found.setdefault(bucket, []).append(share)
        by = change.by.encoded().decode() if change.by is not None and found else None
        for bucket, shares in found.items():
            yield bucket, order, ms, self._encode(Payload(_NUMBER[change.type], shares, by))

    def _to_head(self, operation: Operation) -> _Shares:
        return ((HEAD, operation),)

    def _to_all(self, operation: Operation) -> _Shares:
        return [(bucket, operation) for bucket in self._every]

    def _to_none(self, operation: SetRev) -> _Shares:
        """A revision is no part of the past."""
        return ()

    def _split_queue_data(self, operation: SetQueueData) -> _Shares:
        if len(operation.queue_datas) == 1:
            (topic,) = operation.queue_datas
            return ((self._bucket(topic), operation),)
        by_bucket: dict[int, dict[str, QueueData]] = {}
        for topic, data in operation.queue_datas.items():
            by_bucket.setdefault(self._bucket(topic), {})[topic] = data
        return [(bucket, SetQueueData(operation.broker_name, share)) for bucket, share in by_bucket.items()]

    def _split_topics(self, operation: DropQueueData) -> _Shares:
        return [(self._bucket(topic), DropQueueData(operation.broker_name, [topic])) for topic in operation.topics]

    def _split_mappings(self, operation: SetMappings) -> _Shares:
        return [(self._bucket(mapping[0]), SetMappings([mapping])) for mapping in operation.mappings]

    def _bucket(self, topic: str) -> int:
        bucket = self._buckets.get(topic)
        if bucket is None:
            if len(self._buckets) > 500_000:
                self._buckets.clear()
            bucket = self._buckets[topic] = bucket_of(topic, self._bits)
        return bucket


_SPLIT: Final[dict[type, Callable[[BucketRouter, Any], _Shares]]] = {
    SetQueueData: BucketRouter._split_queue_data,
    DropQueueData: BucketRouter._split_topics,
    SetMappings: BucketRouter._split_mappings,
    DropBroker: BucketRouter._to_all,
    SetRev: BucketRouter._to_none,
}
"""How operations are shared among the buckets; the others go to the head."""
