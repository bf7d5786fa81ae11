"""register_broker: every answer, what it stores, and what it tells."""

from __future__ import annotations

import msgspec
import pytest

from mqregistry.errors import StoreError
from mqregistry.events import changes as kinds
from mqregistry.model import BrokerRow, DataVersion, QueueData
from mqregistry.store.route_writes import NO_CHANNEL

from .bed import digest_of, registration

RW, RO = QueueData(8, 8, 6), QueueData(8, 8, 4)


async def test_first_registration_stores_and_tells_everything(bed):
    r = registration(
        zone_name="z1", enable_acting_master=True, heartbeat_timeout_ms=30_000, counter=3, timestamp=4,
        state_version=5, filter_servers=["f1:1", "f2:1"], mappings={"t1": ("broker-a", '{"x":1}')},
    )  # fmt: skip
    result = await bed.fe1.register(r)
    assert (result.status, result.seq, result.changed) == ("OK", 1, True)
    row = BrokerRow("c1", {0: "10.0.0.1:10911"}, "z1", True, 1)
    assert await bed.contents() == {
        "topics": {"t1": {"broker-a": RW}, "t2": {"broker-a": RW}},
        "brokers": {"broker-a": row},
        "clusters": {"c1": {"broker-a"}},
        "broker_topics": {"broker-a": {"t1", "t2"}},
        "filter_servers": {"c1|10.0.0.1:10911": ["f1:1", "f2:1"]},
        "mappings": {"t1": {"broker-a": '{"x":1}'}},
        "kv": {},
        "config": {},
    }
    live = await bed.live(r)
    assert live.pop("update_ms").isdigit()
    assert live == {
        "cluster": "c1", "addr": "10.0.0.1:10911", "name:broker-a": "0", "timeout_ms": "30000", "counter": "3",
        "timestamp": "4", "state_version": "5", "n": "1", "digest": digest_of(r), "rev": "1", "config_rev": "0",
        "ha": "ha-10.0.0.1:10911",
    }  # fmt: skip
    (event,) = await bed.events()
    assert (event.type, event.seq, event.rev, event.broker_name) == (kinds.BrokerRegistered.type, 1, 1, "broker-a")
    assert (event.who, event.cluster, event.addr) == ("c1|10.0.0.1:10911", "c1", "10.0.0.1:10911")
    assert (event.broker_id, event.new, event.parts) == (0, True, 1)
    assert event.row == kinds.Row("c1", {0: "10.0.0.1:10911"}, "z1", True)
    assert event.live == kinds.Live(30_000, 3, 4, 5, "ha-10.0.0.1:10911")
    assert event.topics == {"t1": RW, "t2": RW}
    assert event.filter_servers == ["f1:1", "f2:1"]
    assert event.mappings == [("t1", "broker-a", '{"x":1}')]
    assert await bed.replay() == await bed.contents()


async def test_first_registration_gives_it_a_deadline_a_beat_and_a_channel(bed):
    r = await bed.register(heartbeat_timeout_ms=30_000)
    now = await bed.now_ms()
    assert now + 20_000 < await bed.deadline(r) <= now + 30_000
    assert 20_000 < await bed.redis("PTTL", bed.key("beat:c1|10.0.0.1:10911")) <= 30_000
    assert await bed.channels(r) == {"fe1": "w1/10.0.0.1:10911"}
    assert await bed.members("held:w1") == {"c1|10.0.0.1:10911"}
    assert await bed.members("leases") == {"w1"}
    assert [(b["kind"], b["interval_ms"]) for b in await bed.beats()] == [("changed", -1)]


async def test_registration_without_timeout_takes_the_default(bed):
    await bed.register(heartbeat_timeout_ms=30_000)
    r = await bed.register(counter=2)
    assert (await bed.live(r))["timeout_ms"] == "120000"


@pytest.mark.parametrize(
    ("given", "kept"), [(0, 1000), (-5, 1000), (999, 1000), (3_600_001, 3_600_000), (2**63 - 1, 3_600_000)]
)
async def test_a_timeout_is_between_a_second_and_an_hour(bed, given, kept):
    r = await bed.register(heartbeat_timeout_ms=given)
    assert (await bed.live(r))["timeout_ms"] == str(kept)
    assert set((await bed.contents())["brokers"]) == {"broker-a"}


