"""What a namespace of compat 4.8 does differently; rows are those of the table 4.8.0 -> 5.3.3."""

from __future__ import annotations

import pytest

from mqregistry.behaviour import FOUR_EIGHT, behaviour_of
from mqregistry.errors import ConfigError
from mqregistry.events import changes as kinds
from mqregistry.model import DataVersion

from .bed import registration
from .test_wrong_type import break_key, refused

A, B = "10.0.0.1:10911", "10.0.0.2:10911"


@pytest.fixture
def compat():
    return "4.8"


async def goodbye(bed, addr, broker_id, name="broker-a", cluster="c1"):
    return await bed.routes.unregister_broker(cluster, addr, name, broker_id)


async def addrs(bed, name="broker-a"):
    row = (await bed.tables()).brokers.get(name)
    return row.broker_addrs if row else None


def test_there_are_two_behaviours():
    assert behaviour_of("4.8") is FOUR_EIGHT
    with pytest.raises(ConfigError, match=r"compat='4\.9': expected 5\.x or 4\.8"):
        behaviour_of("4.9")


def test_a_registration_is_seen_without_what_came_later():
    r = registration(
        state_version=7, enable_acting_master=True, zone_name="z", heartbeat_timeout_ms=5, mappings={"t": ("b", "{}")}
    )
    seen = FOUR_EIGHT.seen(r)
    assert seen == registration()
    assert seen.data_version == DataVersion(1, 1000, 0)


async def test_first_registration_of_one_topic_is_accepted_row_1(bed):
    await bed.register(topics=["t1"])
    assert set((await bed.tables()).topics) == {"t1"}


async def test_goodbye_takes_the_id_whoever_has_it_row_2(bed):
    victim = await bed.register(A, filter_servers=["f"])
    await bed.register(B, broker_id=1)
    await bed.events()
    await goodbye(bed, "10.0.0.9:1", 0)
    assert await addrs(bed) == {1: B}
    assert (await bed.live(victim))["counter"] == "1", "the process itself lives on"
    assert (await bed.tables()).filter_servers == {f"|{A}": ["f"]}
    (event,) = await bed.events()
    assert (event.type, event.who, event.addr, event.broker_id) == (kinds.BrokerUnregistered.type, None, A, 0)
    assert event.row == kinds.Row("c1", {1: B})
    assert await bed.replay() == await bed.contents()
    await bed.register(A, filter_servers=["f"])
    assert await addrs(bed) == {0: A, 1: B}


async def test_goodbye_with_another_id_ends_the_live_info_alone_row_2(bed):
    r = await bed.register(A, filter_servers=["f"])
    await bed.events()
    await goodbye(bed, A, 5)
    assert await addrs(bed) == {0: A}
    assert (await bed.routes.touch_broker("c1", A)).data_version is None
    (event,) = await bed.events()
    assert (event.who, event.addr) == (f"|{A}", A)
    assert (await bed.tables()).filter_servers == {}
    assert await bed.replay() == await bed.contents()
    before = await bed.dump()
    await goodbye(bed, A, 5)
    assert (await bed.events(), await bed.dump()) == ([], before)
    # Java would keep it for ever
    await bed.let_pass(200_000)
    assert (await bed.leases.expire(10)).whos == [f"|{A}"]
    assert await addrs(bed) is None
    assert await bed.deadline(r) is None


@pytest.mark.parametrize("broken", [f"live:|{A}", "broker:broker-a", "brokers", "deadlines", "changes"])
async def test_goodbye_with_a_key_of_the_wrong_type_leaves_everything(bed, broken):
    await bed.register(A)
    key = await break_key(bed, broken)
    assert key in await refused(bed, key, lambda: goodbye(bed, A, 0))


async def test_last_goodbye_leaves_nothing_whatever_cluster_it_names_d4(bed):
    await bed.register(A)
    await bed.register(B, broker_id=1, cluster="c2")
    await goodbye(bed, B, 1, cluster="")
    await goodbye(bed, A, 0, cluster="nowhere")
    tables = await bed.tables()
    assert (tables.brokers, tables.clusters, tables.topics) == ({}, {}, {})
    assert await bed.redis("KEYS", bed.key("live:*")) == []
    assert await bed.replay() == await bed.contents()


async def test_deleted_topic_stays_deleted_until_the_version_moves_row_3(bed):
    await bed.register()
    await bed.routes.delete_topic("t1", "")
    await bed.register()
    assert set((await bed.tables()).topics) == {"t2"}
    await bed.register()
    assert (await bed.beats())[-1]["kind"] == "same", "and costs no comparison any more"
    await bed.register(counter=2)
    assert set((await bed.tables()).topics) == {"t1", "t2"}


async def test_live_table_goes_by_the_address_row_4(bed):
    await bed.register(A, cluster="c1", counter=3)
    await bed.register(B, broker_id=1, cluster="c2")
    beat = await bed.routes.heartbeat("c2", "broker-a", 1, B, "another digest")
    assert beat.data_version == DataVersion(1, 1000, 0)
    result = await bed.fe1.register(registration(B, broker_id=1, cluster="c2", counter=9))
    assert (result.master_addr, result.ha_server_addr) == (A, f"ha-{A}"), "the master stands in another cluster"
    assert (await bed.routes.touch_broker("nowhere", A)).data_version == DataVersion(3, 1000, 0)


async def test_lower_state_version_is_nothing_row_7(bed):
    await bed.fe1.register(FOUR_EIGHT.seen(registration(A, state_version=9)))
    result = await bed.fe1.register(FOUR_EIGHT.seen(registration(B, state_version=1)))
    assert result.status == "OK"
    assert await addrs(bed) == {0: B}


async def test_topic_is_deleted_everywhere_row_13(bed):
    await bed.register()
    await bed.routes.delete_topic("t1", "another cluster")
    assert set((await bed.tables()).topics) == {"t2"}


async def test_only_a_known_version_is_a_sign_of_life_row_25(bed):
    r = await bed.register()
    await bed.let_pass(50_000)
    before = await bed.deadline(r)
    touched = await bed.routes.touch_broker("c1", A, only_version=DataVersion(2, 1000, 0))
    assert (touched.refreshed, touched.data_version) == (False, DataVersion(1, 1000, 0))
    assert await bed.deadline(r) == before
    touched = await bed.routes.touch_broker("c1", A, only_version=DataVersion(1, 1000, 0))
    assert touched.refreshed
    assert await bed.deadline(r) >= before + 50_000
