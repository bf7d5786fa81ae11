"""Every script of the project and every read, once: for users with few rights, and for a cluster."""

from __future__ import annotations

import msgspec

from mqregistry.auth.changes import add_secret, add_user, drop_secret, remove_user, set_mode
from mqregistry.auth.decide import decide
from mqregistry.auth.policy import Mode
from mqregistry.auth.refused import Last, RefusedKind
from mqregistry.auth.rights import Kind, Resource, Right, Role
from mqregistry.auth.users import User
from mqregistry.model import ORDER_TOPIC_CONFIG, QueueData, who
from mqregistry.store import keys, scripts
from mqregistry.store.auth.policies import PolicyStore, new_secret
from mqregistry.store.auth.refusals import RefusalStore, read_last_use
from mqregistry.store.processes import (
    PeerAddress,
    SweeperFacts,
    WorkerFacts,
    encode_peers,
    read_connections,
    read_fleet,
    this_process,
)
from mqregistry.store.read_broker import read_broker
from mqregistry.store.snapshot import read_queues, read_section
from mqregistry.store.streams import StreamLimits, StreamStore, lookup_entries
from tests.waiting import until

from ..store.bed import Bed, acknowledge, registration


async def use_authentication(bed: Bed) -> None:
    """Users and what is noted of their requests."""
    policies, refusals = PolicyStore(bed.store), RefusalStore(bed.store)
    made = await policies.change(lambda policy: add_user(policy, User("boss", roles=(Role.ADMIN,))))
    secrets = [new_secret(1), new_secret(1)]
    for secret in secrets:
        await policies.change(lambda policy, secret=secret: add_secret(policy, "boss", secret))
    await policies.note_used([("boss", secret.id) for secret in secrets])
    enforced = await policies.change(lambda policy: set_mode(policy, Mode.ENFORCE))
    await policies.change(lambda policy: drop_secret(policy, "boss", secrets[0].id))
    assert (await read_last_use(bed.store)).keys() == {secrets[1].id}
    assert await policies.restore(enforced) > enforced.revision > made.revision
    await policies.switch_off()
    await policies.change(lambda policy: remove_user(policy, "boss"))
    await bed.redis("DEL", keys.auth_policy(bed.store.namespace))  # as a Redis that lost it
    assert await policies.restore(made) == (await policies.read()).revision == made.revision
    decision = decide(made, None, Right.PERM, (Resource(Kind.BROKER, "broker-a"),), None)
    await refusals.note("fe1", Mode.OBSERVE, [(RefusedKind.of(decision), 3, Last("10.0.0.1", ""))] * 2)
    assert [(row.count, row.kind.user) for row in await refusals.summary()] == [(6, "anonymous")]
    assert [entry.count for entry in await refusals.entries()] == [3, 3]


