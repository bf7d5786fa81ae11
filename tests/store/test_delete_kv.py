"""delete_kv."""

from __future__ import annotations

import msgspec

from mqregistry.events import changes as kinds


async def test_delete_takes_the_key_and_keeps_the_namespace(bed):
    await bed.kv.put("ns", "key", "v")
    await bed.events()
    seq = await bed.kv.delete("ns", "key")
    assert (await bed.contents())["kv"] == {"ns": {}}
    (event,) = await bed.events()
    expected = kinds.KvDeleted(seq, event.ms, at=event.at, by=bed.store.by, kv_namespace="ns", key="key")
    assert event == msgspec.structs.replace(expected, chain=event.chain)
    assert await bed.replay() == await bed.contents()


async def test_delete_repeated_tells_nothing(bed):
    await bed.kv.put("ns", "key", "v")
    first = await bed.kv.delete("ns", "key")
    await bed.events()
    assert await bed.kv.delete("ns", "key") == first
    assert await bed.events() == []


async def test_delete_in_an_unknown_namespace_makes_none(bed):
    await bed.kv.delete("never", "key")
    assert (await bed.contents())["kv"] == {}
    assert await bed.events() == []


async def test_delete_of_a_key_that_redis_lost_is_told_and_keeps_it_from_being_given_back(bed):
    """A17: a front end that knows the key gives it back, unless it was deleted since the loss."""
    await bed.kv.put("ns", "other", "v")
    position = (await bed.head()).last_id
    await bed.kv.delete("ns", "key", lost=True)
    assert [event.type for event in await bed.events()] == [kinds.KvPut.type, kinds.KvDeleted.type]
    await bed.kv.restore(position, {"ns": {"key": "v", "other": "v"}})
    assert (await bed.contents())["kv"] == {"ns": {"other": "v"}}
    assert await bed.replay() == await bed.contents()