async def test_registration_of_many_topics_is_told_in_parts_with_one_rev(bed):
    await bed.register(topics=[f"t{i}" for i in range(1201)], filter_servers=["f:1"])
    events = await bed.events()
    assert [(e.seq, e.part, e.parts, e.rev, len(e.topics)) for e in events] == [
        (1, 1, 3, 3, 500), (2, 2, 3, 3, 500), (3, 3, 3, 3, 201),
    ]  # fmt: skip
    assert [e.filter_servers for e in events] == [["f:1"], None, None]
    assert [e.row is msgspec.UNSET for e in events] == [False, True, True]
    assert await bed.replay() == await bed.contents()
    assert (await bed.hash("broker:broker-a"))["rev"] == "3"


async def test_registration_repeated_is_a_refresh_and_tells_nothing(bed):
    prepared = await bed.fe1.prepare(registration())
    assert (await bed.fe1.send_once(prepared)).status == "OK"
    contents = await bed.contents()
    await bed.events()
    again = await bed.fe1.send_once(prepared)
    assert (again.status, again.changed) == ("REFRESHED", False)
    assert await bed.contents() == contents
    assert await bed.events() == []
    assert [b["kind"] for b in await bed.beats()] == ["changed", "same"]


async def test_registration_that_changes_nothing_is_answered_unchanged_and_tells_nothing(bed):
    r = await bed.register()
    await bed.kv.set_config({"brokerChannelExpiredTimeMs": "130000"})  # so that the heartbeat declines
    await bed.events()
    result = await bed.fe1.register(r)
    assert (result.status, result.changed) == ("OK", False)
    assert await bed.events() == []


async def test_changed_topic_is_told_alone(bed):
    await bed.register(topics=["t1", "t2", "t3"])
    await bed.events()
    await bed.register(topics={"t1": (8, 8, 6), "t2": (1, 1, 6), "t3": (8, 8, 6)}, counter=2)
    (event,) = await bed.events()
    assert (event.topics, event.new) == ({"t2": QueueData(1, 1, 6)}, False)
    assert event.row is msgspec.UNSET
    assert await bed.replay() == await bed.contents()


async def test_new_version_alone_is_told_without_moving_the_row(bed):
    await bed.register()
    await bed.events()
    await bed.register(counter=2)
    (event,) = await bed.events()
    assert (event.rev, event.topics, event.live.counter) == (None, {}, 2)
    assert (await bed.hash("broker:broker-a"))["rev"] == "1"


async def test_topics_missing_from_a_later_registration_stay(bed):
    await bed.register(topics=["t1", "t2", "t3"])
    await bed.register(topics=["t1", "t2"], counter=2)
    assert set((await bed.contents())["topics"]) == {"t1", "t2", "t3"}


async def test_topics_missing_from_a_later_registration_go_when_it_is_set_so(bed):
    await bed.register(topics=["t1", "t2", "t3"])
    await bed.register("10.0.0.9:1", "broker-b", topics=["t3", "t4"])
    await bed.events()
    r = registration(topics=["t1", "t2"], counter=2)
    await bed.fe1.register(r, delete_missing_topics=True)
    r = registration(topics=["t1", "t5"], counter=3)
    await bed.fe1.register(r, delete_missing_topics=True)
    first, second = await bed.events()
    assert (first.dropped, first.topics) == (["t3"], {})
    assert (second.dropped, second.topics) == (["t2"], {"t5": RW})
    contents = await bed.contents()
    assert contents["topics"]["t3"] == {"broker-b": RW}
    assert set(contents["topics"]) == {"t1", "t3", "t4", "t5"}
    assert contents["broker_topics"]["broker-a"] == {"t1", "t5"}
    assert await bed.replay() == contents


async def test_one_topic_and_an_unknown_id_is_refused_and_nothing_is_stored(bed):
    before = await bed.dump()
    result = await bed.fe1.register(registration(topics=["t1"]))
    assert result.status == "REFUSED_ONE_TOPIC"
    assert await bed.dump() == before
    assert await bed.events() == []


async def test_one_topic_of_a_new_slave_is_refused_and_nothing_is_stored(bed):
    await bed.register()
    before = await bed.dump()
    slave = registration("10.0.0.2:1", broker_id=1, topics=["t1"])
    assert (await bed.fe1.register(slave)).status == "REFUSED_ONE_TOPIC"
    assert await bed.dump() == before


@pytest.mark.parametrize("topics", [[], ["t1", "t2"]])
async def test_no_topic_or_two_and_an_unknown_id_is_accepted(bed, topics):
    assert (await bed.fe1.register(registration(topics=topics))).status == "OK"


