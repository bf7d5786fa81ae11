"""set_config: the shared run-time configuration."""

from __future__ import annotations

from mqregistry.events import changes as kinds


async def test_set_stores_tells_and_moves_the_revision(bed):
    seq = await bed.kv.set_config({"deleteTopicWithBrokerRegistration": "true", "b": "ü"})
    tables = await bed.tables()
    assert (tables.config, tables.config_rev) == ({"deleteTopicWithBrokerRegistration": "true", "b": "ü"}, 1)
    (event,) = await bed.events()
    assert (event.type, event.config, event.config_rev, event.seq) == (
        kinds.ConfigSet.type, {"deleteTopicWithBrokerRegistration": "true", "b": "ü"}, 1, seq,
    )  # fmt: skip
    assert await bed.replay() == tables.contents()


async def test_set_repeated_tells_nothing(bed):
    first = await bed.kv.set_config({"brokerChannelExpiredTimeMs": "5000"})
    await bed.events()
    assert await bed.kv.set_config({"brokerChannelExpiredTimeMs": "5000"}) == first
    assert (await bed.head()).config_rev == 1
    assert await bed.events() == []


async def test_set_tells_only_what_changed(bed):
    await bed.kv.set_config({"a": "1", "brokerChannelExpiredTimeMs": "5000"})
    await bed.events()
    await bed.kv.set_config({"a": "1", "brokerChannelExpiredTimeMs": "6000"})
    (event,) = await bed.events()
    assert (event.config, event.config_rev) == ({"brokerChannelExpiredTimeMs": "6000"}, 2)


async def test_a_setting_that_decides_nothing_about_registrations_voids_no_digest(bed):
    await bed.register()
    for value in ("true", "false", "true"):
        await bed.kv.set_config({"enableTopicList": value, "deleteTopicWithBrokerRegistration": "false"})
    assert (await bed.head()).config_rev == 1
    assert (await bed.events())[-1].config == {"enableTopicList": "true"}


async def test_set_of_nothing_tells_nothing(bed):
    await bed.kv.set_config({})
    assert await bed.events() == []
