"""Requests that overtake each other: what must not happen, by name."""

from __future__ import annotations

from mqregistry.events import changes as kinds
from mqregistry.model import QueueData

from .bed import WIPED, registration

ADDR = "10.0.0.1:10911"
OTHER = "10.0.0.2:10911"


async def brokers(bed):
    return {name: row.broker_addrs for name, row in (await bed.tables()).brokers.items()}


async def test_older_registration_that_comes_late_through_the_other_front_end_is_only_a_refresh(bed):
    await bed.register(topics=["t1", "t2", "t3"], counter=1)
    late = await bed.fe2.prepare(registration(topics=["t1", "t2", "t3", "t4"], counter=2))
    assert (await bed.fe1.register(registration(topics=["t1", "t2"], counter=3))).status == "OK"
    await bed.routes.delete_topic("t3")
    await bed.events()
    contents = await bed.contents()
    await bed.let_pass(50_000)
    result = await bed.fe2.send_once(late)
    assert result.status == "REFRESHED"
    assert await bed.contents() == contents
    assert "t3" not in contents["topics"]
    assert await bed.events() == []
    live = await bed.live(late.registration)
    assert live["counter"] == "3"
    assert int(live["update_ms"]) >= await bed.now_ms() - 5000
    assert (await bed.channels(late.registration))["fe2"] == late.channel.value


async def test_older_registration_that_is_begun_late_counts_until_the_next_one(bed):
    """A17: its front end had not even asked when the newer one was stored: as if the broker had gone back."""
    older, newer = registration(topics=["t1", "t2"], counter=1), registration(topics={"t1": (4, 4, 4)}, counter=2)
    await bed.fe1.register(registration(topics=["t1", "t2"]))
    await bed.fe1.register(newer)
    assert (await bed.fe2.register(older)).status == "OK"
    assert (await bed.contents())["topics"]["t1"] == {"broker-a": QueueData(8, 8, 6)}
    assert (await bed.fe2.register(newer)).status == "OK"
    assert (await bed.contents())["topics"]["t1"] == {"broker-a": QueueData(4, 4, 4)}


async def test_late_first_registration_of_what_is_registered_meanwhile_is_only_a_refresh(bed):
    late = await bed.fe2.prepare(registration(topics=["t1", "t2"]))
    await bed.register(topics=["t1", "t2"])
    await bed.routes.delete_topic("t1")
    assert (await bed.fe2.send_once(late)).status == "REFRESHED"
    assert set((await bed.contents())["topics"]) == {"t2"}


async def test_newer_registration_that_met_an_older_one_compares_again_and_counts(bed):
    await bed.register(counter=1)
    newer = await bed.fe2.prepare(registration(topics=["t1", "t2", "t5"], counter=3))
    await bed.fe1.register(registration(topics=["t1", "t2", "t4"], counter=2))
    assert (await bed.fe2.send_once(newer)).status == "RETRY"
    assert (await bed.fe2.send(newer)).status == "OK"
    assert set((await bed.contents())["topics"]) == {"t1", "t2", "t4", "t5"}
    assert (await bed.live(newer.registration))["counter"] == "3"


async def test_part_that_met_another_part_of_its_data_version_is_compared_again(bed):
    await bed.register(topics=["t1", "t2"], counter=1)
    second = await bed.fe1.prepare(registration(topics={"t2": (4, 4, 4)}, counter=2))
    await bed.fe2.register(registration(topics={"t1": (4, 4, 4)}, counter=2))
    assert (await bed.fe1.send_once(second)).status == "RETRY"


async def test_restarted_broker_counts_by_its_timestamp_though_its_counter_began_anew(bed):
    await bed.register(counter=50, timestamp=1000)
    late = await bed.fe2.prepare(registration(counter=1, timestamp=2000, topics=["t1", "t2", "t9"]))
    await bed.fe1.register(registration(counter=51, timestamp=1500))
    assert (await bed.fe2.send(late)).status == "OK"
    assert "t9" in (await bed.contents())["topics"]


