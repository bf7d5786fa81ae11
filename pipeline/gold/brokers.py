"""Works out the state of each broker through time, and the figures of its hours and days. On arrays, without Spark.

It works on one row for each lifetime of an address, not for each queue: those fit into memory where queue data do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..lake.schema import GOLD, MOMENT
from .spans import (  # fmt: skip
    NEVER,
    Flags,
    Ints,
    Periods,
    Spans,
    count_per_period,
    ints,
    levels,
    max_per_period,
    overlaps,
    per_period,
    union,
)

ABSENT: Final = 0
READ_ONLY: Final = 1
WRITABLE: Final = 2
UNKNOWN: Final = 3
STATES: Final = ("absent", "read_only", "writable", "unknown")

EVENTS: Final = {
    "broker_registered": "registrations",
    "broker_expired": "expiries",
    "broker_closed": "closes",
    "broker_unregistered": "unregistrations",
    "broker_reaped": "reaps",
}
_PART: Final = 1_000_000  # brokers times periods that are worked on together: bounds the memory


class BrokerAddresses(NamedTuple):
    """Rows of silver's broker_addr as arrays; broker and cluster are indices into names and clusters, both sorted."""

    names: pa.Array
    clusters: pa.Array
    broker: Ints
    cluster: Ints
    master: Flags
    start: Ints
    end: Ints

    @classmethod
    def of(cls, rows: pa.Table) -> BrokerAddresses:
        """From columns broker_name, broker_id, cluster, from_ms, to_ms (null: holds)."""
        names, clusters = pc.unique(rows["broker_name"]), pc.unique(rows["cluster"])
        names, clusters = names.take(pc.sort_indices(names)), clusters.take(pc.sort_indices(clusters))
        return cls(
            names.cast(pa.string()),
            clusters.cast(pa.string()),
            ints(pc.index_in(rows["broker_name"], names).to_numpy()),
            ints(pc.index_in(rows["cluster"], clusters).to_numpy()),
            pc.equal(rows["broker_id"], 0).to_numpy(),
            rows["from_ms"].to_numpy(),
            rows["to_ms"].fill_null(NEVER).to_numpy(),
        )

    def present(self) -> Spans:
        """When each broker name has an address."""
        return union(self.broker, self.start, self.end)

    def masters(self) -> Spans:
        """When each broker name has an address under id 0."""
        return union(self.broker[self.master], self.start[self.master], self.end[self.master])

    def cluster_at(self, broker: Ints, ms: Ints) -> Ints:
        """The cluster that the broker's row named last, as of these moments; -1: it had none yet."""
        order = np.lexsort((self.start, self.broker))
        at = self.broker[order] * NEVER + self.start[order]
        place = np.searchsorted(at, broker * NEVER + ms, side="right") - 1
        found = (place >= 0) & (self.broker[order][np.maximum(place, 0)] == broker) if len(at) else place >= 0
        return np.where(found, self.cluster[order][np.maximum(place, 0)] if len(at) else -1, -1)


class States(NamedTuple):
    """The state of each broker, by broker and time, without a gap from its first appearance on. end NEVER: still."""

    broker: Ints
    start: Ints
    end: Ints
    state: Ints

    def spans(self, *states: int) -> Spans:
        """The longest stretches in which a broker was one of these."""
        chosen = np.isin(self.state, states)
        return union(self.broker[chosen], self.start[chosen], self.end[chosen])


def states(before: States, since: int, now: int, present: Spans, masters: Spans, queues: Spans) -> States:
    """The states of brokers: those of ``before`` until ``since``, worked out from the tables after that.

    Args:
        before: the states of an earlier refresh; those of ``since`` and later are not used.
        queues: when each has writable queue data, right from ``since`` on.
        now: end of observation: what begins later is not known yet.
    """
    row, start, end = overlaps(masters.key, masters.start, masters.end, queues)
    pieces = [
        (present.key, np.maximum(present.start, since), present.end, np.ones(len(present.key), np.int64)),
        (masters.key[row], np.maximum(start, since), end, np.ones(len(row), np.int64)),
        (before.broker, before.start, np.minimum(before.end, since), before.state),
    ]
    key, begin, finish, level = (np.concatenate(column) for column in zip(*pieces, strict=True))
    finish = np.where(finish > now, NEVER - 1, finish)
    kept = (begin < finish) & (begin <= now)
    key, begin, finish, level = key[kept], begin[kept], finish[kept], level[kept]
    key, begin, level = levels(
        np.concatenate([key, key]), np.concatenate([begin, finish]), np.concatenate([level, -level])
    )
    holds = begin < NEVER - 1
    following = np.append(begin[1:], NEVER)
    same = np.append(key[1:] == key[:-1], False) if len(key) else np.zeros(0, bool)
    finish = np.where(same & (following < NEVER - 1), following, NEVER)
    return States(key[holds], begin[holds], finish[holds], level[holds])


