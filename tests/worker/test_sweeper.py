"""The sweeper: who is due goes, once, whoever else sweeps and whatever Redis does meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import tempfile
from functools import partial
from pathlib import Path

import pytest

from mqregistry.config.settings import Settings
from mqregistry.embedded import EmbeddedRedis
from mqregistry.errors import StoreError, StoreUnavailable
from mqregistry.events import changes as kinds
from mqregistry.store.operator_reads import read_topic_names
from mqregistry.store.processes import read_fleet
from mqregistry.store.route_writes import TOPICS_AT_ONCE
from mqregistry.store.store import Store
from mqregistry.store.streams import Alarm, StreamStore
from mqregistry.worker.sweeper import _BATCH_PAUSE_S, BROKERS_PER_CALL, Sweeper, reach
from tests.conftest import NO_FSYNC
from tests.store.bed import Bed, acknowledge
from tests.waiting import until

LIFE_MS = 120_000
SETTINGS = Settings(scan_not_active_broker_interval_ms=100)


@pytest.fixture
def bed(runner, store):
    """A namespace that has been watched for a while, so that nobody has grace."""
    bed = Bed(store)
    runner.run(bed.leases.renew("w1", 3_600_000))
    runner.run(bed.let_pass(2 * LIFE_MS))
    return bed


class Calls:
    """Counts a store's script calls, by name; may fail them."""

    def __init__(self, store: Store, monkeypatch) -> None:
        self.made: list[tuple[str, tuple]] = []
        self.fail: dict[str, list[Exception]] = {}
        call = store.call

        async def counted(name, *arguments, **options):
            self.made.append((name, arguments))
            if self.fail.get(name):
                raise self.fail[name].pop(0)
            return await call(name, *arguments, **options)

        monkeypatch.setattr(store, "call", counted)

    def count(self, name: str) -> int:
        return sum(made == name for made, _ in self.made)


@pytest.fixture
def calls(store, monkeypatch):
    return Calls(store, monkeypatch)


@pytest.fixture
def unhurried(monkeypatch):
    """What a sweeper does besides is due once, and not again in the time that a busy machine takes for a test."""
    for name in ("REAP_EVERY_S", "TRIM_EVERY_S"):
        monkeypatch.setattr(f"mqregistry.worker.sweeper.{name}", 600.0)


@contextlib.asynccontextmanager
async def sweeping(*sweepers: Sweeper):
    """They sweep for the length of a block, and end when told: in much less time than a long pause takes."""
    stop = asyncio.Event()
    tasks = [asyncio.create_task(sweeper.run(stop)) for sweeper in sweepers]
    try:
        yield tasks
        assert not any(task.done() for task in tasks), "a sweeper ended by itself"
    finally:
        stop.set()
        async with asyncio.timeout(20):
            await asyncio.gather(*tasks)


async def let_pass_watched(bed: Bed, ms: int) -> None:
    """Move the clock while sweepers look at it: in one step, or they would see an outage."""
    now_ms = await bed.now_ms()
    async with bed.store.client.pipeline(transaction=True) as steps:
        steps.hincrby(bed.key("meta"), "clock_offset_ms", ms)
        steps.hset(bed.key("meta"), "seen_ms", now_ms + ms)
        await steps.execute()


async def expired_events(bed: Bed) -> list[str]:
    return [event.who for event in await bed.events() if event.type == kinds.BrokerExpired.type]


# when


async def test_nobody_goes_before_the_time(bed, store):
    r = await bed.register()
    await bed.let_pass(LIFE_MS - 30_000)
    sweeper = Sweeper(store, SETTINGS)
    await sweeper.sweep()
    assert set((await bed.contents())["brokers"]) == {r.broker_name}
    await bed.let_pass(30_001)
    await sweeper.sweep()
    assert (await bed.contents())["brokers"] == {}
    assert (sweeper.expired, sweeper.reaped) == (1, 0)