async def test_one_topic_of_a_known_id_is_accepted(bed):
    await bed.register()
    assert (await bed.fe1.register(registration(topics=["t1"], counter=2))).status == "OK"


async def test_lower_state_version_than_the_holders_is_refused_and_leaves_the_live_table(bed):
    held = await bed.register(state_version=10)
    await bed.register("10.0.0.2:1", broker_id=1, state_version=9)
    contents, before = await bed.contents(), await bed.live(held)
    await bed.events()
    late = registration("10.0.0.2:1", broker_id=0, state_version=9, counter=2)
    assert (await bed.fe1.register(late)).status == "REFUSED_STATE"
    assert await bed.contents() == contents
    assert await bed.live(held) == before
    assert (await bed.routes.touch_broker("c1", "10.0.0.2:1")).data_version is None
    assert await bed.deadline(late) is not None
    (event,) = await bed.events()
    assert (event.type, event.who, event.ignorable) == (kinds.BrokerRefused.type, "c1|10.0.0.2:1", True)
    assert (await bed.fe1.register(late)).status == "REFUSED_STATE"
    assert await bed.events() == [], "it did not count as alive before, either"
    assert (await bed.beats())[-1]["kind"] == "refused"


async def test_lower_state_version_of_a_stranger_is_refused_without_a_trace(bed):
    await bed.register(state_version=10)
    before = await bed.dump()
    late = registration("10.0.0.2:1", state_version=9)
    assert (await bed.fe1.register(late)).status == "REFUSED_STATE"
    assert await bed.dump() == before


@pytest.mark.parametrize("state_version", [10, 11, 2**62])
async def test_same_or_higher_state_version_takes_the_id(bed, state_version):
    await bed.register(state_version=10)
    assert (await bed.fe1.register(registration("10.0.0.2:1", state_version=state_version))).status == "OK"
    assert (await bed.tables()).brokers["broker-a"].broker_addrs == {0: "10.0.0.2:1"}


async def test_state_versions_compare_as_numbers_beyond_doubles(bed):
    await bed.register(state_version=2**62 + 1)
    assert (await bed.fe1.register(registration("10.0.0.2:1", state_version=2**62))).status == "REFUSED_STATE"
    await bed.register("10.0.0.3:1", "broker-b", state_version=-5)
    assert (await bed.fe1.register(registration("10.0.0.4:1", "broker-b", state_version=-6))).status == "REFUSED_STATE"
    assert (await bed.fe1.register(registration("10.0.0.4:1", "broker-b", state_version=-4))).status == "OK"


async def test_holder_that_is_not_alive_refuses_nobody(bed):
    held = await bed.register(state_version=10)
    await bed.redis("DEL", bed.key("live:c1|10.0.0.1:10911"))
    assert held
    assert (await bed.fe1.register(registration("10.0.0.2:1", state_version=1))).status == "OK"


async def test_holder_under_another_cluster_refuses_nobody(bed):
    await bed.register(state_version=10)
    other = registration("10.0.0.2:1", cluster="c2", state_version=1)
    assert (await bed.fe1.register(other)).status == "OK"


async def test_moved_row_is_answered_retry_with_what_is_known_and_nothing_is_written(bed):
    await bed.register(counter=3, timestamp=4, state_version=5)
    prepared = await bed.fe1.prepare(registration(counter=4, topics=["t1", "t2", "t3"]))
    await bed.routes.delete_topic("t1")
    before = await bed.dump()
    result = await bed.fe1.send_once(prepared)
    assert (result.status, result.n, result.compare_with.data_version) == ("RETRY", "1", DataVersion(3, 4, 5))
    assert await bed.dump() == before
    assert (await bed.fe1.send(prepared)).status == "OK"
    assert set((await bed.contents())["topics"]) == {"t1", "t2", "t3"}


async def test_moved_settings_are_answered_retry(bed):
    prepared = await bed.fe1.prepare(registration())
    await bed.kv.set_config({"brokerChannelExpiredTimeMs": "130000"})
    assert (await bed.fe1.send_once(prepared)).status == "RETRY"


async def test_another_epoch_is_answered_retry(bed):
    prepared = await bed.fe1.prepare(registration())
    await bed.redis("HSET", bed.key("meta"), "epoch", "another")
    result = await bed.fe1.send_once(prepared)
    assert (result.status, result.n, result.compare_with.data_version) == ("RETRY", "0", None)


