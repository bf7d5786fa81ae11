"""The KV configuration in the log: anybody may have put it there, so it is cut."""

from __future__ import annotations

import asyncio
import logging

from mqregistry.server.process.java_log import SHOWN_KEYS, kv_lines, log_kv


def test_values_are_cut_and_keys_are_counted():
    """B3."""
    lines = list(kv_lines({"b": {"long": "x" * 65_536, "short": "value"}, "a": {str(i): "" for i in range(5)}}))
    assert len(lines) == 7
    assert lines[0] == "KV config: namespace a key 0 value "
    assert lines[5] == f"KV config: namespace b key long value {'x' * 200}... (65536 characters)"
    assert lines[6] == "KV config: namespace b key short value value"
    many = {f"ns{i}": {f"k{j:05}": "v" * 60_000 for j in range(800)} for i in range(20)}
    lines = list(kv_lines(many))
    assert len(lines) == SHOWN_KEYS + 1
    assert lines[-1] == "KV config: 15000 more keys (mqregistry kv list shows all)"
    assert sum(map(len, lines)) < SHOWN_KEYS * 300


async def test_others_are_served_between_its_lines(caplog):
    caplog.set_level(logging.INFO)
    turns = 0

    async def other():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await log_kv({"ns": {str(i): "v" for i in range(500)}})
    task.cancel()
    assert turns >= 10
    assert len(caplog.records) == 500