async def test_late_registration_of_a_broker_that_left_registers_it_as_any_other(bed):
    await bed.register()
    late = await bed.fe2.prepare(registration(counter=2))
    await bed.routes.unregister_broker("c1", ADDR, "broker-a")
    assert (await bed.fe2.send_once(late)).status == "RETRY"
    assert (await bed.fe2.send(late)).status == "OK"
    assert await brokers(bed) == {"broker-a": {0: ADDR}}


async def test_heartbeat_after_a_topic_was_deleted_declines_and_the_topic_comes_back(bed):
    """Semantics 13: 5.x adds absent queue data also for an unchanged version."""
    r = await bed.register()
    await bed.routes.delete_topic("t1")
    prepared = await bed.fe1.prepare(r)
    assert not prepared.heartbeat.same
    assert prepared.diff.topics == {"t1": QueueData(8, 8, 6)}
    assert (await bed.fe1.send(prepared)).status == "OK"
    assert set((await bed.contents())["topics"]) == {"t1", "t2"}
    assert (await bed.fe1.prepare(r)).heartbeat.same


async def test_wiped_perm_survives_an_unchanged_version_and_returns_with_a_changed_one(bed):
    r = await bed.register()
    await bed.routes.set_write_perm("broker-a", "wipe")
    await bed.fe1.register(r)
    assert (await bed.contents())["topics"]["t1"] == {"broker-a": WIPED}
    assert (await bed.fe1.prepare(r)).heartbeat.same
    await bed.register(counter=2)
    assert (await bed.contents())["topics"]["t1"] == {"broker-a": QueueData(8, 8, 6)}


async def test_wiped_perm_survives_an_unchanged_version_while_a_deleted_topic_returns(bed):
    r = await bed.register()
    await bed.routes.set_write_perm("broker-a", "wipe")
    await bed.routes.delete_topic("t1")
    await bed.fe1.register(r)
    topics = (await bed.contents())["topics"]
    assert topics == {"t1": {"broker-a": QueueData(8, 8, 6)}, "t2": {"broker-a": WIPED}}


async def test_late_close_of_an_old_connection_removes_nothing(bed):
    r = registration()
    await bed.fe1.register(r, connection="old")
    await bed.fe1.register(r, connection="new")
    assert await bed.fe1.close(r, connection="old") == "STALE"
    assert await brokers(bed) == {"broker-a": {0: ADDR}}
    assert await bed.fe1.close(r, connection="new") == "REMOVED"


async def test_close_of_the_old_address_after_another_took_the_id_removes_nothing_else(bed):
    old = await bed.register()
    await bed.register(OTHER)
    contents = await bed.contents()
    await bed.events()
    assert await bed.fe1.close(old, connection=ADDR) == "REMOVED"
    assert await bed.contents() == contents
    (event,) = await bed.events()
    assert (event.type, event.addr, event.rev) == (kinds.BrokerClosed.type, ADDR, None)
    assert await bed.replay() == contents


async def test_expiry_of_the_old_address_after_another_took_the_id_removes_nothing_else(bed):
    await bed.leases.expire(10)
    await bed.let_pass(300_000)
    await bed.register()
    await bed.let_pass(60_000)
    await bed.register(OTHER)
    contents = await bed.contents()
    await bed.let_pass(70_000)
    assert (await bed.leases.expire(10)).whos == [f"c1|{ADDR}"]
    assert await bed.contents() == contents


async def test_two_addresses_taking_turns_at_one_id_leave_one_row_and_one_address(bed):
    for _ in range(3):
        for addr in (ADDR, OTHER):
            r = registration(addr)
            assert not (await bed.fe1.prepare(r)).heartbeat.same
            await bed.fe1.register(r, connection=addr)
            assert await brokers(bed) == {"broker-a": {0: addr}}
    assert await bed.replay() == await bed.contents()
    assert await bed.fe1.close(registration(OTHER), connection=OTHER) == "REMOVED"
    assert await brokers(bed) == {}
    assert await bed.fe1.close(registration(ADDR), connection=ADDR) == "REMOVED"
    assert await bed.deadline(registration(ADDR)) is None