def with_unknown(found: States, holes: Sequence[tuple[int, int]]) -> States:
    """The same, but unknown within holes, from each broker's first appearance on; who was gone for good stays so."""
    for start, end in holes if len(found.broker) else ():
        cut = (found.start < end) & (found.end > start) & ((found.state != ABSENT) | (found.end < NEVER))
        whole, part = (States(*(column[chosen] for column in found)) for chosen in (~cut, cut))
        pieces = [
            whole,
            part._replace(end=np.minimum(part.end, start)),
            States(part.broker, np.maximum(part.start, start), np.minimum(part.end, end), part.state * 0 + UNKNOWN),
            part._replace(start=np.maximum(part.start, end)),
        ]
        found = States(*(np.concatenate(column) for column in zip(*pieces, strict=True)))
        order = np.lexsort((found.start, found.broker))
        kept = order[(found.start < found.end)[order]]
        found = States(*(column[kept] for column in found))
    if holes:  # what was unknown already, and goes on so, is one
        follows = (found.broker[1:] == found.broker[:-1]) & (found.state[1:] == found.state[:-1])
        follows &= found.start[1:] == found.end[:-1]
        first, last = np.append(True, ~follows)[: len(found.start)], np.append(~follows, True)[: len(found.start)]
        found = States(found.broker[first], found.start[first], found.end[last], found.state[first])
    return found


def state_table(found: States, addresses: BrokerAddresses) -> pa.Table:
    """As rows of GOLD["broker_state"]."""
    cluster = addresses.cluster_at(found.broker, found.start)
    return pa.Table.from_arrays(
        [
            addresses.clusters.take(pa.array(cluster, mask=cluster < 0)).fill_null(""),
            addresses.names.take(pa.array(found.broker)),
            pa.array(STATES).take(pa.array(found.state)),
            pa.array(found.start * 1000).cast(MOMENT),
            pa.array(found.end * 1000, mask=found.end >= NEVER).cast(MOMENT),
        ],
        schema=GOLD["broker_state"],
    )


def from_state_table(rows: pa.Table, names: pa.Array) -> States:
    """States from rows of GOLD["broker_state"]; brokers whose name is not among ``names`` are left out."""
    broker = pc.index_in(rows["broker_name"], names)
    rows, broker = rows.filter(broker.is_valid()), ints(broker.drop_null().to_numpy())
    start = rows["valid_from"].cast(pa.int64()).to_numpy() // 1000
    end = pc.floor(pc.divide(rows["valid_to"].cast(pa.int64()), 1000)).cast(pa.int64()).fill_null(NEVER).to_numpy()
    state = ints(pc.index_in(rows["state"], pa.array(STATES)).to_numpy())
    order = np.lexsort((start, broker))
    return States(broker[order], start[order], end[order], state[order])


