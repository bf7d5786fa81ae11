"""restore_kv: a front end gives a Redis that lost it the KV configuration back.

A loss is made here by writing to the tables behind the scripts' backs: what a front end knew stands in ``kv``, and the
position that it had reached in the change stream says how much that is.
"""

from __future__ import annotations


async def kv(bed):
    return (await bed.contents())["kv"]


async def position(bed):
    """Of a front end that has applied everything."""
    return (await bed.head()).last_id


async def lose(bed, namespace, **values):
    """Redis comes back with this in the place of what it had."""
    await bed.redis("DEL", bed.key(f"kv:{namespace}"))
    for key, value in values.items():
        await bed.redis("HSET", bed.key(f"kv:{namespace}"), key, value)


async def test_restore_gives_back_keys_and_empty_namespaces_and_tells(bed):
    assert (await bed.kv.restore("5-0", {"ns": {"a": "1", "b": ""}, "empty": {}})).keys == 2
    assert await kv(bed) == {"ns": {"a": "1", "b": ""}, "empty": {}}
    assert await bed.replay() == await bed.contents()


async def test_restore_leaves_what_was_put_and_deleted_since_the_loss(bed):
    """A8: after the loss an administrator puts one key and deletes another, then a front end gives back."""
    await bed.kv.put("ns", "c", "old")
    known = await position(bed)
    await bed.kv.put("ns", "a", "newer")
    await bed.kv.delete("ns", "c")
    assert (await bed.kv.restore(known, {"ns": {"a": "1", "b": "2", "c": "old"}})).keys == 1
    assert await kv(bed) == {"ns": {"a": "newer", "b": "2"}}
    assert await bed.replay() == await bed.contents()


async def test_restore_undoes_no_change_that_the_front_end_knows(bed):
    """A8: the last changes are lost: a value was changed, a key deleted; Redis has the older ones again."""
    await bed.kv.put("ns", "changed", "old")
    await bed.kv.put("ns", "deleted", "1")
    await bed.kv.put("ns", "changed", "new")
    await bed.kv.delete("ns", "deleted")
    await lose(bed, "ns", changed="old", deleted="1")
    await bed.events()
    assert (await bed.kv.restore(await position(bed), {"ns": {"changed": "new"}})).keys == 1
    assert await kv(bed) == {"ns": {"changed": "new"}}
    assert [event.type for event in await bed.events()] == ["kv_put", "kv_deleted"]
    assert await bed.replay() == await bed.contents()


async def test_of_several_front_ends_the_one_that_knew_most_wins_whoever_comes_first(bed):
    """A8: one front end was a change behind; it gives back before, and again after, the other."""
    await bed.kv.put("ns", "a", "older")
    behind = await position(bed)
    await bed.kv.put("ns", "a", "newer")
    await bed.kv.put("ns", "gone", "1")
    ahead = await position(bed)
    await lose(bed, "ns")
    for entry_id, _ in await bed.store.client.xrange(bed.key("changes"), f"({behind}"):
        await bed.redis("XDEL", bed.key("changes"), entry_id)  # the last changes vanished with it
    assert (await bed.kv.restore(behind, {"ns": {"a": "older", "b": "2"}})).keys == 2
    assert (await bed.kv.restore(ahead, {"ns": {"a": "newer", "b": "2"}})).keys == 1
    assert await kv(bed) == {"ns": {"a": "newer", "b": "2"}}
    assert (await bed.kv.restore(behind, {"ns": {"a": "older", "gone": "1"}})).keys == 0
    assert await kv(bed) == {"ns": {"a": "newer", "b": "2"}}


async def test_restore_repeated_has_no_effect(bed):
    await bed.kv.restore("5-0", {"ns": {"a": "1"}})
    await bed.events()
    assert (await bed.kv.restore("5-0", {"ns": {"a": "1"}})).keys == 0
    assert await bed.events() == []


async def test_a_key_that_was_deleted_after_one_gave_it_back_stays_deleted(bed):
    await bed.kv.restore("5-0", {"ns": {"a": "1"}})
    await bed.kv.delete("ns", "a")
    assert (await bed.kv.restore("6-0", {"ns": {"a": "1"}})).keys == 0
    assert await kv(bed) == {"ns": {}}


async def test_a_second_loss_at_once_gives_back_again(bed):
    """A8: two losses within one grace; between them the front end followed the new changes."""
    await bed.kv.restore("5-0", {"ns": {"a": "1"}})
    await bed.kv.put("ns", "b", "2")
    known = await position(bed)
    await lose(bed, "ns")
    assert (await bed.kv.restore(known, {"ns": {"a": "1", "b": "2"}})).keys == 2
    assert await kv(bed) == {"ns": {"a": "1", "b": "2"}}


async def test_restore_overwrites_nothing_when_changes_since_the_loss_were_trimmed(bed):
    for number in range(5):
        await bed.kv.put("ns", "a", str(number))
    await bed.redis("XTRIM", bed.key("changes"), "MAXLEN", 2)
    assert (await bed.kv.restore("5-0", {"ns": {"a": "old", "b": "2"}})).keys == 1
    assert await kv(bed) == {"ns": {"a": "4", "b": "2"}}


async def test_restore_of_nothing_asks_nobody(bed):
    assert (await bed.kv.restore("5-0", {})).keys == 0
    assert await bed.events() == []