async def test_only_who_is_silent_goes(bed, store):
    silent, other = await bed.register(), await bed.register("10.0.0.2:10911", "broker-b")
    await bed.let_pass(LIFE_MS // 2)
    await bed.fe1.register(other, connection=other.broker_addr)
    await bed.let_pass(LIFE_MS // 2 + 1000)
    await bed.events()
    sweeper = Sweeper(store, SETTINGS)
    await sweeper.sweep()
    assert await expired_events(bed) == [f"c1|{silent.broker_addr}"]
    assert set((await bed.contents())["brokers"]) == {"broker-b"}


@pytest.mark.usefixtures("unhurried")
async def test_it_is_back_when_the_next_one_is_due(bed, store):
    """The deadline, not the longest pause, says when."""
    sweeper = Sweeper(store, Settings(scan_not_active_broker_interval_ms=600_000))
    await bed.register()
    assert 60 < await sweeper.sweep() <= 120.1
    await bed.let_pass(LIFE_MS - 20_000)
    pause_s = await sweeper.sweep()
    assert 0 < pause_s <= 20.1
    assert sweeper.expired == 0
    await bed.let_pass(20_001)
    await sweeper.sweep()
    assert sweeper.expired == 1


@pytest.mark.usefixtures("unhurried")
async def test_with_nobody_there_the_pause_is_within_its_bound(bed, store):
    sweeper = Sweeper(store, SETTINGS)
    for _ in range(20):
        assert 0.0 < await sweeper.sweep() <= 0.1


async def test_the_pause_follows_the_shared_configuration_unless_this_process_fixes_it(bed, store):
    await bed.redis("HSET", bed.key("config"), "scanNotActiveBrokerInterval", "200")
    assert await Sweeper(store, Settings(scan_not_active_broker_interval_ms=600_000)).sweep() <= 0.2
    fixed = Settings(
        scan_not_active_broker_interval_ms=100,
        sources={"scan_not_active_broker_interval_ms": "environment X"},
    )
    assert await Sweeper(store, fixed).sweep() <= 0.1


@pytest.mark.usefixtures("unhurried")
async def test_the_pause_ignores_a_key_that_the_compat_mode_does_not_know(bed, store):
    """NameServer 4.8 has no scanNotActiveBrokerInterval: neither an own nor a shared value has an effect."""
    await bed.redis("HSET", bed.key("config"), "scanNotActiveBrokerInterval", "100")
    pauses = [
        await Sweeper(store, Settings(compat=compat, scan_not_active_broker_interval_ms=100)).sweep()
        for compat in ("5.x", "4.8")
    ]
    assert pauses[0] <= 0.1 < pauses[1]


async def test_the_loop_removes_by_itself(bed, store, caplog):
    caplog.set_level(logging.INFO)
    told = []
    r = await bed.register()
    async with sweeping(Sweeper(store, SETTINGS, removed=lambda *counts: told.append(counts))):
        await let_pass_watched(bed, LIFE_MS + 1)
        await until(lambda: told, "it goes")
    assert told == [(1, 0)]
    assert f"the broker channel expired: {r.broker_addr} of cluster c1" in caplog.text
    assert await bed.replay() == await bed.contents()


async def test_it_waits_and_says_so_while_no_front_end_hears_brokers(bed, store, caplog):
    """A2: the front ends stop, the sweeper goes on; the broker's deadline passes; a front end comes back."""
    await bed.register()
    await bed.move_clock(2 * LIFE_MS)
    sweeper = Sweeper(store, Settings(scan_not_active_broker_interval_ms=600_000))
    sweeper._patient_until_s = 0.0  # it runs for long
    pauses = [await sweeper.sweep() for _ in range(3)]
    assert 0.3 < max(pauses) < 1.3
    assert caplog.text.count("brokers cannot be heard, and none is removed until one runs") == 1
    assert sweeper.expired == 0
    await bed.leases.renew("w1")
    await sweeper.sweep()
    assert caplog.text.count("a front end runs again") == 1
    await bed.let_pass(LIFE_MS + 3000)  # it registered up to three renewals after the last one
    await sweeper.sweep()
    assert sweeper.expired == 1


async def test_a_front_end_that_starts_with_the_sweeper_is_waited_for_without_a_warning(bed, store, caplog):
    caplog.set_level(logging.INFO, "mqregistry.worker.sweeper")
    await bed.register()
    await bed.move_clock(LIFE_MS // 2)
    sweeper = Sweeper(store, SETTINGS)
    await sweeper.sweep()
    await bed.leases.renew("w1")
    await sweeper.sweep()
    told = [(one.levelname, one.message.partition(":")[0]) for one in caplog.records]
    assert [level for level, _ in told] == ["INFO", "INFO"], told
    assert told[1][1] == "a front end runs again"
    await bed.move_clock(LIFE_MS // 2)
    await sweeper.sweep()
    sweeper._patient_until_s = 0.0  # and nobody came
    await sweeper.sweep()
    assert [one.levelname for one in caplog.records[2:]] == ["INFO", "WARNING"]


async def test_a_sweeper_that_ends_is_no_longer_among_the_processes(bed, store):
    async def sweepers():
        return len((await read_fleet(store)).sweepers)

    async with sweeping(Sweeper(store, SETTINGS)):

        async def told():
            return await sweepers() == 1

        await until(told, "it has told of itself")
    assert await sweepers() == 0


# many


async def test_several_sweepers_remove_each_broker_once(redis_url, namespace, bed):
    addrs = [f"10.0.{i // 100}.{i % 100}:10911" for i in range(120)]
    for i, addr in enumerate(addrs):
        await bed.register(addr, f"broker-{i}", topics=["t1", "t2"])
    await bed.events()
    await bed.let_pass(LIFE_MS + 1)
    async with contextlib.AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(Store(redis_url, namespace)) for _ in range(5)]
        sweepers = [Sweeper(store, SETTINGS) for store in stores]
        async with sweeping(*sweepers):
            await until(lambda: sum(s.expired for s in sweepers) >= len(addrs), "all are gone")
    assert sum(sweeper.expired for sweeper in sweepers) == len(addrs)
    assert sorted(await expired_events(bed)) == sorted(f"c1|{addr}" for addr in addrs)
    assert (await bed.contents())["brokers"] == {}
    assert await bed.replay() == await bed.contents()


async def test_many_due_at_once_go_in_bounded_batches_with_short_pauses(bed, store, calls):
    for i in range(200):
        await bed.register(f"10.0.{i // 100}.{i % 100}:10911", f"broker-{i}", topics=["t1", "t2"])
    await bed.let_pass(LIFE_MS + 1)
    calls.made.clear()
    batches = []
    sweeper = Sweeper(store, SETTINGS, removed=lambda expired, reaped: batches.append(expired))
    pauses = [await sweeper.sweep() for _ in range(4)]
    assert (batches, pauses) == ([BROKERS_PER_CALL] * 4, [_BATCH_PAUSE_S] * 4)
    limits = (BROKERS_PER_CALL, TOPICS_AT_ONCE)
    assert [arguments for name, arguments in calls.made if name == "expire_brokers"] == [limits] * 4
    assert await sweeper.sweep() > 0
    assert (await bed.contents())["brokers"] == {}


async def test_a_stop_ends_it_between_two_batches(bed, store):
    for i in range(2 * BROKERS_PER_CALL):
        await bed.register(f"10.0.0.{i}:10911", f"broker-{i}", topics=["t1", "t2"])
    await bed.let_pass(LIFE_MS + 1)
    stop = asyncio.Event()
    sweeper = Sweeper(store, SETTINGS, removed=lambda *_: stop.set())
    async with asyncio.timeout(20):
        await sweeper.run(stop)
    assert sweeper.expired == BROKERS_PER_CALL


# dead workers


async def test_dead_workers_are_reaped(bed, store):
    r = await bed.register()
    await bed.fe2.register(r)
    assert await bed.fe2.close(r) == "KEPT"
    await bed.let_pass(36_000)
    await bed.redis("DEL", bed.key("lease:w1"))
    sweeper = Sweeper(store, SETTINGS)
    async with sweeping(sweeper):
        await until(lambda: sweeper.reaped, "its worker is dead, and its other connection was seen closing")
    assert (sweeper.expired, sweeper.reaped) == (0, 1)
    assert (await bed.contents())["brokers"] == {}
    assert await bed.members("leases") == set()


async def test_what_a_dead_worker_leaves_is_reaped_in_bounded_batches(bed, store, calls, monkeypatch):
    monkeypatch.setattr("mqregistry.worker.sweeper.ENTRIES_PER_CALL", 25)
    fleet = []
    for i in range(BROKERS_PER_CALL + 10):
        fleet.append(await bed.register(f"10.0.0.{i}:10911", f"broker-{i}", topics=["t1", "t2"]))
    for r in fleet:
        await bed.fe2.register(r)
        await bed.fe2.close(r)
    await bed.let_pass(36_000)
    await bed.redis("DEL", bed.key("lease:w1"))
    sweeper = Sweeper(store, SETTINGS)
    while sweeper.reaped < len(fleet):
        await sweeper.sweep()
    assert calls.count("reap_worker") >= 3
    assert (await bed.contents())["brokers"] == {}


# Redis away, and errors


async def test_redis_away_and_back(runner, caplog):
    with tempfile.TemporaryDirectory(prefix="mq") as folder, EmbeddedRedis(Path(folder), extra=NO_FSYNC) as server:
        store = Store(server.url, "away", timeout_ms=200)
        bed = Bed(store)
        await store.connect()
        await bed.leases.renew("w1", 3_600_000)
        await bed.let_pass(2 * LIFE_MS)
        await bed.register()
        sweeper = Sweeper(store, SETTINGS)
        async with sweeping(sweeper):
            server.kill()
            await until(lambda: "nothing is removed until it is back" in caplog.text, "it notices")
            server.start()
            await until(lambda: "Redis is back" in caplog.text, "it goes on")
            assert set((await bed.contents())["brokers"]) == {"broker-a"}
            await bed.leases.renew("w1", 3_600_000)
            await let_pass_watched(bed, 2 * LIFE_MS)
            await until(lambda: sweeper.expired == 1, "who is due goes")
        assert caplog.text.count("nothing is removed until it is back") == 1
        await store.close()


async def test_a_start_waits_for_a_redis_that_is_away(runner, caplog):
    """A19: the sweeper is rolled while Redis is away; Redis comes; or it is told to stop first."""
    with tempfile.TemporaryDirectory(prefix="mq") as folder, EmbeddedRedis(Path(folder), extra=NO_FSYNC) as server:
        server.kill()
        stop = asyncio.Event()
        async with Store(server.url, "away", timeout_ms=200) as store:
            waiting = asyncio.create_task(reach(store, stop))
            await until(lambda: "waiting until it is there" in caplog.text, "it says so")
            server.start()
            assert await waiting
            await store.call("delete_kv", "n", "k")
            server.kill()
        async with Store(server.url, "away", timeout_ms=200) as store:
            waiting = asyncio.create_task(reach(store, stop))
            stop.set()
            assert not await waiting


async def test_at_maxmemory_it_starts_trims_first_and_tells(runner, caplog):
    """A15: Redis is full and refuses all that needs memory; a sweeper starts, and trims until it takes writes."""
    with tempfile.TemporaryDirectory(prefix="mq") as folder, EmbeddedRedis(Path(folder), extra=NO_FSYNC) as server:
        async with Store(server.url, "full", timeout_ms=2000) as store:
            await store.connect()
            bed = Bed(store)
            await bed.register()
            await acknowledge(StreamStore(store), "pipeline", {"changes": "0-0"})
            for number in range(300):
                await bed.kv.put("n", "k", f"{number}" + "x" * 10_000)
            used = (await store.client.info("memory"))["used_memory"]
            await bed.redis("CONFIG", "SET", "maxmemory", used - 1_000_000)
            with pytest.raises(StoreUnavailable, match="its memory is full"):
                await bed.kv.put("n", "k", "1")
        async with Store(server.url, "full", timeout_ms=2000) as store:
            stop = asyncio.Event()
            assert await reach(store, stop)
            bed = Bed(store)
            settings = Settings(changes_max_entries=1000, changes_max_mib=1, stream_hard_limit_percent=100)
            sweeper = Sweeper(store, settings)
            await sweeper.sweep()
            assert "Redis is at its maxmemory and refuses registrations and heartbeats" in caplog.text
            async with sweeping(sweeper):
                await until(partial(writes, bed), "there is room again")
                sweeper._trim_at = 0.0
                await until(lambda: "Redis takes writes again" in caplog.text, "it says so")
            assert set((await bed.contents())["brokers"]) == {"broker-a"}


async def test_at_maxmemory_it_trims_before_a_removal_that_needs_memory(runner):
    """A15: Redis is full, and an overdue broker has lost its id: its removal begins with an event, which is refused."""
    with tempfile.TemporaryDirectory(prefix="mq") as folder, EmbeddedRedis(Path(folder), extra=NO_FSYNC) as server:
        async with Store(server.url, "full", timeout_ms=2000) as store:
            await store.connect()
            bed = Bed(store)
            await bed.leases.renew("w1", 3_600_000)
            await bed.let_pass(60_000)
            await bed.register(heartbeat_timeout_ms=LIFE_MS)
            await bed.register("10.0.0.2:10911")  # takes its id
            for number in range(300):
                await bed.kv.put("n", "k", f"{number}" + "x" * 10_000)
            await bed.let_pass(LIFE_MS + 1)
            used = (await store.client.info("memory"))["used_memory"]
            await bed.redis("CONFIG", "SET", "maxmemory", used - 1_000_000)
            with pytest.raises(StoreUnavailable, match="its memory is full"):
                await bed.leases.expire(10)
            settings = Settings(changes_max_entries=1000, changes_max_mib=1, stream_hard_limit_percent=100)
            sweeper = Sweeper(store, settings)
            await sweeper.sweep()
            assert sweeper.expired == 2


async def writes(bed: Bed) -> bool:
    with contextlib.suppress(StoreUnavailable):
        return bool(await bed.kv.put("n", "k", "2"))
    return False


async def test_a_stop_ends_it_promptly_while_redis_hangs(runner):
    with tempfile.TemporaryDirectory(prefix="mq") as folder, EmbeddedRedis(Path(folder), extra=NO_FSYNC) as server:
        store = Store(server.url, "hangs", timeout_ms=2000)
        await store.connect()
        assert server.pid is not None
        os.kill(server.pid, signal.SIGSTOP)
        try:
            async with sweeping(Sweeper(store, SETTINGS)):
                await asyncio.sleep(0)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        await store.close()


async def test_a_stop_ends_a_long_pause_at_once(bed, store, calls):
    async with sweeping(Sweeper(store, Settings(scan_not_active_broker_interval_ms=600_000))):
        await until(lambda: calls.count("reap_worker"), "one pass")


@pytest.mark.parametrize("error", [StoreError("no rights"), KeyError("a defect of ours")])
@pytest.mark.parametrize("script", ["snapshot", "expire_brokers", "reap_worker", "trim_streams"])
async def test_errors_are_logged_and_do_not_end_it(bed, store, calls, caplog, script, error):
    await bed.register()
    await bed.let_pass(LIFE_MS + 1)
    calls.fail[script] = [error]
    sweeper = Sweeper(store, SETTINGS)
    async with sweeping(sweeper):
        await until(lambda: sweeper.expired == 1 and calls.count("reap_worker") >= 1, "it goes on")
        await until(lambda: not calls.fail[script], "the error came")
        passes = calls.count("expire_brokers")
        await until(lambda: calls.count("expire_brokers") > passes, "it goes on")
    # the shared configuration sets only the pace: without it the sweep itself goes on
    own_words = {
        "snapshot": "the shared configuration cannot be read",
        "trim_streams": "the streams cannot be trimmed, and may outgrow their limits: no rights",
    }
    refused = isinstance(error, StoreError)
    said = (own_words if refused else {}).get(script, "the sweep failed, and is tried again")
    assert said in caplog.text


async def test_failures_are_tried_again_slower_and_slower(bed, store, calls, monkeypatch):
    calls.fail["expire_brokers"] = [StoreError("no rights")] * 5
    pauses = []
    stop = asyncio.Event()
    timeout = asyncio.timeout

    def noted(pause_s):
        pauses.append(pause_s)
        if len(pauses) == 6:
            stop.set()
        return timeout(0)

    monkeypatch.setattr(asyncio, "timeout", noted)
    await Sweeper(store, SETTINGS).run(stop)
    assert pauses[:5] == [0.2, 0.4, 0.8, 1.6, 3.2]
    assert pauses[5] <= 0.1


@pytest.mark.usefixtures("unhurried")
async def test_shared_configuration_that_is_gone_no_longer_counts(bed, store, monkeypatch):
    monkeypatch.setattr("mqregistry.worker.sweeper.CONFIG_EVERY_S", 0.0)
    sweeper = Sweeper(store, Settings(scan_not_active_broker_interval_ms=100))
    await bed.redis("HSET", bed.key("config"), "scanNotActiveBrokerInterval", "500")
    pauses = [await sweeper.sweep() for _ in range(3)]
    assert min(pauses) >= 0.2
    await bed.redis("DEL", bed.key("config"))
    assert await sweeper.sweep() <= 0.1


async def test_a_shared_value_that_is_not_allowed_is_ignored(bed, store, caplog):
    await bed.redis("HSET", bed.key("config"), "scanNotActiveBrokerInterval", "soon")
    assert await Sweeper(store, SETTINGS).sweep() <= 0.1
    assert "scanNotActiveBrokerInterval='soon'" in caplog.text


# the streams


SMALL = Settings(scan_not_active_broker_interval_ms=100, changes_max_entries=1000, stream_hard_limit_percent=150)


async def put(bed: Bed, count: int) -> None:
    for number in range(count):
        await bed.kv.put("n", "k", str(number))


async def length(bed: Bed, stream: str = "changes") -> int:
    return await bed.redis("XLEN", bed.key(stream))


async def test_streams_are_kept_within_the_settings_that_count_for_all(bed, store, calls):
    await put(bed, 1700)
    async with sweeping(Sweeper(store, SETTINGS)):
        await until(lambda: calls.count("trim_streams") and calls.count("expire_brokers") >= 2, "one pass")
        assert await length(bed) >= 1700
    await bed.redis("HSET", bed.key("config"), "changesMaxEntries", "1000")
    async with sweeping(Sweeper(store, SETTINGS)):
        await until(trimmed_to(bed, 1100), "the shared setting counts")
    assert await length(bed) >= 1000


def trimmed_to(bed: Bed, most: int):
    async def trimmed() -> bool:
        return await length(bed) <= most

    return trimmed


async def test_two_sweepers_tell_an_alarm_once_and_keep_to_the_hard_limit(bed, store, monkeypatch, caplog):
    monkeypatch.setattr("mqregistry.worker.sweeper.TRIM_EVERY_S", 0.02)
    streams = StreamStore(store)
    await acknowledge(streams, "pipeline", {"changes": "0-0"})
    told: list[Alarm] = []
    sweepers = [Sweeper(store, SMALL, alarmed=told.append) for _ in range(2)]
    async with sweeping(*sweepers):
        await put(bed, 1300)
        await until(lambda: told == [Alarm("near", "changes", "pipeline")], "the alarm")
        assert await length(bed) >= 1300, "nothing that the reader needs is gone"
        await put(bed, 400)
        await until(lambda: len(told) > 1, "it lost something")
    assert told[1:] == [Alarm("lost", "changes", "pipeline")]
    assert await length(bed) <= 1600
    events = [(event.alarm, event.reader) for event in await bed.events() if event.type == kinds.StreamAlarm.type]
    assert events == [("near", "pipeline"), ("lost", "pipeline")]
    assert caplog.text.count("reader pipeline is far behind on the stream changes: more than 80 %") == 1
    assert caplog.text.count("reader pipeline cannot go on without a gap") == 1


async def test_a_reader_that_went_silent_is_told_of(bed, store, caplog):
    await acknowledge(StreamStore(store), "pipeline", {"changes": "0-0"})
    await bed.let_pass(25 * 3_600_000)
    await Sweeper(store, SETTINGS).sweep()
    await Sweeper(store, SETTINGS).sweep()
    assert caplog.text.count("reader pipeline was not heard of for 24 h: nothing is kept for it any more") == 1


async def test_streams_that_cannot_be_trimmed_keep_no_broker_in_the_tables(bed, store, caplog):
    await bed.redis("SET", bed.key("lookups"), "no stream")
    await bed.register()
    await bed.let_pass(LIFE_MS + 1)
    sweeper = Sweeper(store, SETTINGS)
    assert await sweeper.sweep() <= 0.1
    assert sweeper.expired == 1
    assert "the streams cannot be trimmed, and may outgrow their limits: trim_streams" in caplog.text


async def test_a_redis_that_comes_back_empty_is_kept_within_its_limits_again_and_refuses_old_positions(runner):
    with tempfile.TemporaryDirectory(prefix="mq") as folder, EmbeddedRedis(Path(folder), extra=NO_FSYNC) as server:
        async with Store(server.url, "emptied") as store:
            await store.connect()
            bed, streams = Bed(store), StreamStore(store)
            sweeper = Sweeper(store, SMALL)
            async with sweeping(sweeper):
                await put(bed, 300)
                before = await bed.head()
                await acknowledge(streams, "pipeline", {"changes": before.last_id}, epoch=before.epoch)
                await bed.redis("FLUSHALL")
                server.kill()
                server.start()
                await until_answering(bed)
                await put(bed, 1200)
                with pytest.raises(StoreError, match=f"has read entries of epoch {before.epoch}"):
                    await acknowledge(streams, "pipeline", {"changes": before.last_id}, epoch=before.epoch)
                assert (await streams.survey()).readers == {}
                await until(trimmed_to(bed, 1100), "the limits count again")


async def until_answering(bed: Bed) -> None:
    async def answers() -> bool:
        with contextlib.suppress(StoreUnavailable):
            return bool(await bed.kv.put("n", "first", "1"))
        return False

    await until(answers, "Redis is back")


async def test_it_enters_the_topics_of_a_broker_that_has_many_in_bounded_steps(bed, store, caplog):
    topics = [f"t{number}" for number in range(2500)]
    await bed.register(topics=topics)
    sweeper, passes = Sweeper(store, SETTINGS), 1
    while await sweeper.sweep() <= 0.02:
        await asyncio.sleep(0.02)
        passes += 1
    assert passes > 2
    assert await read_topic_names(store) == set(topics)
    await bed.redis("DEL", bed.key("topic:t7"))
    assert "t7" not in {key.decode().rpartition(":")[2] for key in await bed.redis("KEYS", bed.key("topic:*"))}
    while not await bed.redis("EXISTS", bed.key("topic:t7")):
        await sweeper.sweep()
    assert "entries of the sets topics and topic:<topic> were wrong, and were mended" in caplog.text
