"""attach_channels: a worker whose lease had run out takes its brokers' channels again."""

from __future__ import annotations

from .bed import registration

ADDR = "10.0.0.1:10911"
WHO = f"c1|{ADDR}"


async def attach(bed, *pairs):
    flat = [part for pair in pairs for part in pair]
    return (await bed.store.call("attach_channels", "fe1", *flat))[1]


async def test_attach_takes_known_brokers_and_leaves_out_others(bed):
    r = await bed.register()
    await bed.leases.release("w1")
    assert await bed.channels(r) == {}
    assert await attach(bed, (WHO, "w1/7"), ("c1|unknown", "w1/8")) == 1
    assert await bed.channels(r) == {"fe1": "w1/7"}
    assert await bed.members("held:w1") == {WHO}
    assert await bed.members("leases") == {"w1"}
    assert await bed.channels(registration("unknown")) == {}


async def test_attach_repeated_is_the_same_and_no_sign_of_life(bed):
    r = await bed.register()
    await bed.leases.release("w1")
    deadline = await bed.deadline(r)
    await attach(bed, (WHO, "w1/7"))
    before = await bed.dump()
    await attach(bed, (WHO, "w1/7"))
    assert await bed.dump() == before
    assert await bed.deadline(r) == deadline
    assert len(await bed.events()) == 1


async def test_attach_takes_nothing_from_another_worker_of_the_same_front_end(bed):
    """The broker came back through the other worker while this one was paused."""
    r = await bed.register()
    bed.fe1.incarnation = "w1b"
    await bed.fe1.register(r)
    await attach(bed, (WHO, f"w1/{ADDR}"))
    assert await bed.channels(r) == {"fe1": "w1b/1"}
    bed.fe1.incarnation = "w1"
    assert await bed.fe1.close(r, connection=ADDR) == "STALE"
    assert set((await bed.contents())["brokers"]) == {"broker-a"}


async def test_attach_of_many_goes_in_pages(bed):
    for i in range(3):
        await bed.register(f"10.0.0.{i}:1", f"broker-{i}")
    await bed.leases.release("w1")
    unknown = [(f"c1|unknown-{i}", "w1/9") for i in range(1200)]
    await bed.leases.attach("fe1", [*unknown, *((f"c1|10.0.0.{i}:1", f"w1/{i}") for i in range(3))])
    assert await bed.members("held:w1") == {f"c1|10.0.0.{i}:1" for i in range(3)}
