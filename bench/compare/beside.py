"""Compares this checkout with others that were measured in the same rounds: a table of ratios."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bench.compare.bars import Figures, shown
from bench.compare.growth import peer_name
from bench.compare.programme import SPREADS
from bench.compare.suites import lag_peer, up_peer
from bench.load.shapes import GROWTH


class Measured(NamedTuple):
    """One line of the table: the compared figure and its records, and whether a higher figure is better."""

    label: str
    ours: str
    theirs: str
    what: str
    name: str
    unit: str
    more_is_better: bool = False


def table(figures: Figures, checkout: str) -> list[list[str]]:
    """Rows of: what, ours, the checkout, ours / checkout, the ratio of each round, and the direction that is better.

    If one of the two lacks a figure, the table has no row for it.
    """
    rows = []
    for line in _lines(checkout):
        ours, theirs = figures.maybe(line.ours, line.what, line.name), figures.maybe(line.theirs, line.what, line.name)
        if ours is None or theirs is None:
            continue
        rounds = (figures.values(peer, line.what, line.name) for peer in (line.ours, line.theirs))
        ratios = [one / other for one, other in zip(*rounds, strict=False) if other]
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}" if len(ratios) > 1 else ""
        ratio = f"**{ours / theirs:.2f}**" if theirs else ""
        better = "more" if line.more_is_better else "less"
        rows.append([line.label, f"{shown(ours)}{line.unit}", f"{shown(theirs)}{line.unit}", ratio, spread, better])
    return rows


def _lines(checkout: str) -> Iterator[Measured]:
    def one(label: str, what: str, name: str, unit: str, more_is_better: bool = False) -> Measured:
        return Measured(label, "ours", checkout, what, name, unit, more_is_better)

    for label, what in (("S1, 16 × 1", "S1 16x1"), ("S2, 64 × 1", "S2 64x1"), ("S2, 64 × 16", "S2 64x16"),
                        ("S2, 2,000 × 1", "S2 2000x1")):  # fmt: skip
        yield one(f"{label}: lookups", what, "rate", "/s", True)
        yield one(f"{label}: p99", what, "p99_ms", " ms")
        yield one(f"{label}: CPU of a lookup", what, "cpu_us", " µs")
    for kind in ("unchanged", "1 changed", "all changed"):
        yield one(f"registrations of 10,000 topics, {kind}", f"register {kind}", "rate", "/s", True)
        yield one(f"registration of 10,000 topics, {kind}: CPU", f"register {kind}", "cpu_ms", " ms")
    for kind in ("none", "unchanged", "changed"):
        yield one(f"S4, 2,000 lookups/s, registrations {kind}: p99", f"S4 {kind}", "p99_ms", " ms")
    yield one("S5, memory after the S2 fill", "S7 fresh", "pss_mb", " MB")
    yield one("S5, every route asked once", "memory", "asked_pss_mb", " MB")
    yield one("S5, after the lookups", "memory", "loaded_pss_mb", " MB")
    yield one("S6, first answer after start, empty", "start", "seconds", " s")
    yield one("S6, first answer, S2 in Redis", "restart", "start_s", " s")
    yield one("S6, every route answered", "restart", "all_routes_s", " s")
    for kind in ("fresh", "warm"):
        yield one(f"S7, {kind} process", f"S7 {kind}", "seconds", " s")
        yield one(f"S7, {kind} process: CPU", f"S7 {kind}", "cpu_s", " s")
    two = "ours, 2 workers", f"{checkout}, 2 workers"
    yield Measured("2 workers, 64 × 1: CPU of a lookup", *two, "S2 64x1", "cpu_us", " µs")
    for count in SPREADS:
        yield Measured(f"2 workers, {count:,} connections: above its share", *two, f"spread {count}", "worst", "")
    for name, label in (("p50_ms", "p50"), ("p999_ms", "p99.9")):
        yield Measured(f"a change's way to every worker: {label}", lag_peer(), lag_peer(checkout), "lag", name, " ms")
    for what, label in (("again", "starting again"), ("full", "with 10,000 topics"), ("stop", "Ctrl-C")):
        yield Measured(f"`mqregistry up`, {label}", up_peer(), up_peer(checkout), what, "seconds", " s")
    for front_ends, shape in ((1, GROWTH[0]), (1, GROWTH[-1]), (4, GROWTH[1])):
        peers = peer_name(front_ends), peer_name(front_ends, checkout)
        for label, name, unit in (
            ("CPU of a lookup", "lookup_us", " µs"), ("CPU of a heartbeat", "heartbeat_ms", " ms"),
            ("CPU of a changed topic", "changed_topic_us", " µs"), ("memory of a topic", "topic_bytes", " B"),
        ):  # fmt: skip
            yield Measured(f"{shape.name}, {front_ends} front ends: {label}", *peers, shape.name, name, unit)