async def use_everything(bed: Bed) -> None:
    """Run it all; fails when a script was left out."""
    store, routes, kv, leases = bed.store, bed.routes, bed.kv, bed.leases
    worker = WorkerFacts(**this_process(), front_end="fe1", name="ns1:9876", address="10.0.0.9:9876", ready=True)
    peers = encode_peers([(who("c1", "10.0.0.1:10911"), PeerAddress("10.0.0.1:51234"))])
    await leases.renew("w1", 600_000, process=msgspec.json.encode(worker), peers=peers)
    await leases.renew("w2", 1)
    many = [f"t{i}" for i in range(1200)]
    await bed.register(topics=many, filter_servers=["10.0.0.1:9000", "10.0.0.1:9001"],
                       mappings={"t1": ("broker-a", "{}")}, zone_name="z1", enable_acting_master=True)  # fmt: skip
    slave = await bed.register("10.0.0.2:10911", broker_id=1, topics=many, enable_acting_master=True)
    seldom = registration("10.0.0.3:10911", "broker-b", topics=["t1", "t2", "own"], heartbeat_timeout_ms=2000)
    await bed.fe2.register(seldom, connection="only")
    assert (await bed.fe1.prepare(slave, connection=slave.broker_addr)).heartbeat.same
    assert (await routes.touch_broker("c1", "10.0.0.1:10911", bed.fe1.channel("late"))).data_version is not None
    stale = await bed.fe1.prepare(registration(topics=[*many, "new"], counter=2), connection="c")
    fewer = registration(topics=many[:-1], counter=3, filter_servers=["10.0.0.1:9000"])
    await bed.fe2.register(fewer, connection="d", delete_missing_topics=True)
    assert (await bed.fe1.send_once(stale)).status == "REFRESHED"
    assert (await routes.set_write_perm("broker-a", "wipe"))[1] > 1000
    await routes.set_write_perm("broker-a", "add")
    await routes.register_topic("given", [("broker-a", QueueData(4, 4, 6))])
    await routes.delete_topic("t5", "c1")
    await routes.delete_topic("t6")
    await kv.put(ORDER_TOPIC_CONFIG, "t1", "broker-a:4")
    await kv.put("ns", "key", "value")
    await kv.put("ns", "nothing", None)
    await kv.delete("ns", "key")
    await kv.set_config({"orderMessageEnable": "true"})
    assert await bed.give_back("kv", "ns", [("restored", "1")]) == "OK"
    await leases.attach("fe1", [(who("c1", "10.0.0.1:10911"), "w1/9"), (who("c1", "unknown:1"), "w1/9")])
    assert [rows async for rows in read_queues(store)]
    for section in ("brokers", "clusters", "filters", "mappings", "kv", "config", "live"):
        assert [name async for name, _ in read_section(store, section)], section
    assert await bed.contents() == await bed.replay()
    view = await read_broker(store, "broker-a", many, [("t1", "broker-a")], all_topics=True)
    assert view.row is not None
    assert view.tables.mappings == {"t1": {"broker-a": "{}"}}
    by_id = await bed.register("10.0.0.6:10911", "broker-e", topics=["t1", "only-e"])
    # what 104 is with compat 4.8
    gone = who("c1", by_id.broker_addr)
    done = await store.call("unregister_broker_id", gone, by_id.broker_addr, "broker-e", 0, "c1", "", 0, "", "")
    assert done[2] == 1
    # a group with many topics loses its master, and then its last broker; it comes back before all of that is done
    big = {"name": "broker-f", "topics": [f"t{i}" for i in range(3100)], "enable_acting_master": True}
    for _ in range(2):
        await bed.register("10.0.0.7:10911", **big)
        await bed.register("10.0.0.8:10911", broker_id=1, **big)
        await routes.unregister_broker("c1", "10.0.0.7:10911", "broker-f")
    await bed.register("10.0.0.8:10911", broker_id=1, counter=2, **big)
    await routes.unregister_broker("c1", "10.0.0.8:10911", "broker-f")
    await bed.register("10.0.0.7:10911", **big)
    await routes.unregister_broker("c1", "10.0.0.7:10911", "broker-f")
    # a master goes: the slave stands in, without write permission
    await routes.unregister_broker("c1", "10.0.0.1:10911", "broker-a")
    await routes.unregister_broker("other", "10.0.0.2:10911", "broker-a")
    # a broker falls silent; a worker dies, and one broker's last connection with it
    await bed.let_pass(3000)
    assert (await leases.expire(50)).whos == [who("c1", "10.0.0.3:10911")]
    leaving = await bed.register("10.0.0.4:10911", "broker-c")
    await bed.fe2.register(leaving, connection="second")
    await bed.fe1.close(leaving, connection=leaving.broker_addr)
    await bed.let_pass(20_000)

    async def lease_ended():
        return await bed.redis("EXISTS", bed.key("lease:w2")) == 0

    await until(lease_ended, "the lease has run out")
    sweeper = msgspec.json.encode(SweeperFacts(**this_process()))
    assert (await leases.reap(50, sweeper="s1", process=sweeper))[0] >= 1
    await bed.let_pass(36_000)
    assert (await leases.expire(50)).whos == [who("c1", "10.0.0.4:10911")]
    fleet = await read_fleet(store)
    assert [one.state for one in fleet.front_ends] == ["gone"]
    assert [one.id for one in fleet.sweepers] == ["s1"]
    await read_connections(store, fleet.now_ms)
    await bed.move_clock(-60_000)
    await leases.renew("w1")
    last = await bed.register("10.0.0.5:10911", "broker-d")
    assert await bed.fe1.close(last, connection=last.broker_addr) == "REMOVED"
    await leases.release("w1")
    assert await bed.contents() == await bed.replay()
    await use_authentication(bed)
    streams = StreamStore(store)
    await acknowledge(streams, "reader", {"changes": (await bed.head()).last_id})
    await streams.write_lookups("fe1", "w1", 1, 10_000, lookup_entries({"t1": 1}, {"none": 2}))
    assert set((await streams.survey()).readers) == {"reader"}
    few = StreamLimits(1, 1, 1, 1, 1)
    done = await streams.trim({"changes": few, "heartbeats": few, "lookups": few}, reader_timeout_ms=1)
    assert done.removed > 0
    assert await streams.forget_reader("reader")
    while (await leases.tidy_topics(500, 0))[0]:
        pass
    assert await leases.tidy_topics() == (False, 0), "nothing is to be mended"
    assert set(store.times.scripts) == {*scripts.load()} - {"init_namespace"}
