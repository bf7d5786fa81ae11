"""Redis Cluster: a namespace is one slot; two namespaces on two nodes; a node that dies."""

from __future__ import annotations

import asyncio
import secrets

import pytest
from redis.crc import key_slot

from bench.servers.redis_servers import cluster_setup
from mqregistry.errors import StoreError, StoreUnavailable
from mqregistry.store import keys
from mqregistry.store.connection.examination import examine
from mqregistry.store.store import Store

from ..deploy.files import acl_users, password
from ..server.fleet import beating, watching
from ..server.harness import Broker, wait_until
from ..store.bed import Bed
from .everything import use_everything
from .service import alike, contents, events, settled

BROKERS = [
    Broker("broker-a", "127.0.0.1:10911", topics=["topic1", "only-a"]),
    Broker("broker-b", "127.0.0.1:10931", topics=["topic1", "only-b"]),
]
KNOWN = {"topic1": {"broker-a", "broker-b"}, "only-a": {"broker-a"}}
# The node that has this slot has a replica.
SLOT = 5


def slot_of(namespace):
    return key_slot(keys.meta(namespace).encode())


def namespace_on(cluster, node):
    """A new namespace whose slot is on this node."""
    while True:
        name = f"t-{secrets.token_hex(6)}"
        if cluster.node_of(slot_of(name)) is node:
            return name


@pytest.fixture
def cluster(folder):
    with cluster_setup(folder, replica_of_slot=SLOT) as setup:
        yield setup


async def test_cluster_every_script_and_read_works_on_every_node(cluster):
    for node in cluster.nodes:
        node.call("ACL", "SETUSER", "mqregistry", *acl_users()["mqregistry"])
        node.call("ACL", "LOG", "RESET")
    url = cluster.url.replace("//", f"//mqregistry:{password('mqregistry')}@")
    for node in cluster.nodes[:3]:
        async with Store(url, namespace_on(cluster, node)) as store:
            assert (await store.connect()).created
            await use_everything(Bed(store))
            assert [str(finding) for finding in await examine(store) if finding.state == "wrong"] == []
            replies = await asyncio.gather(*(store.call("put_kv", "many", f"k{i}", "1", "v") for i in range(300)))
            assert len(replies) == 300
    assert all(node.call("DBSIZE") > 3 for node in cluster.nodes[:3])
    assert all(node.call("ACL", "LOG") == [] for node in cluster.nodes)
    # one seed of several is dead; the others do
    async with Store(f"redis+cluster://127.0.0.1:1,{cluster.nodes[2].address}", "other") as store:
        assert (await store.connect()).created
    cluster.nodes[0].call("ACL", "SETUSER", "default", "resetpass", ">secret")
    async with Store(f"redis+cluster://{cluster.nodes[0].address}", "other") as store:
        with pytest.raises(StoreError, match="refuses this login"):
            await store.connect()
    async with Store("redis+cluster://127.0.0.1:1,127.0.0.1:2", "other", timeout_ms=500) as store:
        with pytest.raises(StoreUnavailable, match="Redis"):
            await store.connect()


def test_cluster_node_killed_its_namespace_goes_on_and_the_other_notices_nothing(cluster, front_end_with, sweeper_for):
    killed = cluster.node_of(SLOT)
    here = namespace_on(cluster, killed)
    there = namespace_on(cluster, cluster.nodes[1])
    settings = {"broker_channel_expired_time_ms": 10_000, "redis_timeout_ms": 2000}
    front_ends = [front_end_with(cluster.url, namespace=here, **settings) for _ in range(2)]
    unharmed = front_end_with(cluster.url, namespace=there, **settings)
    sweeper_for(cluster.url, namespace=here)
    with (
        beating(BROKERS, front_ends) as fleet,
        beating(BROKERS, [unharmed]) as other_fleet,
        watching([*front_ends, unharmed], KNOWN),
    ):
        with front_ends[0].client() as client:
            assert client.request(100, {"namespace": "ns", "key": "before", "value": "1"}).code == 0
        replica = cluster.nodes[3]
        wait_until(lambda: replica.call("ROLE")[4] == killed.call("ROLE")[1], "the replica has it all")
        for member in (*fleet, *other_fleet):
            member.answers.clear()
        killed.kill()
        with front_ends[0].client() as client:
            assert client.request(100, {"namespace": "ns", "key": "during", "value": "1"}).code == 1
            assert client.route("never-heard-of").code == 1
        wait_until(lambda: replica.call("ROLE")[0] == b"master", "the replica takes over")
        for front_end in front_ends:
            front_end.wait_until(lambda f=front_end: settled(f), "Redis is back")
        for member in fleet:
            member.answers.clear()
        for member in fleet:
            wait_until(lambda m=member: m.answers[0] >= 2, "registrations succeed again")
        wait_until(lambda: alike(front_ends, KNOWN), "both front ends answer alike")
        found = contents(cluster.url, here)
        assert set(found["brokers"]) == {"broker-a", "broker-b"}
        assert found["kv"]["ns"]["before"] == "1"
        assert not [event for event in events(replica, here) if event.type == "broker_expired"]
        assert all(set(member.answers) == {0} for member in other_fleet)
        # and when the whole cluster goes, routes are answered still
        for node in cluster.nodes:
            node.kill()
        for front_end in (*front_ends, unharmed):
            front_end.wait_until(lambda f=front_end: f.poll()["redis_away"], "it noticed that Redis is away")
            with front_end.client() as client:
                assert client.request(100, {"namespace": "ns", "key": "late", "value": "1"}).code == 1
                assert client.route("never-heard-of").code == 1
