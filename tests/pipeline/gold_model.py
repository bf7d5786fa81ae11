"""Gold's figures in plain Python, looked at millisecond by millisecond: what the real ones must equal."""

from __future__ import annotations

import math
from collections import Counter
from statistics import fmean

FOREVER = 10**15


def holds(row, ms):
    return row["from_ms"] <= ms and (row["to_ms"] is None or ms < row["to_ms"])


def state_at(addrs, queues, broker, ms):
    """absent, read_only or writable."""
    here = [row for row in addrs if row["broker_name"] == broker and holds(row, ms)]
    if not here:
        return "absent"
    queue = any(
        row["broker_name"] == broker and row["perm"] & 2 and row["write_queue_nums"] > 0 and holds(row, ms)
        for row in queues
    )
    return "writable" if queue and any(row["broker_id"] == 0 for row in here) else "read_only"


def spells(states, wanted):
    """Maximal stretches ``(start, end)`` of the states wanted; end None: still at the end of the list.

    states: ``(ms, state)``, one for each millisecond.
    """
    found, start = [], None
    for ms, state in states:
        if state in wanted and start is None:
            start = ms
        elif state not in wanted and start is not None:
            found.append((start, ms))
            start = None
    return [*found, *([(start, None)] if start is not None else [])]


def broker_rows(addrs, queues, events, *, first, now, step, flap_ms):
    """(period start, broker) -> figures. events: (ms, broker, column)."""
    rows = {}
    for broker in {row["broker_name"] for row in addrs} | {event[1] for event in events}:
        # now itself was seen, though no time has passed since
        states = [(ms, state_at(addrs, queues, broker, ms)) for ms in range(first, now + 1)]
        while states and states[0][1] == "absent":
            del states[0]
        absent = spells(states, {"absent"})
        unwritable = spells(states, {"absent", "read_only"})
        last = max((ms for ms, state in states if state != "absent"), default=None)
        until = now
        if absent and absent[-1][1] is None:
            until = min(now, (absent[-1][0] // step + 1) * step)
        for start in range(first // step * step, now, step):
            end = start + step
            within = [(ms, state) for ms, state in states if start <= ms < min(end, until)]
            row = {
                "observed_ms": len(within),
                "present_ms": sum(state != "absent" for _, state in within),
                "writable_ms": sum(state == "writable" for _, state in within),
            }
            for of, names in (
                (absent, ("outages", "recoveries", "recovery_ms", "flaps")),
                (unwritable, ("unwritable_spells", "write_recoveries", "write_recovery_ms", "write_flaps")),
            ):
                lengths = [e - s for s, e in of if e is not None and start <= e < end and e <= now]
                row[names[0]] = sum(start <= s < end for s, _ in of)
                row[names[1]] = len(lengths)
                row[f"{names[2]}_mean"] = fmean(lengths) if lengths else None
                row[f"{names[2]}_max"] = max(lengths, default=None)
                row[names[3]] = sum(length < flap_ms for length in lengths)
            counted = Counter(
                column for ms, name, column in events if name == broker and start <= ms < end and ms <= now
            )
            for column in ("registrations", "expiries", "closes", "unregistrations", "reaps"):
                row[column] = counted[column]
            if row["observed_ms"] or counted:
                observed = row["observed_ms"]
                row["availability"] = row["present_ms"] / observed if observed else None
                row["write_availability"] = row["writable_ms"] / observed if observed else None
                rows[start, broker] = row
        assert last is None or last <= now
    return rows


def skew(queues):
    """(population standard deviation / mean, greatest / mean)."""
    if not sum(queues):
        return None, None
    mean = sum(queues) / len(queues)
    return math.sqrt(sum((n - mean) ** 2 for n in queues) / len(queues)) / mean, max(queues) / mean


def topic_rows(addrs, queues, *, first, now, step, seen=()):
    """(period start, topic) -> figures."""
    rows = {}
    for topic in {row["topic"] for row in queues}:
        ours = [row for row in queues if row["topic"] == topic]
        for start in range(first // step * step, now, step):
            end, last = start + step, min(start + step - 1, now)
            span = range(max(first, start), min(end, now))
            masters = {
                ms: {row["broker_name"] for row in addrs if row["broker_id"] == 0 and holds(row, ms)} for ms in span
            }
            row = {
                "routable_ms": sum(any(holds(row, ms) for row in ours) for ms in span),
                "writable_ms": sum(
                    any(
                        row["perm"] & 2 and row["write_queue_nums"] > 0 and row["broker_name"] in masters[ms]
                        and holds(row, ms)
                        for row in ours
                    )
                    for ms in span
                ),
                "changes": sum(
                    start <= row["from_ms"] <= last and row["from_seq"] not in seen for row in ours
                ) + sum(row["to_ms"] is not None and start <= row["to_ms"] <= last for row in ours),
            }  # fmt: skip
            nums = [row["write_queue_nums"] for row in ours if holds(row, last)]
            row["brokers"], row["write_queues"] = len(nums), sum(nums)
            row["queue_cv"], row["queue_max_mean"] = skew(nums)
            if row["routable_ms"] or row["changes"]:
                rows[start, topic] = row
    return rows


def cluster_rows(addrs, queues, *, first, now, step, seen=()):
    """(period start, cluster) -> figures."""
    rows = {}

    def cluster_of(broker, ms):
        named = [row for row in addrs if row["broker_name"] == broker and row["from_ms"] <= ms]
        return max(named, key=lambda row: row["from_ms"])["cluster"] if named else None

    for cluster in {row["cluster"] for row in addrs}:
        for start in range(first // step * step, now, step):
            last = min(start + step - 1, now)
            members = {row["broker_name"] for row in addrs if cluster_of(row["broker_name"], last) == cluster}
            there = {b for b in members if any(r["broker_name"] == b and holds(r, last) for r in addrs)}
            held = [row for row in queues if row["broker_name"] in there and holds(row, last)]
            nums = [sum(row["write_queue_nums"] for row in held if row["broker_name"] == b) for b in sorted(there)]
            changes = sum(
                (start <= row["from_ms"] <= last and row["from_seq"] not in seen)
                + (row["to_ms"] is not None and start <= row["to_ms"] <= last)
                for row in queues
                if row["broker_name"] in members
            )
            cv, max_mean = skew(nums)
            if there or changes:
                rows[start, cluster] = {
                    "brokers": len(there), "topics": len({row["topic"] for row in held}), "write_queues": sum(nums),
                    "changes": changes, "queue_cv": cv, "queue_max_mean": max_mean,
                }  # fmt: skip
    return rows


def nearest_rank(values, percent):
    values = sorted(values)
    return values[max(1, math.ceil(percent * len(values) / 100)) - 1] if values else None


def beat_rows(entries, *, first, now, step, look_back_ms=3_600_000, day=86_400_000):
    """(period start, who) -> figures. entries: in order of their ids, no repetitions."""
    rows = {}
    entries = [entry for entry in entries if entry["ms"] <= now]
    for who in {entry["who"] for entry in entries}:
        ours = [entry for entry in entries if entry["who"] == who]
        previous, timed = {}, []
        for entry in ours:
            if entry["kind"] == "refused":
                continue
            if entry["interval_ms"] < 0:
                previous.clear()
            before = previous.get(entry["front_end"])
            interval = None
            if before is not None and entry["ms"] - before <= look_back_ms:
                interval = max(0, entry["ms"] - before)
            elif entry["interval_ms"] > look_back_ms:
                interval = entry["interval_ms"]
            previous[entry["front_end"]] = entry["ms"]
            timed.append((entry["ms"], entry["front_end"], interval))
        for start in range(first // step * step, now, step):
            this_day = start // day
            of_day = Counter(name for ms, name, _ in timed if ms // day == this_day)
            usual = min(of_day, key=lambda name: (-of_day[name], name), default=None)
            expected = nearest_rank(
                [i for ms, name, i in timed if i is not None and name == usual and ms // day == this_day], 50
            )
            here = [entry for entry in ours if start <= entry["ms"] < start + step]
            if not here:
                continue
            intervals = [i for ms, name, i in timed if i is not None and name == usual and start <= ms < start + step]
            named = [entry["broker_name"] for entry in here if entry["broker_name"]]
            rows[start, who] = {
                "broker_name": named[-1] if named else None,
                "beats": sum(entry["kind"] != "refused" for entry in here),
                "refused": sum(entry["kind"] == "refused" for entry in here),
                "front_ends": len({entry["front_end"] for entry in here if entry["kind"] != "refused"}),
                "interval_ms_p50": nearest_rank(intervals, 50),
                "interval_ms_p99": nearest_rank(intervals, 99),
                "interval_ms_max": max(intervals, default=None),
                "expected_ms": expected,
                "missed_beats": sum(max(0, round(i / expected) - 1) for i in intervals) if expected else 0,
            }
    return rows
