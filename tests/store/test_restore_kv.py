"""restore_kv: a front end gives a Redis that lost it the KV configuration back."""

from __future__ import annotations


async def test_restore_gives_back_keys_and_empty_namespaces_and_tells(bed):
    assert await bed.kv.restore(5, {"ns": {"a": "1", "b": ""}, "empty": {}}) == 2
    assert (await bed.contents())["kv"] == {"ns": {"a": "1", "b": ""}, "empty": {}}
    assert await bed.replay() == await bed.contents()


async def test_restore_leaves_what_is_there_already(bed):
    await bed.kv.put("ns", "a", "newer")
    assert await bed.kv.restore(5, {"ns": {"a": "1", "b": "2"}}) == 1
    assert (await bed.contents())["kv"] == {"ns": {"a": "newer", "b": "2"}}
    assert await bed.replay() == await bed.contents()


async def test_restore_is_done_once_for_each_outage(bed):
    await bed.kv.restore(5, {"ns": {"a": "1"}})
    await bed.kv.delete("ns", "a")
    await bed.events()
    assert await bed.kv.restore(5, {"ns": {"a": "1"}}) == 0
    assert (await bed.contents())["kv"] == {"ns": {}}
    assert await bed.events() == []
    assert await bed.kv.restore(6, {"ns": {"a": "1"}}) == 1


async def test_restore_of_nothing_asks_nobody(bed):
    assert await bed.kv.restore(5, {}) == 0
    assert await bed.events() == []