async def test_first_registration_under_a_second_name_is_no_refresh_of_the_first(bed):
    """Both were on their way when the process was not known at all."""
    first = await bed.fe1.prepare(registration(name="broker-a"))
    second = await bed.fe1.prepare(registration(name="broker-b"))
    assert (await bed.fe1.send(first)).status == "OK"
    assert (await bed.fe1.send(second)).status == "OK"
    assert set((await bed.contents())["brokers"]) == {"broker-a", "broker-b"}


async def test_same_address_under_another_id_moves(bed):
    await bed.register(broker_id=1, enable_acting_master=False)
    await bed.events()
    await bed.register(broker_id=0)
    assert (await bed.tables()).brokers["broker-a"].broker_addrs == {0: "10.0.0.1:10911"}
    (event,) = await bed.events()
    assert event.row.addrs == {0: "10.0.0.1:10911"}


@pytest.mark.parametrize("other", [{"name": "broker-b"}, {"cluster": "c2", "name": "broker-b"}])
async def test_same_address_under_another_name_stays_in_both(bed, other):
    await bed.register()
    await bed.register(**other)
    assert {n: row.broker_addrs for n, row in (await bed.tables()).brokers.items()} == {
        "broker-a": {0: "10.0.0.1:10911"},
        "broker-b": {0: "10.0.0.1:10911"},
    }


async def test_zone_and_acting_master_of_any_member_overwrite_the_rows(bed):
    await bed.register(zone_name="z1", enable_acting_master=True)
    await bed.register("10.0.0.2:1", broker_id=1, zone_name="z2", enable_acting_master=False)
    assert (await bed.tables()).brokers["broker-a"].zone_name == "z2"
    assert not (await bed.tables()).brokers["broker-a"].enable_acting_master
    await bed.register("10.0.0.2:1", broker_id=1, zone_name=None, counter=2)
    assert (await bed.tables()).brokers["broker-a"].zone_name is None
    assert "zone" not in await bed.hash("broker:broker-a")
    assert await bed.replay() == await bed.contents()


async def test_filter_servers_none_leaves_empty_removes_list_replaces(bed):
    key = "c1|10.0.0.1:10911"
    await bed.register(filter_servers=["f1"])
    await bed.register(filter_servers=None, counter=2)
    assert (await bed.contents())["filter_servers"] == {key: ["f1"]}
    await bed.register(filter_servers=["f3", "f2"], counter=3)
    assert (await bed.contents())["filter_servers"] == {key: ["f3", "f2"]}
    assert await bed.replay() == await bed.contents()
    await bed.register(filter_servers=[], counter=4)
    assert (await bed.contents())["filter_servers"] == {}
    assert await bed.replay() == await bed.contents()


async def test_filter_servers_beyond_what_lua_can_push_at_once(bed):
    servers = [f"10.1.{i // 250}.{i % 250}:1" for i in range(9000)]
    await bed.register(filter_servers=servers)
    assert (await bed.contents())["filter_servers"] == {"c1|10.0.0.1:10911": servers}


async def test_slave_is_told_its_master_and_the_masters_ha_address(bed):
    await bed.register()
    result = await bed.fe1.register(registration("10.0.0.2:1", broker_id=1))
    assert (result.master_addr, result.ha_server_addr) == ("10.0.0.1:10911", "ha-10.0.0.1:10911")


async def test_slave_is_told_of_a_master_without_ha_address(bed):
    await bed.register(ha_server_addr=None)
    result = await bed.fe1.register(registration("10.0.0.2:1", broker_id=1))
    assert (result.master_addr, result.ha_server_addr) == ("10.0.0.1:10911", None)


async def test_slave_of_a_master_that_is_not_alive_is_told_nothing(bed):
    await bed.register()
    await bed.redis("DEL", bed.key("live:c1|10.0.0.1:10911"))
    result = await bed.fe1.register(registration("10.0.0.2:1", broker_id=1))
    assert (result.master_addr, result.ha_server_addr) == ("", None)


async def test_ha_address_that_goes_is_forgotten(bed):
    await bed.register()
    r = await bed.register(ha_server_addr=None, counter=2)
    assert "ha" not in await bed.live(r)


async def test_slaves_topics_are_ignored_without_acting_master(bed):
    await bed.register()
    await bed.register("10.0.0.2:1", broker_id=1, topics=["t8", "t9"])
    assert set((await bed.contents())["topics"]) == {"t1", "t2"}


async def test_prime_slaves_topics_count_and_lose_the_write_bit_with_acting_master(bed):
    await bed.register(broker_id=1, enable_acting_master=True)
    assert (await bed.contents())["topics"] == {"t1": {"broker-a": RO}, "t2": {"broker-a": RO}}


