"""The bars: limits that measured figures must keep. A ratio compares medians of one run.

"best" is the best round of all named servers.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.compare.growth import peer_name
from bench.compare.programme import SPREADS
from bench.compare.suites import LAG, UP
from bench.load.shapes import GROWTH

Records = Sequence[Mapping[str, Any]]

OURS, TWO_WORKERS, LIMIT = "ours", "ours, 2 workers", "C echo server"
MEMORY_LIMIT = f"{LIMIT}, 40,000 answers"
# The most that "flat" and "linear" allow when the tables grow 16 times: CPU caches no longer hold everything then.
FLAT = 1.3
JAVA, JAVAS = "Java 5.5.0", ("Java 4.8.0", "Java 5.3.3", "Java 5.5.0")


class Missing(Exception):
    """A figure that a bar needs was not measured."""


@dataclass(frozen=True)
class Figures:
    """The measured values of a run, by server, step and name."""

    records: Records

    def values(self, peer: str, what: str, name: str) -> list[float]:
        """The value in each round that has one; raises Missing when no round has."""
        found = [
            float(record["values"][what][name])
            for record in self.records
            if record["peer"] == peer and name in record["values"].get(what, {})
        ]
        if not found:
            raise Missing(f"{peer}: {what}")
        return found

    def median(self, peer: str, what: str, name: str) -> float:
        return statistics.median(self.values(peer, what, name))

    def maybe(self, peer: str, what: str, name: str) -> float | None:
        try:
            return self.median(peer, what, name)
        except Missing:
            return None

    def highest(self, peer: str, what: str, name: str) -> float:
        """The highest value of all rounds; raises Missing when none has it."""
        return max(self.values(peer, what, name))

    def best(self, peers: Iterable[str], what: str, name: str, choose: Callable[[Iterable[float]], float]) -> float:
        """The best round of all these servers; raises Missing when none of them was measured."""
        found: list[float] = []
        for peer in peers:
            try:
                found += self.values(peer, what, name)
            except Missing:
                continue
        if not found:
            raise Missing(f"{what} of {', '.join(peers)}")
        return choose(found)

    def pooled(self, peer: str, what: str, name: str, share: float) -> float:
        """A quantile over the samples of all rounds together; raises Missing when there are none."""
        found = [
            float(sample)
            for record in self.records
            if record["peer"] == peer
            for sample in record["values"].get(what, {}).get(name, ())
        ]
        if not found:
            raise Missing(f"{peer}: {what}")
        return sorted(found)[min(len(found) - 1, int(share * len(found)))]

    def wrong(self, peer: str) -> list[str]:
        return [text for record in self.records if record["peer"] == peer for text in record["wrong"]]


@dataclass(frozen=True)
class Bar:
    """A limit for a measured value: `ours` divided by `theirs`, in one unit.

    at_least: whether the value must be at least the limit; else at most.
    """

    what: str
    bar: str
    measure: Callable[[Figures], tuple[float, float]]
    limit: float | None
    at_least: bool
    unit: str = ""

    def judge(self, figures: Figures) -> tuple[str, bool | None]:
        """The measured value as text, and whether the bar held: None if nothing was measured or there is no limit."""
        try:
            ours, theirs = self.measure(figures)
        except Missing as error:
            return f"not measured ({error})", None
        value = ours / theirs if theirs else float("inf")
        held: bool | None = None
        if self.limit is not None:
            held = value >= self.limit if self.at_least else value <= self.limit
        if theirs == 1:
            return f"{ours:,.3g} {self.unit}", held
        return f"{value:.2f} × ({shown(ours)} against {shown(theirs)} {self.unit})", held


def shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _against(what: str, name: str, other: str) -> Callable[[Figures], tuple[float, float]]:
    return lambda f: (f.median(OURS, what, name), f.median(other, what, name))


def _lookups(what: str, other: str = JAVA) -> Callable[[Figures], tuple[float, float]]:
    return _against(what, "rate", other)


def _pipelined(f: Figures) -> tuple[float, float]:
    """Our rate, and the least rate that is enough."""
    what, name = "S2 64x16", "rate"
    return f.median(OURS, what, name), min(8 * f.median(JAVA, what, name), 0.45 * f.median(LIMIT, what, name))


def _below_every_peer(f: Figures) -> tuple[float, float]:
    return f.median(OURS, "memory", "asked_pss_mb"), f.best([*JAVAS, f"{JAVA}, 1g heap"], "memory", "asked_pss_mb", min)


def _fastest_small(f: Figures) -> str:
    """The Java NameServer with the best round of S1."""
    measured = [java for java in JAVAS if f.maybe(java, "S1 16x1", "rate") is not None]
    if not measured:
        raise Missing("S1 of any Java")
    return max(measured, key=lambda java: max(f.values(java, "S1 16x1", "rate")))


BARS = (
    Bar("S2, 64 × 1: lookups/s", "≥ 4 × Java 5.5.0", _lookups("S2 64x1"), 4, True, "/s"),
    Bar("", "≥ 0.75 × the C echo server with 40,000 answers", _lookups("S2 64x1", MEMORY_LIMIT), 0.75, True, "/s"),
    Bar("", "no bar: × the C echo server with one answer", _lookups("S2 64x1", LIMIT), None, True, "/s"),
    Bar("S2, 64 × 16: lookups/s", "≥ 8 × Java 5.5.0, or ≥ 0.45 × the C echo server", _pipelined, 1, True, "/s"),
    Bar("", "no bar: × Java 5.5.0", _lookups("S2 64x16"), None, True, "/s"),
    Bar("S2, 2,000 × 1: lookups/s", "≥ 3 × Java 5.5.0", _lookups("S2 2000x1"), 3, True, "/s"),
    Bar("S2, 2,000 × 1: p99", "≤ 1/3 of Java 5.5.0's", _against("S2 2000x1", "p99_ms", JAVA), 1 / 3, False, "ms"),
    Bar(
        "S1, 16 × 1: lookups/s", "≥ 3 × the best round of any Java",
        lambda f: (f.median(OURS, "S1 16x1", "rate"), f.best(JAVAS, "S1 16x1", "rate", max)), 3, True, "/s",
    ),
    Bar(
        "S1, 16 × 1: p99", "≤ 1/4 of that Java's median p99",
        lambda f: (f.median(OURS, "S1 16x1", "p99_ms"), f.median(_fastest_small(f), "S1 16x1", "p99_ms")),
        1 / 4, False, "ms",
    ),
    Bar("registrations/s of 10,000 topics, unchanged", "≥ 3 × Java 5.5.0", _against("register unchanged", "rate", JAVA),
        3, True, "/s"),
    Bar("the same, 1 changed", "≥ 1 × Java 5.5.0", _against("register 1 changed", "rate", JAVA), 1, True, "/s"),
    Bar("the same, all changed", "≥ 2 × Java 5.5.0", _against("register all changed", "rate", JAVA), 2, True, "/s"),
    Bar("S4, 2,000/s and one changed registration/s: p99", "≤ Java 5.5.0's", _against("S4 changed", "p99_ms", JAVA),
        1, False, "ms"),
    Bar(
        "", "≤ 3 × ours without registrations",
        lambda f: (f.median(OURS, "S4 changed", "p99_ms"), f.median(OURS, "S4 none", "p99_ms")), 3, False, "ms",
    ),
    Bar("S5, front end + Redis + sweeper, all S2 routes asked once", "≤ 300 MB",
        lambda f: (f.median(OURS, "memory", "asked_pss_mb"), 1), 300, False, "MB"),
    Bar("", "below every peer's best round", _below_every_peer, 1, False, "MB"),
    Bar("S6, start to first answer, S2 in Redis", "≤ 1/4 of Java 5.5.0's on empty tables",
        lambda f: (f.median(OURS, "restart", "start_s"), f.median(JAVA, "start", "seconds")), 1 / 4, False, "s"),
    Bar("S7, fresh processes, all on one core", "≤ Java 5.5.0's", _against("S7 fresh", "seconds", JAVA), 1, False, "s"),
    Bar("S7, on a running, warm server", "≤ 1 s",
        lambda f: (f.median(OURS, "S7 warm", "seconds"), 1), 1, False, "s"),
    Bar("a restarted front end answers every S2 route", "≤ 2 s",
        lambda f: (f.median(OURS, "restart", "all_routes_s"), 1), 2, False, "s"),
    Bar("1 → 2 workers on one core: CPU per lookup, 64 × 1", "within 10 %",
        lambda f: (f.median(TWO_WORKERS, "S2 64x1", "cpu_us"), f.median(OURS, "S2 64x1", "cpu_us")), 1.1, False, "µs"),
    *(
        Bar(f"{count:,} connections over 2 workers: the fuller one above its share", "≤ 20 %",
            lambda f, what=f"spread {count}": (f.highest(TWO_WORKERS, what, "worst") * 100, 1), 20, False, "%")
        for count in SPREADS
    ),
    *(
        Bar(f"a change's way to every worker of 2 front ends, under S4: {text}", f"≤ {limit} ms",
            lambda f, share=share: (f.pooled(LAG, "lag", "lags_ms", share), 1), limit, False, "ms")
        for text, share, limit in (("p50", 0.5, 3), ("p99.9", 0.999, 50))
    ),
    *(
        Bar(f"S8, {text}: 160,000 topics, 128 brokers against 10,000, 8", f"{kind}: ≤ {FLAT:g} ×",
            lambda f, name=name: (f.median(peer_name(1), GROWTH[-1].name, name),
                                  f.median(peer_name(1), GROWTH[0].name, name)), FLAT, False, unit)
        for text, kind, name, unit in (
            ("CPU of a lookup", "flat", "lookup_us", "µs"),
            ("CPU of a heartbeat", "flat", "heartbeat_ms", "ms"),
            ("CPU of a changed topic", "linear, so each", "changed_topic_us", "µs"),
            ("memory of a topic", "linear, so each", "topic_bytes", "B"),
        )
    ),
    *(
        Bar(f"S8, {text}: 4 front ends against 1", f"flat: ≤ {FLAT:g} ×",
            lambda f, name=name: (f.median(peer_name(4), GROWTH[1].name, name),
                                  f.median(peer_name(1), GROWTH[1].name, name)), FLAT, False, unit)
        for text, name, unit in (("CPU of a lookup", "lookup_us", "µs"), ("CPU of a heartbeat", "heartbeat_ms", "ms"))
    ),
    *(
        Bar(f"`mqregistry up`, {text}", f"≤ {limit:g} s", lambda f, what=what: (f.median(UP, what, "seconds"), 1),
            limit, False, "s")
        for text, what, limit in (
            ("starting again", "again", 1), ("starting again with 10,000 topics", "full", 1),
            ("from Ctrl-C until everything is gone", "stop", 5),
        )
    ),
)  # fmt: skip
