"""Puts a front end and its sweeper together: ``serve`` and ``up`` run both in one process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Final

from mqregistry.worker.sweeper import Sweeper

from ...server.process.metrics import UNSWEPT_S
from ...server.process.supervisor import Beside, Supervisor
from ...store.store import Store
from ...tasks import wait_within

logger = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 1.0


async def run_front_end(supervisor: Supervisor, *, beside: Sequence[Beside] = ()) -> None:
    """Serve until stopped, with a sweeper, and with the coroutines in ``beside``.

    If the settings disable the sweeper here, it still runs for UNSWEPT_S seconds when no sweeper has run for this time:
    without a sweeper, dead brokers stay in every route. Any number of sweepers may run at the same time.
    """
    fleet, stopping = supervisor.fleet, supervisor.stopping
    sweeps = fleet.sweeps

    async def sweep(store: Store) -> None:
        sweeper = Sweeper(
            store, supervisor.settings, removed=sweeps.removed, alarmed=sweeps.alarmed, swept=sweeps.swept,
            passed=sweeps.passed,
        )  # fmt: skip
        if supervisor.settings.sweep:
            await sweeper.run(stopping)
        while not stopping.is_set():
            for warning in fleet.warnings():
                logger.error("%s; this front end sweeps for the next %.0f s", warning, UNSWEPT_S)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(UNSWEPT_S):
                        await sweeper.run(stopping)
            await wait_within(stopping, _LOOK_EVERY_S)

    async def take_over(store: Store) -> None:
        from ..write.take_over_kv import take_over_kv  # few front ends import a Java NameServer's file

        await take_over_kv(store, supervisor.settings, stopping)
        await stopping.wait()  # if this coroutine ended earlier, the front end would end

    of_java = [take_over] if "kvConfigPath" in supervisor.settings.without_effect else []
    await supervisor.run(beside=[*beside, sweep, *of_java])
