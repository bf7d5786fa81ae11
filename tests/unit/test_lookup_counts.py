"""Lookups counted by topic, within bounds."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mqregistry.server.view import lookup_counts
from mqregistry.server.view.lookup_counts import OTHERS, LookupCounts
from mqregistry.server.view.route_answers import KeptAnswer


def test_counts_since_the_last_drain():
    counts = LookupCounts()
    for topic in ("a", "b", "a"):
        counts.found(topic)
    counts.found("gone", 5)
    counts.missing("nowhere")
    assert counts.drain() == ({"a": 2, "b": 1, "gone": 5}, {"nowhere": 1})
    assert counts.drain() == ({}, {})
    counts.found("b")
    assert counts.drain() == ({"b": 1}, {})


def test_kept_answers_count_by_themselves():
    quoted, bare = {"a": KeptAnswer(b"1")}, {"a": KeptAnswer(b"2"), "b": KeptAnswer(None), "c": KeptAnswer(b"3")}
    counts = LookupCounts(quoted, bare)
    quoted["a"].asked += 3
    bare["a"].asked += 1
    bare["b"].asked += 7
    counts.found("a")
    assert counts.drain() == ({"a": 5, "b": 7}, {})
    bare["a"].asked += 1
    assert counts.drain() == ({"a": 1}, {})


def test_topics_beyond_the_bound_are_counted_together():
    counts = LookupCounts({"e": KeptAnswer(b"", 4), "a": KeptAnswer(b"", 1)}, max_topics=2)
    for topic in ("a", "b", "c", "d", "a", OTHERS):
        counts.found(topic)
    assert counts.drain() == ({"a": 3, "b": 1, OTHERS: 7}, {})


def test_missing_names_are_bounded_in_number_and_length():
    counts = LookupCounts(max_missing=2)
    for name in ("x", "y" * 256, "z", "w", None, "x"):
        counts.missing(name)
    # OTHERS took the second place
    assert counts.drain() == ({}, {"x": 2, OTHERS: 4})
    counts.missing("w")
    assert counts.drain() == ({}, {"w": 1})


def test_a_sample_of_the_clients_that_asked_in_vain_is_bounded_in_names_and_addresses():
    counts = LookupCounts()
    for host in ("10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.3", "10.0.0.4"):
        counts.missing("order")
        counts.asked_by(host)
    for name in (None, "y" * 256, "", *(f"n{number}" for number in range(2000)), "order"):
        counts.missing(name)
        counts.asked_by("10.0.0.9")
    clients = counts.drain_clients()
    assert clients["order"] == ("10.0.0.1", "10.0.0.2", "10.0.0.3")
    assert clients["n998"] == ("10.0.0.9",)
    assert len(clients) == lookup_counts.MAX_NAMES_WITH_CLIENTS
    assert not clients.keys() & {OTHERS, "y" * 256}
    assert counts.drain_clients() == {}


@given(st.lists(st.lists(st.tuples(st.booleans(), st.sampled_from("abcdefgh")))), st.integers(1, 9), st.integers(1, 9))
def test_nothing_is_lost_whatever_the_bounds(periods, max_topics, max_missing):
    kept = {name: KeptAnswer(b"") for name in "abcd"}
    counts = LookupCounts(kept, max_topics=max_topics, max_missing=max_missing)
    for period in periods:
        asked = {True: Counter(), False: Counter()}
        for found, name in period:
            asked[found][name] += 1
            if not found:
                counts.missing(name)
            elif name in kept:
                kept[name].asked += 1
            else:
                counts.found(name)
        for bound, wanted, counted in zip((max_topics, max_missing), (asked[True], asked[False]), counts.drain(),
                                          strict=True):  # fmt: skip
            assert sum(counted.values()) == wanted.total()
            assert len(counted) <= bound + 1
            assert all(n == wanted[name] for name, n in counted.items() if name != OTHERS)
