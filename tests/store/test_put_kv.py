"""put_kv."""

from __future__ import annotations

from registry import change as kinds


async def test_put_stores_and_tells(bed):
    seq = await bed.kv.put("ns", "key", "värde")
    assert (await bed.contents())["kv"] == {"ns": {"key": "värde"}}
    (event,) = await bed.events()
    assert (event.type, event.kv_namespace, event.key, event.value, event.seq) == (
        kinds.KV_PUT, "ns", "key", "värde", seq,
    )  # fmt: skip
    assert await bed.replay() == await bed.contents()


async def test_put_repeated_tells_nothing(bed):
    first = await bed.kv.put("ns", "key", "v")
    assert await bed.kv.put("ns", "key", "v") == first
    assert len(await bed.events()) == 1


async def test_put_of_another_value_tells(bed):
    await bed.kv.put("ns", "key", "v")
    await bed.kv.put("ns", "key", "w")
    assert (await bed.contents())["kv"] == {"ns": {"key": "w"}}
    assert len(await bed.events()) == 2


async def test_put_without_value_makes_the_namespace_and_no_key(bed):
    await bed.kv.put("ns", "key", None)
    assert (await bed.contents())["kv"] == {"ns": {}}
    (event,) = await bed.events()
    assert (event.kv_namespace, event.key, event.value) == ("ns", "key", None)
    assert await bed.replay() == await bed.contents()


async def test_put_without_value_takes_a_value_away(bed):
    await bed.kv.put("ns", "key", "v")
    await bed.kv.put("ns", "key", None)
    assert (await bed.contents())["kv"] == {"ns": {}}
    assert await bed.replay() == await bed.contents()
    await bed.events()
    await bed.kv.put("ns", "key", None)
    assert await bed.events() == []


async def test_put_of_empty_texts(bed):
    await bed.kv.put("", "", "")
    assert (await bed.contents())["kv"] == {"": {"": ""}}
    assert await bed.replay() == await bed.contents()