def observed(found: States, when: Periods) -> Spans:
    """From each broker's first appearance; to the end of the period in which it was last seen, if it did not return."""
    if not len(found.broker):
        return Spans(found.broker, found.start, found.end)
    first = np.flatnonzero(np.diff(found.broker, prepend=-1))
    last = np.append(first[1:], len(found.broker)) - 1
    gone = (found.start[last] // when.step + 1) * when.step
    return Spans(found.broker[first], found.start[first], np.where(found.state[last] == ABSENT, gone, NEVER))


def reaches_back(found: States, since: int) -> int:
    """The first moment whose figures a change after ``since`` alters: of a broker that returned, when it had gone."""
    away = found.spans(ABSENT, UNKNOWN)
    returned = (away.start < since) & (away.end >= since) & (away.end < NEVER)
    return int(min(since, away.start[returned].min(initial=since)))


def recent(found: States, since: int) -> States:
    """Those of ``since`` and later, and before them back to when each broker was last writable."""
    unwritable = found.spans(ABSENT, READ_ONLY)
    reaching = (unwritable.start < since) & (unwritable.end >= since)
    first = np.full(int(found.broker.max(initial=-1)) + 1, since)
    first[unwritable.key[reaching]] = unwritable.start[reaching]
    kept = found.end >= first[found.broker]
    return States(*(column[kept] for column in found))


def figures(
    found: States, addresses: BrokerAddresses, grain: str, when: Periods, flap_ms: int, events: pa.Table
) -> pa.Table:
    """Rows of GOLD["broker"].

    Args:
        events: name, cluster, type, at_ms (an hour's start), n: how many there were.
    """
    extra = pc.unique(events["name"]).filter(pc.invert(pc.is_in(pc.unique(events["name"]), addresses.names)))
    names = pa.concat_arrays([addresses.names, extra.cast(pa.string())])
    per_part = max(1, _PART // max(1, len(names)))
    parts = [_figures(found, addresses, names, grain, part, flap_ms, events) for part in when.parts(per_part)]
    return pa.concat_tables([GOLD["broker"].empty_table(), *parts])


def _figures(
    found: States, addresses: BrokerAddresses, names: pa.Array, grain: str, when: Periods, flap_ms: int,
    events: pa.Table,
) -> pa.Table:  # fmt: skip
    keys = len(names)
    seen = observed(found, when)
    unknown = found.spans(UNKNOWN)
    columns: dict[str, Any] = {
        "observed_ms": per_period(seen, when, keys) - per_period(unknown, when, keys),
        "present_ms": per_period(found.spans(READ_ONLY, WRITABLE), when, keys),
        "writable_ms": per_period(found.spans(WRITABLE), when, keys),
    }
    for spells, begun, ended, prefix, flaps in (
        (found.spans(ABSENT), "outages", "recoveries", "recovery", "flaps"),
        (found.spans(ABSENT, READ_ONLY), "unwritable_spells", "write_recoveries", "write_recovery", "write_flaps"),
    ):
        # nobody saw the beginning or the end of one that touches unknown time
        began = ~np.isin(spells.key * NEVER + spells.start, unknown.key * NEVER + unknown.end)
        whole = began & ~np.isin(spells.key * NEVER + spells.end, unknown.key * NEVER + unknown.start)
        starts, spells = Spans(*(column[began] for column in spells)), Spans(*(column[whole] for column in spells))
        length = spells.end - spells.start
        total = count_per_period(spells.key, spells.end, when, keys, length)
        count = count_per_period(spells.key, spells.end, when, keys)
        short = length < flap_ms
        columns |= {
            begun: count_per_period(starts.key, starts.start, when, keys),
            ended: count,
            f"{prefix}_ms_mean": np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0),
            f"{prefix}_ms_max": max_per_period(spells.key, spells.end, length, when, keys),
            flaps: count_per_period(spells.key[short], spells.end[short], when, keys),
        }
    broker, at = ints(pc.index_in(events["name"], names).to_numpy()), events["at_ms"].to_numpy()
    for kind, column in EVENTS.items():
        chosen = pc.equal(events["type"], kind).to_numpy()
        columns[column] = count_per_period(broker[chosen], at[chosen], when, keys, events["n"].to_numpy()[chosen])

    some = columns["observed_ms"] > 0
    for column in EVENTS.values():
        some = some | (columns[column] > 0)
    row = np.flatnonzero(some.ravel())
    flat: dict[str, Any] = {name: values.ravel()[row] for name, values in columns.items()}
    broker, period = row // when.count, row % when.count
    flat["grain"] = pa.repeat(grain, len(row))
    flat["period_start"] = pa.array(when.start[period] * 1000).cast(MOMENT)
    flat["broker_name"] = names.take(pa.array(broker))
    flat["cluster"] = _clusters(addresses, broker, when.last[period], names, events)
    for share, part in (("availability", "present_ms"), ("write_availability", "writable_ms")):
        none = flat["observed_ms"] == 0
        flat[share] = pa.array(flat[part] / np.where(none, 1, flat["observed_ms"]), mask=none)
    for prefix in ("recovery", "write_recovery"):
        mean, longest = flat[f"{prefix}_ms_mean"], flat[f"{prefix}_ms_max"]
        flat[f"{prefix}_ms_mean"] = pa.array(mean, mask=np.isnan(mean))
        flat[f"{prefix}_ms_max"] = pa.array(longest, mask=longest < 0)
    schema = GOLD["broker"]
    return pa.Table.from_arrays([pa.array(flat[field.name], field.type) for field in schema], schema=schema)


def _clusters(addresses: BrokerAddresses, broker: Ints, ms: Ints, names: pa.Array, events: pa.Table) -> pa.Array:
    """The cluster of the row; of a broker that no instant saw, the one in its events."""
    cluster = addresses.cluster_at(broker, ms)
    of_row = addresses.clusters.take(pa.array(cluster, mask=cluster < 0))
    if not of_row.null_count:
        return of_row
    said = events.group_by("name").aggregate([("cluster", "max")])
    fallback = said["cluster_max"].combine_chunks().take(pc.index_in(names.take(pa.array(broker)), said["name"]))
    return pc.coalesce(of_row, fallback, "")
