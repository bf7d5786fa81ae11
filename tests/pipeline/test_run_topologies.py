"""A pipeline's Redis behind TLS, with a user of the least rights, under Sentinel, as a Cluster: real processes."""

from __future__ import annotations

import asyncio
import re
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

from bench.servers.redis_servers import HOST, RedisProcess, cluster_setup
from mqregistry.errors import StoreError, StoreUnavailable
from mqregistry.pipeline.lake.lake import Lake
from mqregistry.pipeline.namespace import RunSettings
from mqregistry.pipeline.past.audit import audit
from mqregistry.pipeline.redis_stream.stream import OtherPast
from mqregistry.pipeline.run import run
from mqregistry.store import scripts
from mqregistry.store.store import Store
from tests.deploy.conftest import deployed  # noqa: F401 - a fixture
from tests.deploy.files import granted, login
from tests.topology.servers import TlsProxy, make_certificates, sentinel_setup

from .world import World

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("without_gold")]

# For a database number, and for a Redis Cluster.
NOT_HERE = {"select", "command", "cluster|slots", "asking"}
FROM_HERE = {"evalsha", "hmget", "hscan", "sscan", "xinfo|stream", "xlen", "xrange", "xread", "xrevrange"}


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="mq") as name:
        yield Path(name)


def live(url, namespace, operations=30, seed=1):
    """Some more of a registry's life; gives its epoch."""

    async def play():
        async with Store(url, namespace, timeout_ms=10_000) as store:
            await store.connect()
            world = World(store, seed)
            for _ in range(operations):  # a login with few rights cannot look at every key, as World.run does
                await world.step()
            return (await world.bed.head()).epoch

    return asyncio.run(play())


@pytest.fixture
def record(spark, lake):
    def once(url, namespace, *, where=lake, tell=print, **more):
        return run(spark, where, RunSettings(url, [namespace], **more), once=True, tell=tell)

    return once


def recorded(lake, namespace, epoch):
    """(id, seq, event) of every change in bronze."""
    rows = lake.read("bronze/changes", namespace=namespace, epoch=epoch).to_pylist()
    return sorted((row["id_ms"], row["id_n"], row["seq"], row["e"]) for row in rows)


def held(server, namespace):
    """The same of the stream."""
    from mqregistry.events.changes import decode_change

    with server.client() as client:
        found = client.xrange(f"mq:{{{namespace}}}:changes")
    return [
        (*map(int, entry_id.split(b"-")), decode_change(fields[b"e"]).seq, fields[b"e"].decode())
        for entry_id, fields in found
    ]


@pytest.mark.long
def test_a_user_with_just_these_rights_runs_and_audits(deployed, namespace, lake, spark, record):  # noqa: F811
    epoch = live(login(deployed, "mqregistry"), namespace)
    deployed.call("XTRIM", f"mq:{{{namespace}}}:changes", "MAXLEN", 5)  # so that the tables are read
    url = login(deployed, "mqpipeline")
    deployed.call("ACL", "LOG", "RESET")
    deployed.call("CONFIG", "RESETSTAT")
    told: list[str] = []
    assert record(url, namespace, tell=told.append)["heartbeats"] > 0
    # the right to say how far it has read would be one to write every table: Redis 6.2 cannot say "only this key"
    (refused,) = [text for text in told if "lacks a right" in text]
    assert "run it more often than changesMaxAgeHours" in refused
    deployed.call("ACL", "LOG", "RESET")
    used = stats(deployed)
    live(login(deployed, "mqregistry"), namespace, seed=2)
    deployed.call("CONFIG", "RESETSTAT")
    assert audit(spark, url, namespace, lake).ok  # with changes that only the stream has
    used |= stats(deployed)
    assert deployed.call("ACL", "LOG") == []
    assert record(url, namespace)["changes"] > 0
    refusals = [dict(zip(row[::2], row[1::2], strict=True)) for row in deployed.call("ACL", "LOG")]
    assert {(row[b"context"], row[b"object"]) for row in refusals} == {(b"lua", b"hset")}
    assert recorded(lake, namespace, epoch)[-1] == held(deployed, namespace)[-1]
    # none too many: each is one that was used, or that a script of the pipeline may use
    commands = {_text(row[0]) for row in deployed.call("EVAL", "return redis.call('COMMAND')", 0)}
    in_scripts = set()
    for name in ("acknowledge", "snapshot"):
        code = re.sub(r"--\[\[.*?\]\]|--[^\n]*", "", scripts.load()[name].source, flags=re.S)
        in_scripts |= {word.lower() for word in re.findall(r'"([A-Z]+)"', code)} & commands
    assert granted("mqpipeline") == (FROM_HERE | in_scripts | NOT_HERE) - {"hset"}
    assert used | {"xlen"} >= FROM_HERE


