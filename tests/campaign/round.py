"""Plays one round: a world, a schedule, healing, and what must hold then."""

from __future__ import annotations

import asyncio
import dataclasses
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

import uvloop

from .operations import OPERATIONS, Busy
from .schedule import Plan, Step
from .settled import settle
from .world import World

OPERATION_S = 120.0


@dataclasses.dataclass
class Outcome:
    """wrong: empty if nothing was found. notes: for the log."""

    wrong: list[str]
    took_s: float
    done: Counter[str]
    notes: str
    logs: str = ""


def play(plan: Plan, *, topics: int = 6) -> Outcome:
    """Play a round in a folder of its own, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="mqcam") as folder:
        return uvloop.run(_play(plan, Path(folder), topics))


async def _play(plan: Plan, folder: Path, topics: int) -> Outcome:
    began = time.monotonic()
    world = World(folder, plan.seed, plan.variant)
    done: Counter[str] = Counter()
    try:
        await world.start(topics=topics)
        await _run_steps(world, plan, done)
        if not world.found.is_set():
            await world.heal()
            await settle(world)
        world.look_at_processes()
        world.read_slowlog()
        if not world.found.is_set():
            await _end(world)
    finally:
        await world.close()
    notes = (
        f"{sum(looker.asked for looker in world.lookers)} lookups, {world.admin.values} values written, slowest script "
        f"{world.slowest_ms:.0f} ms, largest process {world.rss_mib:.0f} MiB, {len(world.model.losses)} losses"
    )
    if world.failovers:
        notes += f", {world.failovers.notes()}"
    if world.stalls.stalled_s:
        notes += f", stalled {world.stalls.stalled_s:.1f} s"
    logs = ""
    if world.wrong:
        logs = "\n".join(
            f"--- {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-400:])
            for daemon in world.daemons
            for log in daemon.logs
        )
    return Outcome(world.wrong, time.monotonic() - began, done, notes, logs)


async def _run_steps(world: World, plan: Plan, done: Counter[str]) -> None:
    """Start each step at its time; return when all have ended, or something was found."""
    start = time.monotonic()
    running: set[asyncio.Task[None]] = set()
    found = asyncio.create_task(world.found.wait())
    try:
        for step in plan.steps:
            wait_s = start + step.at_s - time.monotonic()
            if wait_s > 0:
                await asyncio.wait([found], timeout=wait_s)
            if world.found.is_set():
                break
            running.add(asyncio.create_task(_run_step(world, step, done)))
        if running and not world.found.is_set():
            everything = asyncio.create_task(asyncio.wait(running))
            await asyncio.wait([found, everything], timeout=OPERATION_S, return_when=asyncio.FIRST_COMPLETED)
            if not everything.done() and not world.found.is_set():
                everything.cancel()
                world.judged([f"the operations did not end within {OPERATION_S:g} s"])
    finally:
        found.cancel()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _run_step(world: World, step: Step, done: Counter[str]) -> None:
    try:
        await OPERATIONS[step.kind].play(world, Random(step.seed))
        done[step.kind] += 1
    except Busy:
        pass
    except Exception as error:  # noqa: BLE001 - it is a finding
        world.judged([f"the campaign itself failed in {step}: {error!r}"])


async def _end(world: World) -> None:
    """Every process ends in order when it is asked to."""
    for front_end in world.front_ends:
        world.timeline.begin(front_end.name)
    ends = [daemon.end(signal.SIGTERM) for daemon in world.daemons]
    world.judged([wrong for wrong in await asyncio.gather(*ends) if wrong])
