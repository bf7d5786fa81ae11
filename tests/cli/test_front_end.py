"""How a front end and its sweeper are put together: :mod:`mqregistry.cli.run.front_end`."""

from __future__ import annotations

import asyncio

import pytest

from mqregistry.cli.run.front_end import run_front_end
from mqregistry.config.settings import Settings
from mqregistry.server.process.metrics import FrontEndWorkers, Status
from mqregistry.store.snapshot import read_kv
from tests.store.bed import Bed
from tests.waiting import until


class Supervisor:
    """As much of a supervisor as a sweeper needs: runs what is beside it until it is stopped."""

    def __init__(self, store, *, sweep):
        self.store, self.settings = store, Settings(sweep=sweep, scan_not_active_broker_interval_ms=100)
        self.fleet, self.stopping = FrontEndWorkers(1), asyncio.Event()
        self.beside = []

    async def run(self, *, beside):
        self.beside = [asyncio.ensure_future(one(self.store)) for one in beside]
        await asyncio.gather(*self.beside)


async def test_the_sweeper_counts_for_the_fleet_and_ends_with_the_supervisor(runner, store):
    bed = Bed(store)
    await bed.leases.renew("w1", 3_600_000)
    await bed.let_pass(240_000)
    await bed.register(heartbeat_timeout_ms=1)
    supervisor = Supervisor(store, sweep=True)
    running = asyncio.ensure_future(run_front_end(supervisor))

    await until(lambda: supervisor.fleet.sweeps.counters()["brokers_expired_total"] == 1, "the broker is gone")
    assert not running.done()
    supervisor.stopping.set()
    async with asyncio.timeout(20):
        await running


@pytest.mark.parametrize("sweep", [True, False])
async def test_what_else_runs_beside_it_runs_with_and_without_a_sweeper(store, sweep):
    supervisor = Supervisor(store, sweep=sweep)
    seen = []

    async def other(given):
        seen.append(given)
        supervisor.stopping.set()

    async with asyncio.timeout(20):
        await run_front_end(supervisor, beside=[other])
    assert seen == [store]
    assert len(supervisor.beside) == 2


async def test_with_no_sweep_it_sweeps_only_when_nobody_has_for_30_s(runner, store, caplog):
    bed = Bed(store)
    await bed.leases.renew("w1", 3_600_000)
    await bed.let_pass(240_000)
    await bed.register(heartbeat_timeout_ms=1)
    supervisor = Supervisor(store, sweep=False)
    supervisor.fleet.told(0, Status(ready=True, gauges={"broker_overdue_seconds": 29.9}))
    running = asyncio.ensure_future(run_front_end(supervisor))
    for _ in range(10):
        await asyncio.sleep(0)
    assert "no sweeper has run" not in caplog.text
    supervisor.fleet.told(0, Status(ready=True, gauges={"broker_overdue_seconds": 31}))

    await until(lambda: supervisor.fleet.sweeps.counters()["brokers_expired_total"] == 1, "the broker is gone")
    assert caplog.text.count("no sweeper has run for 31 s") == 1
    supervisor.stopping.set()
    async with asyncio.timeout(20):
        await running


async def test_a_file_of_a_java_server_has_its_kv_configuration_imported_and_the_front_end_goes_on(
    runner, store, tmp_path
):
    file = tmp_path / "kvConfig.json"
    file.write_text('{"configTable":{"a":{"b":"c"}}}')
    supervisor = Supervisor(store, sweep=True)
    supervisor.settings = Settings(without_effect={"kvConfigPath": str(file)})
    running = asyncio.ensure_future(run_front_end(supervisor))

    async def imported():
        return await read_kv(store) == {"a": {"b": "c"}}

    await until(imported, "it is imported")
    assert not any(one.done() for one in supervisor.beside)
    supervisor.stopping.set()
    async with asyncio.timeout(20):
        await running
