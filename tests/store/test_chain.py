"""The chain of events: what two histories have in common can be told from one value."""

from __future__ import annotations

from mqregistry.store.change_reader import ChangeReader
from mqregistry.store.config_writes import KvStore
from mqregistry.store.snapshot import read_head


async def chains(store):
    return [change.chain for change in await ChangeReader(store, "0-0").read(block_ms=0)]


async def test_each_event_has_a_chain_of_its_own_and_meta_has_the_last(bed):
    kv = KvStore(bed.store)
    for value in ("1", "2", "1"):
        await kv.put("n", "k", value)
    found = await chains(bed.store)
    assert len(set(found)) == 3
    assert all(len(chain) == 16 for chain in found)
    assert (await read_head(bed.store)).chain == found[-1]


async def test_a_history_that_went_back_and_repeats_itself_has_other_chains(bed):
    """Only the first event differs: with the same numbers and values, the second one still tells."""
    kv, client = KvStore(bed.store), bed.store.client
    kept = await client.dump(f"mq:{{{bed.store.namespace}}}:meta")
    await kv.put("n", "first", "one")
    await kv.put("n", "second", "same")
    known = await chains(bed.store)
    for key in ("changes", "kv", "kv:n", "kv_sizes"):
        await client.delete(f"mq:{{{bed.store.namespace}}}:{key}")
    await client.restore(f"mq:{{{bed.store.namespace}}}:meta", 0, kept, replace=True)
    await kv.put("n", "first", "two")
    await kv.put("n", "second", "same")
    assert not set(known) & set(await chains(bed.store))
