"""What comes next in a change stream, and every way in which it may not: trimmed, lost, of another history."""

from __future__ import annotations

import pytest

from mqregistry.errors import NoNamespace
from mqregistry.follow.follow import Follow, StreamGap
from mqregistry.tables.tables import Tables


async def put(bed, *keys):
    for key in keys:
        await bed.kv.put("ns", key, "v")


async def following(bed):
    return Follow.behind(bed.store, await bed.head())


async def shown(follow):
    """The numbers of all changes until now."""
    seqs = []
    while changes := await follow.read_or_check(block_ms=0, count=2):
        seqs += [change.seq for change in changes]
    return seqs


async def trim(bed, kept):
    await bed.redis("XTRIM", bed.key("changes"), "MAXLEN", kept)


async def test_what_goes_on_is_read_and_no_gap_is_seen(bed):
    await put(bed, "before")
    follow = await following(bed)
    await put(bed, *"abcde")
    assert await shown(follow) == [2, 3, 4, 5, 6]
    assert (follow.seq, follow.last_id) == (6, (await bed.head()).last_id)
    await follow.check()


async def test_from_the_oldest_change_that_is_kept(bed):
    await put(bed, *"abcde")
    await trim(bed, 2)
    assert await shown(Follow(bed.store)) == [4, 5]


async def test_changes_that_were_trimmed_are_named_once_and_those_behind_them_follow(bed):
    follow = await following(bed)
    await put(bed, *"abc")
    await trim(bed, 1)
    with pytest.raises(StreamGap, match=r"^changes 1 to 2 are missing: trimmed"):
        await follow.read(block_ms=0)
    assert await shown(follow) == [3]
    await put(bed, "d", "e")
    await trim(bed, 1)
    with pytest.raises(StreamGap, match=r"^change 4 is missing"):
        await follow.read(block_ms=0)
    assert await shown(follow) == [5]


async def test_what_comes_before_a_gap_is_given_first(bed):
    follow = await following(bed)
    await put(bed, *"abcd")
    ids = [entry[0] for entry in await bed.redis("XRANGE", bed.key("changes"), "-", "+")]
    await bed.redis("XDEL", bed.key("changes"), *ids[1:3])
    assert [change.seq for change in await follow.read(block_ms=0)] == [1]
    with pytest.raises(StreamGap, match=r"^changes 2 to 3 are missing"):
        await follow.read(block_ms=0)
    assert [change.seq for change in await follow.read(block_ms=0)] == [4]


async def test_a_stream_that_was_trimmed_to_its_end_is_a_gap_although_nothing_can_be_read(bed):
    follow = await following(bed)
    await put(bed, *"abc")
    await trim(bed, 0)
    assert await follow.read(block_ms=0) == []
    with pytest.raises(StreamGap, match=r"^changes 1 to 3 are missing"):
        await follow.check()
    await put(bed, "d")
    assert await shown(follow) == [4]


async def test_a_change_that_comes_between_a_read_and_the_check_is_no_gap(bed):
    follow = await following(bed)
    assert await follow.read(block_ms=0) == []
    await put(bed, "a")
    await follow.check()
    assert await shown(follow) == [1]


async def test_a_namespace_that_was_made_anew_is_followed_from_its_first_change(bed):
    await put(bed, *"abc")
    follow = await following(bed)
    await bed.redis("FLUSHDB")
    with pytest.raises(NoNamespace, match="it was emptied"):
        await follow.read_or_check(block_ms=0)
    await bed.store.init_namespace()
    await put(bed, "d", "e")
    with pytest.raises(StreamGap, match="the namespace was made anew"):
        await shown(follow)
    assert await shown(follow) == [1, 2]
    assert follow.epoch == (await bed.head()).epoch


@pytest.mark.parametrize("made_anew", [0, 1, 2, 3])
async def test_a_redis_that_lost_changes_is_noticed_however_many_came_since(bed, made_anew):
    """With as many again the numbers fit; then the chain tells."""
    await put(bed, "a")
    kept = {key: await bed.store.client.dump(key) for key in await bed.store.client.keys("*")}
    await put(bed, "lost")
    follow = await following(bed)
    assert follow.seq == 2
    for key, value in kept.items():
        await bed.store.client.restore(key, 0, value, replace=True)
    await put(bed, *[f"new{number}" for number in range(made_anew)])
    with pytest.raises(StreamGap, match="Redis has lost changes"):
        await shown(follow)


async def test_of_a_set_with_a_gap_no_part_is_applied(bed):
    follow, tables = await following(bed), Tables()
    await bed.register(topics=[f"t{number}" for number in range(1200)])
    parts = await bed.redis("XRANGE", bed.key("changes"), "-", "+")
    assert len(parts) == 3
    await bed.redis("XDEL", bed.key("changes"), parts[1][0])
    applied = []
    for _ in range(3):
        try:
            for change in await follow.read(block_ms=0):
                applied += follow.whole(change)
        except StreamGap:
            continue
    assert applied == []
    await put(bed, "a")
    for change in await follow.read(block_ms=0):
        for whole in follow.whole(change):
            tables.apply(whole)
    assert tables.kv == {"ns": {"a": "v"}}