async def test_prime_slaves_topics_count_whole_when_acting_master_is_false(bed):
    await bed.register(broker_id=1, enable_acting_master=False)
    assert (await bed.contents())["topics"] == {"t1": {"broker-a": RW}, "t2": {"broker-a": RW}}


async def test_mappings_are_never_removed(bed):
    await bed.register(mappings={"t1": ("broker-a", '{"x":1}')})
    await bed.register(counter=2)
    await bed.register(counter=3, mappings={"t1": ("other", '{"y":1}')})
    await bed.routes.unregister_broker("c1", "10.0.0.1:10911", "broker-a")
    mappings = {"t1": {"broker-a": '{"x":1}', "other": '{"y":1}'}}
    assert (await bed.contents())["mappings"] == mappings
    assert (await bed.replay())["mappings"] == mappings


async def test_registration_without_channel_holds_none(bed):
    r = registration()
    prepared = (await bed.fe1.prepare(r))._replace(channel=NO_CHANNEL)
    assert (await bed.fe1.send(prepared)).status == "OK"
    assert await bed.channels(r) == {}
    assert await bed.members("leases") == set()


async def test_broker_that_comes_back_through_another_worker_leaves_the_first_ones_held_set(bed):
    r = await bed.register()
    bed.fe1.incarnation = "w1b"
    await bed.fe1.register(r)
    assert await bed.members("held:w1") == set()
    assert await bed.members("held:w1b") == {"c1|10.0.0.1:10911"}
    assert await bed.channels(r) == {"fe1": "w1b/1"}


@pytest.mark.parametrize("text", ["a b", "a/b", '"', "\\", "ü", "名", "\x7f", "\x01", "{}", "%RETRY%g", "a|b", "x:y"])
async def test_any_text_survives_in_every_field(bed, text):
    r = await bed.register(
        f"1{text}", f"n{text}", cluster=f"c{text}", zone_name=f"z{text}", ha_server_addr=f"h{text}",
        topics=[f"t{text}", f"u{text}"], filter_servers=[f"f{text}"], mappings={f"t{text}": (f"n{text}", text)},
    )  # fmt: skip
    contents = await bed.contents()
    assert contents["topics"] == {f"t{text}": {f"n{text}": RW}, f"u{text}": {f"n{text}": RW}}
    assert contents["brokers"][f"n{text}"] == BrokerRow(f"c{text}", {0: f"1{text}"}, f"z{text}", False, 1)
    assert await bed.replay() == contents
    await bed.routes.delete_topic(f"t{text}")
    await bed.routes.set_write_perm(f"n{text}", "wipe")
    await bed.fe1.close(r, connection=f"1{text}")
    assert (await bed.contents())["brokers"] == {}
    assert await bed.replay() == await bed.contents()


async def test_a_broker_name_has_at_most_256_ids(bed):
    """B2: thousands of ids of one brokerName; those that it has may still register, move and leave."""
    r = await bed.register(topics=[])
    await bed.redis(
        "HSET", bed.key("broker:broker-a"), *(part for i in range(1, 256) for part in (str(i), f"10.1.0.{i}:1"))
    )
    before = await bed.dump()
    with pytest.raises(StoreError, match="MQLIMIT a brokerName has at most 256 broker ids, broker-a has as many"):
        await bed.fe1.register(registration("10.0.0.9:1", broker_id=256, topics=[]))
    assert await bed.dump() == before
    assert (await bed.fe1.register(registration("10.1.0.7:1", broker_id=7, topics=[]))).status == "OK"
    assert (await bed.fe1.register(registration("10.1.0.7:1", broker_id=300, topics=[]))).status == "OK"
    assert len(await bed.hash("broker:broker-a")) == 256 + 3
    assert (await bed.fe1.register(r)).status == "OK"


async def test_a_row_that_has_thousands_of_ids_already_still_takes_registrations(bed):
    """B2: an older release took 4,100 of them; unpack then failed after the queue data was written."""
    await bed.register(topics=[])
    flat = [part for i in range(1, 4100) for part in (str(i), f"10.1.{i // 250}.{i % 250}:1")]
    await bed.redis("HSET", bed.key("broker:broker-a"), *flat)
    assert (await bed.fe1.register(registration(topics=["t1", "t2"], counter=2))).status == "OK"
    assert set((await bed.contents())["topics"]) == {"t1", "t2"}
