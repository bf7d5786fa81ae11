"""The profile's steps still are the steps that the server takes."""

from __future__ import annotations

from bench.costs.hotpath import TOPIC, Bin, connection, filled_view, measured
from bench.load.plan import lookup
from bench.load.shapes import VERSION
from mqregistry.protocol.command import decode_command


async def test_every_step_runs_and_takes_time():
    tables = await measured(1, topics=50)
    assert [len(steps) for steps in tables] == [7, 10, 7]
    assert all(ns > 0 for steps in tables for _, ns in steps)


async def test_the_whole_is_an_answered_lookup(monkeypatch):
    written = []
    monkeypatch.setattr(Bin, "write", lambda self, data: written.append(data))
    one = connection(filled_view())
    for _ in range(3):
        one.data_received(lookup(TOPIC, VERSION))
    assert one._context.counters.lookups_known == 1
    assert len(written) == 3
    kept = one._context.answers.kept_route(TOPIC, quoted_keys=True)
    for answer in map(decode_command, (data[4:] for data in written)):
        assert (answer.code, answer.body) == (0, kept.body)
