"""delete_kv."""

from __future__ import annotations

from mqregistry.events import changes as kinds


async def test_delete_takes_the_key_and_keeps_the_namespace(bed):
    await bed.kv.put("ns", "key", "v")
    await bed.events()
    seq = await bed.kv.delete("ns", "key")
    assert (await bed.contents())["kv"] == {"ns": {}}
    (event,) = await bed.events()
    assert (type(event), event.seq, event.by, event.kv_namespace, event.key) == (
        kinds.KvDeleted, seq, bed.store.by, "ns", "key",
    )  # fmt: skip
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