async def test_slave_that_is_promoted_moves_to_the_masters_id(bed):
    await bed.register(ADDR)
    slave = await bed.register(OTHER, broker_id=1)
    await bed.fe1.close(registration(ADDR), connection=ADDR)
    promoted = registration(OTHER, broker_id=0, state_version=1)
    assert (await bed.fe1.register(promoted, connection=OTHER)).status == "OK"
    assert await brokers(bed) == {"broker-a": {0: OTHER}}
    live = await bed.live(slave)
    assert live["name:broker-a"] == "0"
    assert await bed.replay() == await bed.contents()


async def test_slave_that_is_promoted_over_a_living_master_takes_its_id(bed):
    await bed.register(ADDR)
    await bed.register(OTHER, broker_id=1)
    await bed.register(OTHER, broker_id=0, state_version=1)
    assert await brokers(bed) == {"broker-a": {0: OTHER}}
    assert await bed.fe1.close(registration(ADDR), connection=ADDR) == "REMOVED"
    assert await brokers(bed) == {"broker-a": {0: OTHER}}


async def test_two_brokers_on_one_channel_both_go_with_it(bed):
    """D2."""
    first, second = registration(ADDR), registration(OTHER, "broker-b")
    for r in (first, second):
        await bed.fe1.register(r, connection="shared")
    for r in (first, second):  # the front end tells of each broker that it knows the channel of
        assert await bed.fe1.close(r, connection="shared") == "REMOVED"
    assert await brokers(bed) == {}
    assert await bed.replay() == await bed.contents()


async def test_one_broker_name_in_two_clusters_has_one_row_and_both_are_removed_by_close(bed):
    """D3."""
    first = await bed.register(ADDR, cluster="c1")
    second = await bed.register(OTHER, cluster="c2", broker_id=1)
    tables = await bed.tables()
    assert tables.brokers["broker-a"].cluster == "c1"
    assert tables.clusters == {"c1": {"broker-a"}, "c2": {"broker-a"}}
    assert await bed.fe1.close(second, connection=OTHER) == "REMOVED"
    assert await brokers(bed) == {"broker-a": {0: ADDR}}
    assert await bed.fe1.close(first, connection=ADDR) == "REMOVED"
    assert (await bed.tables()).clusters == {}
    assert await bed.replay() == await bed.contents()


async def test_one_broker_name_in_two_clusters_both_are_removed_by_expiry(bed):
    """D3."""
    await bed.leases.expire(10)
    await bed.let_pass(300_000)
    await bed.register(ADDR, cluster="c1", heartbeat_timeout_ms=60_000)
    await bed.register(OTHER, cluster="c2", broker_id=1, heartbeat_timeout_ms=20_000)
    await bed.let_pass(25_000)
    assert (await bed.leases.expire(10)).whos == [f"c2|{OTHER}"]
    assert await brokers(bed) == {"broker-a": {0: ADDR}}


async def test_unregister_with_a_wrong_cluster_leaves_no_dead_name_in_any_cluster(bed):
    """D4."""
    await bed.register()
    await bed.routes.unregister_broker("wrong", ADDR, "broker-a")
    tables = await bed.tables()
    assert (tables.clusters, tables.brokers) == ({}, {})
    assert await bed.live(registration()) == {}


async def test_lower_state_version_is_refused_though_its_counter_is_higher(bed):
    await bed.register(state_version=3, counter=1)
    result = await bed.fe1.register(registration(OTHER, state_version=2, counter=100))
    assert result.status == "REFUSED_STATE"
    assert await brokers(bed) == {"broker-a": {0: ADDR}}


async def test_one_topic_for_an_unknown_id_is_refused_and_leaves_no_row(bed):
    """D16."""
    assert (await bed.fe1.register(registration(topics=["t1"]))).status == "REFUSED_ONE_TOPIC"
    tables = await bed.tables()
    assert (tables.brokers, tables.clusters) == ({}, {})


