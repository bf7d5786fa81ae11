"""``bench authorization`` measures every kind of sender; ``lookup`` itself asserts which answers are kept."""

from __future__ import annotations

from bench.costs.authorization import SENDERS, measured


async def test_every_sender_is_measured_with_and_without_rules():
    rows = await measured(1)
    assert [row[0] for row in rows] == list(SENDERS)
    assert all(off > 0 and enforced > 0 for _, off, enforced in rows)
