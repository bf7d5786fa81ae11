"""The sweeper: what is due goes, in bounded batches, whatever Redis does meanwhile."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from registry.config import Settings
from registry.errors import StoreError, StoreUnavailable
from registry.store.kvconfig import KvStore
from registry.store.leases import Expired
from registry.store.store import Store
from worker.sweeper import BROKERS_PER_CALL, Sweeper


@pytest.fixture
def store(redis_url, namespace, run):
    store = Store(redis_url, namespace)
    run(store.connect())
    yield store
    run(store.close())


class Leases:
    """Plays a LeaseStore: one outcome a call, an exception is raised; the last one stays."""

    def __init__(self, *outcomes, reaped=()):
        self.outcomes = list(outcomes)
        self.reaped = list(reaped)
        self.expire_limits = []

    async def expire(self, limit):
        self.expire_limits.append(limit)
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def reap(self, limit):
        return self.reaped.pop(0) if self.reaped else ([], False)


def sweeper(store, leases, **settings):
    made = Sweeper(store, Settings(**settings))
    made._leases = leases
    return made


async def running_until(made, condition):
    stop = asyncio.Event()
    task = asyncio.create_task(made.run(stop))
    async with asyncio.timeout(15):
        while not condition():  # noqa: ASYNC110 (any condition)
            await asyncio.sleep(0.005)
    stop.set()
    await task


NOTHING_DUE = Expired([], None, 1000)


async def test_sweep_waits_for_the_earliest_deadline(store):
    leases = Leases(Expired([], 1300, 1000))
    assert 0.3 <= await sweeper(store, leases).sweep() < 0.4


async def test_sweep_with_nothing_to_wait_for_comes_back_within_the_interval(store):
    made = sweeper(store, Leases(NOTHING_DUE), scan_not_active_broker_interval_ms=200)
    assert 0.1 < await made.sweep() <= 0.2


async def test_sweep_far_deadline_still_reaps_each_second(store):
    assert await sweeper(store, Leases(Expired([], 900_000, 1000))).sweep() <= 1.2


async def test_sweep_full_batch_goes_on_at_once(store):
    leases = Leases(Expired(["c|a"] * BROKERS_PER_CALL, 900, 1000), NOTHING_DUE)
    made = sweeper(store, leases)
    assert await made.sweep() == 0
    assert leases.expire_limits == [BROKERS_PER_CALL]
    assert made.expired == BROKERS_PER_CALL


async def test_sweep_reaps_until_nothing_is_left_and_logs_each_broker(store, caplog):
    caplog.set_level(logging.INFO)
    leases = Leases(Expired(["c1|10.0.0.1:10911"], None, 1000), reaped=[(["c1|10.0.0.2:10911"], True), ([], False)])
    told = []
    made = Sweeper(store, Settings(), removed=lambda expired, reaped: told.append((expired, reaped)))
    made._leases = leases
    await made.sweep()
    assert (made.expired, made.reaped, told) == (1, 1, [(1, 0), (0, 1)])
    assert "the broker channel expired: 10.0.0.1:10911 of cluster c1" in caplog.text
    assert "broker 10.0.0.2:10911 of cluster c1 had lost its last channel" in caplog.text


async def test_run_redis_away_is_logged_once_and_waited_out(store, caplog):
    leases = Leases(StoreUnavailable("gone"), StoreUnavailable("gone"), NOTHING_DUE)
    made = sweeper(store, leases)
    await running_until(made, lambda: "Redis is back" in caplog.text)
    assert caplog.text.count("gone; nothing is removed until it is back") == 1


@pytest.mark.parametrize("error", [StoreError("wrong type"), ValueError("a fault of ours")])
async def test_run_any_other_error_is_logged_and_tried_again(store, caplog, error):
    leases = Leases(error, NOTHING_DUE)
    await running_until(sweeper(store, leases), lambda: len(leases.expire_limits) >= 2)
    assert "the sweep failed" in caplog.text


async def test_run_stops_at_once_when_told(store):
    started = time.monotonic()
    await running_until(sweeper(store, Leases(NOTHING_DUE)), lambda: True)
    assert time.monotonic() - started < 1


async def test_sweep_takes_over_the_shared_interval(store):
    await KvStore(store).set_config({"scanNotActiveBrokerInterval": "300"})
    assert await sweeper(store, Leases(NOTHING_DUE)).sweep() <= 0.3


async def test_run_twice_side_by_side_on_one_namespace(store):
    first, second = Sweeper(store, Settings()), Sweeper(store, Settings())
    stop = asyncio.Event()
    tasks = [asyncio.create_task(one.run(stop)) for one in (first, second)]
    await asyncio.sleep(0)
    stop.set()
    await asyncio.gather(*tasks)
