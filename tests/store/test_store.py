"""One namespace on one Redis: lost scripts, lost namespaces, and whether that Redis is fit."""

from __future__ import annotations

import asyncio

import pytest

from bench.servers.processes import free_port
from mqregistry.errors import StoreError, StoreUnavailable
from mqregistry.events.changes import SCHEMA_MINOR
from mqregistry.store.store import Store
from tests.waiting import until

from .bed import Bed, registration


@pytest.fixture
def own(runner, own_redis, namespace):
    store = Store(own_redis.url, namespace)
    runner.run(store.connect())
    yield Bed(store)
    runner.run(store.close())


async def every_script(bed):
    """Each script once, so that it has to be there."""
    r = registration()
    await bed.fe1.register(r)
    await bed.fe1.register(r)
    await bed.routes.touch_broker("c1", "10.0.0.1:10911")
    await bed.routes.set_write_perm("broker-a", "wipe")
    await bed.routes.delete_topic("t1")
    await bed.routes.register_topic("t3", [])
    await bed.kv.put("ns", "a", "1")
    await bed.kv.delete("ns", "a")
    await bed.give_back("kv", "ns", [("b", "1")])
    await bed.kv.set_config({"a": "1"})
    await bed.leases.renew("w1")
    await bed.leases.attach("fe1", [("c1|10.0.0.1:10911", "w1/2")])
    await bed.leases.expire(1)
    await bed.leases.reap(1)
    await bed.leases.release("w1")
    await bed.fe1.close(r)
    await bed.routes.unregister_broker("c1", "10.0.0.1:10911", "broker-a")


async def test_scripts_that_redis_lost_are_sent_again(own, namespace):
    await every_script(own)
    first = await own.contents()
    await own.redis("FLUSHALL")
    await own.store.init_namespace()
    flushing = Bed(own.store)
    call = own.store.call

    async def call_without_scripts(*arguments, **by):
        await own.redis("SCRIPT", "FLUSH")
        return await call(*arguments, **by)

    for part in (flushing.fe1.routes, flushing.fe1.leases, flushing.fe1.kv):
        part._call = call_without_scripts
    await every_script(flushing)
    assert await own.contents() == first


async def test_lost_script_is_sent_with_the_call_and_stays(own):
    await own.redis("SCRIPT", "FLUSH")
    await own.kv.put("ns", "a", "1")
    sha = own.store._scripts["put_kv"].sha
    assert await own.redis("SCRIPT", "EXISTS", sha) == [True]
    assert len(await own.events()) == 1


async def test_namespace_that_redis_lost_is_made_anew_under_another_epoch(own):
    await own.register()
    before = await own.head()
    await own.redis("FLUSHALL")
    r = registration()
    assert (await own.fe1.register(r)).status == "OK"
    after = await own.head()
    assert after.epoch != before.epoch
    assert after.seq == 1
    assert set((await own.contents())["brokers"]) == {"broker-a"}


async def test_registration_compared_before_redis_lost_everything_is_compared_again(own):
    await own.register()
    prepared = await own.fe1.prepare(registration(counter=2))
    await own.redis("FLUSHALL")
    assert (await own.fe1.send_once(prepared)).status == "RETRY"
    assert (await own.fe1.send(prepared)).status == "OK"
    assert set((await own.contents())["topics"]) == {"t1", "t2"}


async def test_lost_namespace_is_made_once_by_however_many(own, own_redis, namespace):
    await own.redis("FLUSHALL")
    stores = [Store(own_redis.url, namespace) for _ in range(8)]
    bed = [Bed(store) for store in stores]
    await asyncio.gather(*(b.kv.put("ns", str(i), "v") for i, b in enumerate(bed)))
    assert len({(await b.head()).epoch for b in bed}) == 1
    assert (await own.head()).seq == 8
    assert await own.replay() == await own.contents()
    for store in stores:
        await store.close()


async def test_init_says_who_made_it(own_redis, namespace):
    async with Store(own_redis.url, namespace) as store:
        first = await store.init_namespace()
        assert (first.schema, first.compat, first.seq, first.created) == ("2", "5.x", 0, True)
        again = await store.init_namespace()
        assert again == first._replace(created=False)


async def test_another_schema_version_is_refused(own, own_redis, namespace):
    await own.redis("HSET", own.key("meta"), "schema", "99")
    async with Store(own_redis.url, namespace) as store:
        with pytest.raises(StoreError, match=r"schema version 99, this is version 2: use the release that wrote it"):
            await store.connect()


async def test_a_minor_is_let_in_and_the_highest_is_kept(own_redis, namespace, monkeypatch, caplog):
    async def minor(number: int) -> int:
        monkeypatch.setattr("mqregistry.store.store.SCHEMA_MINOR", number)
        async with Store(own_redis.url, namespace) as store:
            return (await store.connect()).schema_minor

    caplog.set_level("INFO")
    assert [await minor(number) for number in (0, 3, 1)] == [0, 3, 3]
    assert "was also written with schema 2.3; this process has 2.1 and ignores later additions" in caplog.text


async def test_who_is_refused_leaves_no_mark(own, own_redis, namespace, monkeypatch):
    monkeypatch.setattr("mqregistry.store.store.SCHEMA_MINOR", 7)
    async with Store(own_redis.url, namespace, compat="4.8") as store:
        with pytest.raises(StoreError):
            await store.connect()
    for module in ("store", "connection.schema"):
        monkeypatch.setattr(f"mqregistry.store.{module}.SCHEMA_MAJOR", 3)
    async with Store(own_redis.url, namespace) as store:
        with pytest.raises(StoreError):
            await store.connect()
    assert (await own.hash("meta")).get("schema_minor", "0") == str(SCHEMA_MINOR)