async def test_reaping_without_a_seen_close_leaves_the_broker_to_its_deadline(bed):
    await bed.leases.renew("w9", 600_000)
    await bed.let_pass(200_000)
    r = await bed.register()
    assert await bed.leases.reap(10) == (1, False)
    assert await bed.channels(r) == {}
    assert await brokers(bed) == {"broker-a": {0: ADDR}}
    await bed.let_pass(121_000)
    assert (await bed.leases.expire(10)).whos == [f"c1|{ADDR}"]


async def test_reaping_after_a_seen_close_gives_the_broker_the_time_to_beat_once(bed):
    await bed.leases.renew("w9", 600_000)
    await bed.let_pass(20_000)
    r = await bed.register()
    await bed.fe2.register(r)
    await bed.fe2.close(r)
    assert await bed.leases.reap(10) == (1, False)
    assert (await bed.leases.expire(10)).whos == []
    await bed.let_pass(36_000)
    assert (await bed.leases.expire(10)).whos == [f"c1|{ADDR}"]


async def test_worker_that_was_paused_attaches_again_and_its_closes_count(bed):
    await bed.leases.renew("w9", 600_000)
    await bed.let_pass(20_000)
    r = await bed.register()
    await bed.leases.reap(10)  # w1 has no lease: it was paused
    assert (await bed.leases.renew("w1")).lost
    await bed.leases.attach("fe1", [(f"c1|{ADDR}", f"w1/{ADDR}")])
    assert await bed.fe1.close(r, connection=ADDR) == "REMOVED"


async def test_release_of_a_draining_worker_removes_no_broker(bed):
    await bed.register()
    await bed.leases.release("w1")
    assert await brokers(bed) == {"broker-a": {0: ADDR}}


async def test_late_registration_keeps_its_static_topic_mapping_though_another_came_and_went(bed):
    """A17: what it was compared with holds the mapping; then the name comes back with another one, and goes again."""

    def mapped(text, **fields):
        return registration(mappings={"t1": ("broker-a", text)}, **fields)

    await bed.fe1.register(mapped("m1"), connection=1)
    await bed.fe1.close(registration(), connection=1)
    late = await bed.fe2.prepare(mapped("m1", counter=2))
    await bed.fe1.register(mapped("m2", counter=3), connection=2)
    await bed.fe1.close(registration(), connection=2)
    assert (await bed.tables()).mappings == {"t1": {"broker-a": "m2"}}, "a mapping outlives its broker"
    assert (await bed.fe2.send_once(late)).status == "OK"
    assert (await bed.tables()).mappings == {"t1": {"broker-a": "m1"}}
    assert await bed.replay() == await bed.contents()
    await bed.events()
    await bed.fe1.register(mapped("m1", counter=4))
    (event,) = await bed.events()
    assert event.mappings == [], "one that is there already is told once"


async def test_late_registration_notices_that_another_member_changed_a_mapping(bed):
    """A17: a slave that stands in has the mapping changed; the master was compared with the one before."""
    slave = registration(OTHER, broker_id=1, enable_acting_master=True, mappings={"t1": ("broker-a", "m1")})
    await bed.fe1.register(slave)
    late = await bed.fe2.prepare(registration(mappings={"t1": ("broker-a", "m1")}))
    newer = registration(OTHER, broker_id=1, enable_acting_master=True, counter=2, mappings={"t1": ("broker-a", "m2")})
    await bed.fe1.register(newer)
    assert (await bed.fe2.send_once(late)).status == "RETRY"
    assert (await bed.fe2.send(late)).status == "OK"
    assert (await bed.tables()).mappings == {"t1": {"broker-a": "m1"}}


async def test_late_registration_keeps_a_mapping_of_another_name(bed):
    """A17: a mapping may be that of another brokerName, whose registrations no rev of this row tells of."""
    await bed.register(mappings={"t1": ("broker-z", "m1")})
    late = await bed.fe2.prepare(registration(counter=2, mappings={"t1": ("broker-z", "m1")}))
    await bed.register(OTHER, "broker-z", mappings={"t1": ("broker-z", "m2")})
    assert (await bed.fe2.send_once(late)).status == "OK"
    assert (await bed.tables()).mappings == {"t1": {"broker-z": "m1"}}
