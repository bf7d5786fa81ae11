"""put_kv."""

from __future__ import annotations

import pytest

from mqregistry.errors import LimitExceeded
from mqregistry.events import changes as kinds


async def test_put_stores_and_tells(bed):
    seq = await bed.kv.put("ns", "key", "värde")
    assert (await bed.contents())["kv"] == {"ns": {"key": "värde"}}
    (event,) = await bed.events()
    assert (event.type, event.kv_namespace, event.key, event.value, event.seq) == (
        kinds.KvPut.type, "ns", "key", "värde", seq,
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


async def test_a_value_that_is_too_large_is_refused_and_nothing_stored(bed):
    """B3."""
    await bed.kv.put("ns", "k", "x" * 65_536)
    before = await bed.dump()
    with pytest.raises(LimitExceeded, match="namespace 'ns': a value has at most 65536 bytes, this one has 65537"):
        await bed.kv.put("ns", "k", "x" * 65_537)
    with pytest.raises(LimitExceeded):
        await bed.kv.put("new", "k", "x" * 65_537)
    assert await bed.dump() == before


async def test_a_namespace_has_at_most_twenty_thousand_keys(bed):
    """B3; a key that is there may still change."""
    for first in range(0, 20_000, 5000):
        flat = [part for number in range(first, first + 5000) for part in (f"k{number}", "1")]
        await bed.redis("HSET", bed.key("kv:ns"), *flat)
    with pytest.raises(LimitExceeded, match="a namespace has at most 20000 keys"):
        await bed.kv.put("ns", "one more", "1")
    await bed.kv.put("ns", "k7", "2")
    await bed.kv.delete("ns", "k8")
    await bed.kv.put("ns", "one more", "1")


async def test_a_namespace_has_at_most_sixteen_mib(bed):
    """B3: 255 values of 64 KiB fit; more only after something went."""
    async with bed.store.client.pipeline(transaction=False) as steps:
        for number in range(255):
            steps.hset(bed.key("kv:ns"), f"k{number:03}", "x" * 65_536)
        await steps.execute()
    await bed.kv.put("ns", "small", "x" * 60_000)
    with pytest.raises(LimitExceeded, match="a namespace has at most 16777216 bytes of keys and values"):
        await bed.kv.put("ns", "large", "x" * 65_536)
    await bed.kv.put("ns", "small", "")
    await bed.kv.put("ns", "large", "x" * 60_000)
    with pytest.raises(LimitExceeded):
        await bed.kv.put("ns", "more", "x" * 65_536)
    await bed.kv.put("ns", "k000", None)
    await bed.kv.put("ns", "more", "x" * 60_000)
    with pytest.raises(LimitExceeded):
        await bed.kv.put("ns", "most", "x" * 65_536)
    await bed.kv.delete("ns", "k001")
    await bed.kv.put("ns", "most", "x" * 60_000)


async def test_there_are_at_most_1000_namespaces(bed):
    """B3; those that are there may still change."""
    await bed.redis("SADD", bed.key("kv"), *(f"ns{i}" for i in range(1000)))
    before = await bed.dump()
    for value in ("1", None):
        with pytest.raises(LimitExceeded, match="there are at most 1000 KV namespaces, this would be one more"):
            await bed.kv.put("new", "k", value)
    assert await bed.dump() == before
    await bed.kv.put("ns7", "k", "1")


async def test_all_namespaces_together_have_a_bound(bed):
    """1,000 of 16 MiB would be more than Redis and every front end have."""
    await bed.kv.put("first", "key", "v")
    sizes = bed.key("kv_sizes")
    for number in range(4):  # as if they had been filled
        await bed.redis("HSET", sizes, f"full-{number}", 16 << 20)
    with pytest.raises(LimitExceeded, match="all KV namespaces have at most 67108864 bytes"):
        await bed.kv.put("other", "key", "v")
    await bed.kv.put("first", "key", "w")
    await bed.redis("HDEL", sizes, "full-0")
    await bed.kv.put("other", "key", "v")
