"""What workers and sweepers tell of themselves in Redis, and how it is read: who is there, ready, gone."""

from __future__ import annotations

import msgspec
import pytest

from mqregistry.model import who
from mqregistry.store.operator_reads import read_brokers
from mqregistry.store.processes import (
    PEERS_MOST,
    PeerAddress,
    SweeperFacts,
    WorkerFacts,
    encode_peers,
    read_connections,
    read_fleet,
)

HOUR_MS = 3_600_000


def worker(**fields):
    given = {"host": "ns1", "pid": 7, "release": "1", "started_ms": 1, "front_end": "fe1", "name": "ns1:9876",
             "address": "10.0.0.9:9876", "http_address": "10.0.0.9:10876", "ready": True, **fields}  # fmt: skip
    return msgspec.json.encode(WorkerFacts(**given))


SWEEPER = msgspec.json.encode(SweeperFacts(host="ns1", pid=8, release="1", started_ms=1, expired=3))


async def states(bed):
    return {one.name: one.state for one in (await read_fleet(bed.store)).front_ends}


async def test_a_front_end_is_what_its_workers_tell(bed):
    await bed.register()
    await bed.kv.put("ns", "k", "v")
    await bed.leases.renew("w1", process=worker(workers=2, seq=1, connections=3, brokers=1, started_ms=5))
    assert await states(bed) == {"ns1:9876": "not ready"}, "one of two workers"
    await bed.leases.renew("w2", process=worker(workers=2, index=1, seq=2, connections=4, started_ms=9))
    (front_end,) = (await read_fleet(bed.store)).front_ends
    assert (front_end.state, front_end.address, front_end.seq, front_end.behind) == ("ready", "10.0.0.9:9876", 1, 1)
    assert (front_end.connections, front_end.brokers, front_end.started_ms) == (7, 1, 5)
    assert [one.incarnation for one in front_end.workers] == ["w1", "w2"]


@pytest.mark.parametrize(
    ("told", "state"),
    [({}, "ready"), ({"ready": False}, "not ready"), ({"draining": True}, "draining"), ({"workers": 2}, "not ready")],
)
async def test_the_state_is_that_of_readyz(bed, told, state):
    await bed.leases.renew("w1", process=worker(**told))
    assert await states(bed) == {"ns1:9876": state}


async def test_a_worker_that_restarted_counts_once(bed):
    await bed.leases.renew("w1", process=worker(workers=1, connections=100, started_ms=1))
    await bed.leases.renew("w1b", process=worker(workers=1, connections=1, started_ms=2))
    (front_end,) = (await read_fleet(bed.store)).front_ends
    assert (front_end.state, front_end.connections, front_end.workers[0].incarnation) == ("ready", 1, "w1b")


async def test_one_that_is_silent_for_a_lease_is_gone_and_after_an_hour_forgotten(bed):
    await bed.leases.renew("w1", process=worker())
    await bed.leases.reap(10, sweeper="s", process=SWEEPER)
    await bed.move_clock(5001)
    assert await states(bed) == {"ns1:9876": "gone"}
    assert not (await read_fleet(bed.store)).sweepers[0].gone
    await bed.move_clock(5000)
    assert (await read_fleet(bed.store)).sweepers[0].gone
    await bed.move_clock(HOUR_MS)
    await bed.leases.renew("other")
    assert await bed.hash("processes") == {}


async def test_the_entry_of_one_that_is_gone_is_forgotten_by_sweepers_too_with_its_peers(bed):
    await bed.leases.renew("w1", process=worker(), peers=encode_peers([("c1|a:1", PeerAddress("p:1"))]))
    await bed.move_clock(HOUR_MS + 1)
    await bed.leases.reap(10, sweeper="s", process=SWEEPER)
    assert set(await bed.hash("processes")) == {"s"}
    assert await bed.hash("peers") == {}


async def test_one_that_is_gone_is_not_shown_beside_its_successor(bed):
    await bed.leases.renew("w1", process=worker())
    await bed.move_clock(6000)
    await bed.leases.renew("w2", process=worker(front_end="fe1-again"))
    assert [(one.id, one.state) for one in (await read_fleet(bed.store)).front_ends] == [("fe1-again", "ready")]


async def test_a_drained_worker_leaves_nothing(bed):
    await bed.leases.renew("w1", process=worker(), peers=encode_peers([("c1|a:1", PeerAddress("p:1"))]))
    await bed.leases.release("w1")
    assert (await bed.hash("processes"), await bed.hash("peers")) == ({}, {})


async def test_a_renewal_that_tells_nothing_leaves_what_was_told(bed):
    await bed.leases.renew("w1", process=worker(), peers=encode_peers([("c1|a:1", PeerAddress("p:1"))]))
    before = await bed.hash("processes"), await bed.hash("peers")
    await bed.leases.renew("w1")
    assert (await bed.hash("processes"), await bed.hash("peers")) == before
    await bed.leases.renew("w1", process=worker(seq=9))
    assert (await read_fleet(bed.store)).front_ends[0].seq == 9
    assert await bed.hash("peers") == before[1]


@pytest.mark.parametrize("text", ["", "x", "12", "12 {", '12 {"kind":"poet"}', '12 {"kind":"worker"}'])
async def test_what_another_release_tells_stops_nobody(bed, text):
    await bed.redis("HSET", bed.key("processes"), "w0", text)
    await bed.leases.renew("w1", process=worker())
    assert await states(bed) == {"ns1:9876": "ready"}
    await bed.leases.reap(10, sweeper="s", process=SWEEPER)


async def test_a_member_that_a_later_release_adds_is_passed_over(bed):
    await bed.leases.renew("w1", process=worker()[:-1] + b',"mood":"good"}')
    assert await states(bed) == {"ns1:9876": "ready"}


async def test_brokers_name_the_front_end_and_where_they_come_from(bed):
    r = await bed.register()
    name = who(r.cluster, r.broker_addr)
    await bed.fe2.register(r, connection="2")
    await bed.leases.renew(
        "w1", process=worker(), peers=encode_peers([(name, PeerAddress("10.0.0.1:51234", "10.0.0.8:4"))])
    )
    (info,) = await read_brokers(bed.store)
    assert info.front_ends == 2
    assert [str(one) for one in info.connections] == ["fe2", "ns1:9876 from 10.0.0.1:51234 via 10.0.0.8:4"]
    assert [(one.worker, one.address) for one in info.connections] == [("w2", ""), ("w1", "10.0.0.9:9876")]


async def test_a_program_that_writes_to_redis_itself_is_its_own_front_end(bed):
    connections = await read_connections(bed.store, 0)
    assert [str(one) for one in connections.of("c1|a:1", {b"direct:xy": b"inc/1@b5"})] == ["direct"]


async def test_peers_that_cannot_be_read_are_not_known(bed):
    r = await bed.register()
    await bed.leases.renew("w1", process=worker(), peers=b"[")
    assert [str(one) for one in (await read_brokers(bed.store))[0].connections] == ["ns1:9876"]
    assert r.broker_addr


def test_so_many_peers_are_told_and_no_more():
    told = msgspec.json.decode(encode_peers((f"c1|{i}", PeerAddress(f"p:{i}")) for i in range(PEERS_MOST + 5)))
    assert len(told) == PEERS_MOST


@pytest.mark.parametrize("key", ["processes", "peers"])
async def test_a_key_of_another_type_is_refused_before_anything_is_written(bed, key):
    await bed.redis("SET", bed.key(key), "x")
    with pytest.raises(Exception, match="not a hash"):
        await bed.leases.renew("w1", process=worker())
    assert await bed.members("leases") == set()
