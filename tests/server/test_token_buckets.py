"""Token buckets against a plain model that computes with fractions, and how many of them are kept."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from mqregistry.server.limits.token_buckets import SECOND_NS, TokenBuckets

STEPS_NS = st.one_of(st.integers(0, 1000), st.integers(0, 3 * SECOND_NS))


class Model:
    """A bucket as one describes it: it holds at most so many tokens, and so many come each nanosecond."""

    def __init__(self, rate: int, burst_s: int) -> None:
        self.filling = Fraction(1, SECOND_NS // rate)
        self.most = self.filling * burst_s * SECOND_NS
        self.tokens, self.at_ns = self.most, 0

    def take(self, now_ns: int) -> bool:
        self.tokens = min(self.most, self.tokens + self.filling * (now_ns - self.at_ns))
        self.at_ns = now_ns
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


def take(buckets: TokenBuckets, key: str, now_ns: int) -> bool:
    if not buckets.has_token(key, now_ns):
        return False
    buckets.take(key, now_ns)
    return True


@given(
    rate=st.one_of(st.integers(1, 5), st.integers(1, 1_000_000)),
    burst_s=st.integers(1, 4),
    steps=st.lists(st.tuples(st.sampled_from("abc"), STEPS_NS, st.integers(1, 12)), max_size=40),
)
def test_buckets_give_what_the_model_gives(rate, burst_s, steps):
    buckets, models = TokenBuckets(rate, burst_s, most=3), {key: Model(rate, burst_s) for key in "abc"}
    now_ns = 0
    for key, step_ns, times in steps:
        now_ns += step_ns
        for _ in range(times):
            assert take(buckets, key, now_ns) == models[key].take(now_ns)


def test_a_burst_is_granted_at_once_and_then_the_rate():
    buckets = TokenBuckets(10, 60)
    start_ns = 5 * SECOND_NS
    assert [take(buckets, "", start_ns) for _ in range(601)] == [True] * 600 + [False]
    later_ns = start_ns + SECOND_NS
    assert [take(buckets, "", later_ns) for _ in range(11)] == [True] * 10 + [False]


def test_a_change_of_the_rate_keeps_what_was_taken():
    buckets = TokenBuckets(1, 10)
    for _ in range(10):
        buckets.take("", 0)
    assert not buckets.has_token("", 0)
    buckets.change(1000, 10)
    assert not buckets.has_token("", 0)
    assert buckets.has_token("", SECOND_NS // 1000)


def test_the_buckets_used_last_are_kept_and_no_more():
    buckets = TokenBuckets(1, 1, most=3)
    for key in ("a", "b", "c", "a", "d"):  # "b" was used longest ago
        buckets.take(key, 0)
    assert len(buckets) == 3
    assert [key for key in "abcd" if not buckets.has_token(key, 0)] == ["a", "c", "d"]


def test_many_addresses_take_no_more_memory_than_are_kept():
    buckets = TokenBuckets(1000, 60, most=8192)
    tracemalloc.start()
    try:
        for number in range(60_000):
            buckets.take(f"10.0.{number >> 8}.{number & 255}", number)
        held_bytes, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(buckets) == 8192
    assert held_bytes < 3 << 20
    assert peak_bytes < 4 << 20
