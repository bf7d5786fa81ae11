"""set_config: the shared run-time configuration."""

from __future__ import annotations

from registry import change as kinds


async def test_set_stores_tells_and_moves_the_revision(bed):
    seq = await bed.kv.set_config({"a": "1", "b": "ü"})
    tables = await bed.tables()
    assert (tables.config, tables.config_rev) == ({"a": "1", "b": "ü"}, 1)
    (event,) = await bed.events()
    assert (event.type, event.config, event.config_rev, event.seq) == (
        kinds.CONFIG_SET, {"a": "1", "b": "ü"}, 1, seq,
    )  # fmt: skip
    assert await bed.replay() == tables.contents()


async def test_set_repeated_tells_nothing(bed):
    first = await bed.kv.set_config({"a": "1"})
    await bed.events()
    assert await bed.kv.set_config({"a": "1"}) == first
    assert (await bed.head()).config_rev == 1
    assert await bed.events() == []


async def test_set_tells_only_what_changed(bed):
    await bed.kv.set_config({"a": "1", "b": "2"})
    await bed.events()
    await bed.kv.set_config({"a": "1", "b": "3"})
    (event,) = await bed.events()
    assert (event.config, event.config_rev) == ({"b": "3"}, 2)


async def test_set_of_nothing_tells_nothing(bed):
    await bed.kv.set_config({})
    assert await bed.events() == []