def stats(server):
    """Commands that ran since the last reset, also within scripts."""
    with server.client() as client:
        found = {name.removeprefix("cmdstat_") for name in client.info("commandstats")}
    return {"xinfo|stream" if name == "xinfo" else name for name in found}


def _text(value):
    return value.decode() if isinstance(value, bytes) else value


def test_a_missing_right_is_said(folder, namespace, lake, spark, record):
    with RedisProcess(folder / "node") as server:
        live(server.url, namespace)
        rights = [f"+{name}" for name in granted("mqpipeline") - {"xinfo|stream"}]
        server.call("ACL", "SETUSER", "few", "on", ">x", "~mq:*", *rights)
        with pytest.raises(StoreError, match=r"lacks a right.*'xinfo"):
            record(f"redis://few:x@{server.address}", namespace)


@pytest.mark.long
def test_over_tls(folder, namespace, lake, spark, record):
    ca, certificate, key = make_certificates(folder)
    with RedisProcess(folder / "node") as server:
        proxy = TlsProxy(server.port, certificate, key)
        try:
            epoch = live(server.url, namespace)
            url = f"rediss://{HOST}:{proxy.port}?ssl_ca_certs={ca}"
            record(url, namespace)
            assert recorded(lake, namespace, epoch) == held(server, namespace)
            assert audit(spark, url, namespace, lake).ok
            with pytest.raises(StoreUnavailable, match=r"(?i)certificate"):
                record(f"rediss://{HOST}:{proxy.port}", namespace)
        finally:
            proxy.close()


@pytest.mark.long
def test_a_cluster(folder, namespace, lake, spark, record):
    with cluster_setup(folder) as cluster:
        epoch = live(cluster.url, namespace)
        record(cluster.url, namespace)
        assert audit(spark, cluster.url, namespace, lake).ok
        slot = cluster.nodes[0].call("CLUSTER", "KEYSLOT", f"mq:{{{namespace}}}:changes")
        assert recorded(lake, namespace, epoch) == held(cluster.node_of(slot), namespace)


@pytest.mark.long
def test_sentinel_fails_over_between_batches_and_rounds(folder, namespace, lake, spark, record):
    with sentinel_setup(folder) as sentinel:
        epoch = live(sentinel.url, namespace, 60)
        before = held(sentinel.master, namespace)
        wait_caught_up(sentinel)
        new = sentinel.replica
        failed_over = []

        def tell(text):
            """After the first batch of several, the master dies."""
            if text.startswith("changes: ") and not failed_over:
                failed_over.append(text)
                sentinel.master.kill()
                sentinel.wait_for_failover(new)

        limit = len(before) // 4
        try:
            record(sentinel.url, namespace, tell=tell, limit=limit)
        except StoreUnavailable:  # told so, and then run again
            record(sentinel.url, namespace, limit=limit)
        assert failed_over
        assert recorded(lake, namespace, epoch) == before == held(new, namespace)
        assert live(sentinel.url, namespace, 20, seed=2) == epoch
        record(sentinel.url, namespace)
        assert recorded(lake, namespace, epoch) == held(new, namespace)
        assert audit(spark, sentinel.url, namespace, lake).ok


@pytest.mark.long
def test_sentinel_promotes_a_replica_that_has_less_than_was_read(folder, namespace, lake, tmp_path, spark, record):
    # Sentinel takes no replica that was parted for more than ten times this: a round must fit in
    with sentinel_setup(folder, down_after_ms=15_000) as sentinel:
        epoch = live(sentinel.url, namespace)
        wait_caught_up(sentinel)
        new = sentinel.replica
        sentinel.part()
        live(sentinel.url, namespace, 20, seed=2)
        lost = held(sentinel.master, namespace)
        record(sentinel.url, namespace)
        assert recorded(lake, namespace, epoch) == lost
        sentinel.master.kill()
        sentinel.wait_for_failover(new)
        with pytest.raises(OtherPast, match=r"earlier state.*begin another lake: --lake DIR"):
            record(sentinel.url, namespace)
        live(sentinel.url, namespace, 60, seed=3)  # more than what was lost
        for accept_gap in (False, True):
            with pytest.raises(OtherPast, match=r"earlier state.*begin another lake: --lake DIR"):
                record(sentinel.url, namespace, accept_gap=accept_gap)
        assert recorded(lake, namespace, epoch) == lost  # as it was
        other = Lake(str(tmp_path / "other"))
        record(sentinel.url, namespace, where=other)
        assert recorded(other, namespace, epoch) == held(new, namespace)
        assert audit(spark, sentinel.url, namespace, other).ok


def wait_caught_up(sentinel):
    from tests.server.harness import wait_until

    wait_until(sentinel.caught_up, "the replica has it all", 30)