async def test_another_compat_mode_is_refused(own, own_redis, namespace):
    async with Store(own_redis.url, namespace, compat="4.8") as store:
        with pytest.raises(StoreError, match=r"made for compat 5\.x, this front end is set to 4\.8: start it with"):
            await store.connect()


async def test_namespaces_do_not_see_each_other(own, own_redis, namespace):
    await own.register()
    async with Store(own_redis.url, namespace + "x") as store:
        await store.connect()
        assert (await Bed(store).contents())["brokers"] == {}


async def test_eviction_policy_that_may_drop_tables_is_refused(own):
    await own.redis("CONFIG", "SET", "maxmemory", "100mb")
    try:
        assert await own.store.check_server() == []
        await own.redis("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        with pytest.raises(StoreError, match=r"maxmemory-policy allkeys-lru: .*set it to noeviction"):
            await own.store.check_server()
        await own.redis("CONFIG", "SET", "maxmemory", "0")
        assert await own.store.check_server() == []
    finally:
        await own.redis("CONFIG", "SET", "maxmemory-policy", "noeviction")
        await own.redis("CONFIG", "SET", "maxmemory", "0")


async def test_redis_without_append_only_file_is_warned_of(own, caplog):
    await own.redis("CONFIG", "SET", "appendonly", "no")
    try:
        (warning,) = await own.store.check_server()
        assert "append-only file" in warning
        assert "appendonly yes" in warning
        await own.store.connect()
        assert warning in caplog.text
    finally:
        await own.redis("CONFIG", "SET", "appendonly", "yes")

        async def written():  # before that it would not stop
            return not (await own.store.client.info("persistence"))["aof_rewrite_in_progress"]

        await until(written, "the first file is written")


async def test_redis_that_is_too_old_is_refused(own, monkeypatch):
    real = own.store.client.info

    async def info(section, **options):
        found = await real(section, **options)
        return found | {"redis_version": "6.0.16"} if section == "server" else found

    monkeypatch.setattr(own.store.client, "info", info)
    with pytest.raises(StoreError, match=r"Redis 6\.0\.16 at .* is too old: 6\.2 or later is needed"):
        await own.store.check_server()


async def test_redis_that_cannot_write_now_is_away(own):
    await own.redis("CONFIG", "SET", "maxmemory", "1")
    try:
        with pytest.raises(StoreUnavailable, match=r"put_kv in namespace .*: Redis cannot write now"):
            await own.kv.put("ns", "a", "1")
    finally:
        await own.redis("CONFIG", "SET", "maxmemory", "0")
    assert (await own.contents())["kv"] == {}


async def test_redis_that_is_not_there_is_away(tmp_path):
    async with Store(f"unix://{tmp_path}/none.sock") as store:
        with pytest.raises(StoreUnavailable, match="cannot use Redis at unix://"):
            await store.connect()
        with pytest.raises(StoreUnavailable, match="put_kv in namespace 'default': Redis is away"):
            await store.call("put_kv", "ns", "a", "1", "v")


async def test_sentinels_that_do_not_answer_are_named(namespace):
    addresses = [f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"]
    async with Store(f"redis+sentinel://{','.join(addresses)}/mymaster", namespace) as store:
        with pytest.raises(StoreUnavailable) as caught:
            await store.connect()
    wanted = f"Redis is away: No master found for 'mymaster'; no answer from Sentinel {', '.join(addresses)}"
    assert str(caught.value).endswith(wanted)


async def test_times_of_scripts_are_counted(own):
    await own.kv.put("ns", "a", "1")
    await own.kv.put("ns", "b", "1")
    times = own.store.times.scripts["put_kv"]
    assert times.times == 2
    assert 0 < times.total_s < 10
    await own.store.read(("TYPE", "x{y}"), ("TYPE", "x{z}"))
    assert own.store.times.reads.times == 1


async def test_calls_that_fail_are_counted_by_what_redis_did(own, tmp_path):
    with pytest.raises(StoreError):
        await own.store.read(("HGET", "a"))
    assert (own.store.times.away, own.store.times.refused) == (0, 1)
    async with Store(f"unix://{tmp_path}/none.sock") as store:
        with pytest.raises(StoreUnavailable):
            await store.call("put_kv", "ns", "a", "1", "v")
        assert store.times.counters() == {
            'redis_failures_total{kind="away"}': 1, 'redis_failures_total{kind="refused"}': 0,
        }  # fmt: skip
    assert "put_kv" not in own.store.times.scripts


async def test_closing_a_store_closes_its_connections(own, own_redis, namespace):
    async def names():
        return {client["name"] for client in await own.store.client.client_list()}

    async def is_gone():
        return "other" not in await names()

    async with Store(own_redis.url, namespace) as other:
        await other.client.client_setname("other")
        assert "other" in await names()
    await until(is_gone, "the server knows it no more")


def test_a_call_waits_for_its_turn_longer_than_for_an_answer(runner, own_redis, namespace):
    async def run():
        async with Store(own_redis.url, namespace, timeout_ms=300, max_connections=1) as store:
            await store.init_namespace()
            pool = store.client.connection_pool
            taken = await pool.get_connection()
            waiting = asyncio.create_task(store.call("snapshot", "head", "0", 1))
            done, _ = await asyncio.wait([waiting], timeout=0.45)  # one timeout and a half
            assert not done
            await pool.release(taken)
            assert (await waiting)[1] == 0
            taken = await pool.get_connection()
            try:
                with pytest.raises(StoreUnavailable, match="too many calls at once"):
                    await store.call("snapshot", "head", "0", 1)
            finally:
                await pool.release(taken)

    runner.run(run())
