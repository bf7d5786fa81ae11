"""Lookups counted by topic, within bounds."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from registry.server.lookup_counts import OTHERS, LookupCounts


def test_counts_since_the_last_drain():
    counts = LookupCounts()
    for topic in ("a", "b", "a"):
        counts.found(topic)
    counts.missing("gone")
    assert counts.drain() == ({"a": 2, "b": 1}, {"gone": 1})
    assert counts.drain() == ({}, {})
    counts.found("b")
    assert counts.drain() == ({"b": 1}, {})


def test_a_counter_that_is_kept_counts_over_drains():
    counts = LookupCounts()
    counter = counts.counter("a")
    counter[0] += 3
    assert counts.drain() == ({"a": 3}, {})
    counter[0] += 1
    counts.found("a")
    assert counts.drain() == ({"a": 2}, {})


def test_topics_beyond_the_bound_are_counted_together():
    counts = LookupCounts(max_topics=2)
    for topic in ("a", "b", "c", "d", "a", OTHERS):
        counts.found(topic)
    assert counts.drain() == ({"a": 2, "b": 1, OTHERS: 3}, {})


def test_names_that_nobody_asked_for_give_way_when_no_more_fit():
    counts = LookupCounts(max_topics=2)
    forgotten = []
    counts.on_forget = lambda: forgotten.append(True)
    for topic in ("a", "b", "c"):
        counts.found(topic)
    counts.drain()
    assert not forgotten
    counts.found("a")
    assert counts.drain() == ({"a": 1}, {})
    assert forgotten == [True]
    counts.found("c")
    assert counts.drain() == ({"c": 1}, {})


def test_missing_names_are_bounded_in_number_and_length():
    counts = LookupCounts(max_missing=2)
    for name in ("x", "y" * 256, "z", "w", None, "x"):
        counts.missing(name)
    # OTHERS took the second place
    assert counts.drain() == ({}, {"x": 2, OTHERS: 4})
    counts.missing("w")
    assert counts.drain() == ({}, {"w": 1})


@given(st.lists(st.lists(st.tuples(st.booleans(), st.sampled_from("abcdefgh")))), st.integers(1, 9), st.integers(1, 9))
def test_nothing_is_lost_whatever_the_bounds(periods, max_topics, max_missing):
    counts = LookupCounts(max_topics, max_missing)
    kept = {}
    counts.on_forget = kept.clear
    for period in periods:
        asked = {True: Counter(), False: Counter()}
        for found, name in period:
            asked[found][name] += 1
            if found:
                kept.setdefault(name, counts.counter(name))[0] += 1
            else:
                counts.missing(name)
        for bound, wanted, counted in zip((max_topics, max_missing), (asked[True], asked[False]), counts.drain(),
                                          strict=True):  # fmt: skip
            assert sum(counted.values()) == wanted.total()
            assert len(counted) <= bound + 1
            assert all(n == wanted[name] for name, n in counted.items() if name != OTHERS)
