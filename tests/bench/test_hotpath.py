"""The profile's steps still are the steps that the server takes."""

from __future__ import annotations

from bench.hotpath import TOPIC, Bin, connection, filled_view, measured
from bench.load.plan import lookup
from bench.shapes import VERSION
from registry.protocol.command import decode_command


async def test_every_step_runs_and_takes_time():
    lookups, registrations = await measured(1)
    steps = dict(lookups) | dict(registrations)
    assert len(steps) == len(lookups) + len(registrations) == 15
    assert all(ns > 0 for ns in steps.values())


async def test_the_whole_is_an_answered_lookup(monkeypatch):
    written = []
    monkeypatch.setattr(Bin, "write", lambda self, data: written.append(data))
    view = filled_view()
    connection(view).data_received(lookup(TOPIC, VERSION))
    (answer,) = map(decode_command, (data[4:] for data in written))
    assert (answer.code, answer.body) == (0, view.route_body(TOPIC, quoted_keys=True))
