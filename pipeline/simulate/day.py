"""A simulated day from beginning to end: play the plan, find it again in Redis, say what gold must come to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from pipeline.simulate.observe import Observed, Observer, differences, until_lookups
from pipeline.simulate.run import Outcome, Simulation
from pipeline.simulate.truth import FLAP_MS, Tables, figures


class Truth(msgspec.Struct, frozen=True):
    """What the pipeline has to find.

    end_ms: end of observation, in Redis time. differences: in which Redis is not as planned; the figures are worth
    something only if there is none.
    """

    namespace: str
    epoch: str
    end_ms: int
    flap_ms: int
    differences: list[str]
    figures: Tables


class Day(msgspec.Struct, frozen=True):
    """What came of one. truth: None when it was not asked for, or the day was broken off."""

    outcome: Outcome
    truth: Truth | None = None

    @property
    def is_as_planned(self) -> bool:
        """Nothing went another way."""
        return not self.outcome.fault_count and not (self.truth and self.truth.differences)


async def play(
    simulation: Simulation,
    stop: asyncio.Event,
    *,
    redis: tuple[str, str] | None = None,
    flap_ms: int = FLAP_MS,
    before_leaving: Callable[[], Awaitable[None]] | None = None,
) -> Day:
    """Play to the end, or until ``stop`` is set.

    Args:
        redis: URL and namespace of the registry: find out the truth there.
        before_leaving: awaited once the truth is known, while what the plan leaves registered is still there.

    Raises:
        PeerUnavailable: a name server cannot be reached at the start.
        StoreUnavailable, StoreError: Redis; or its streams are not whole.
    """
    observer = Observer(*redis) if redis is not None else None
    if observer is not None:
        await observer.begin()
    found: list[Observed] = []

    async def at_the_end() -> None:
        if observer is not None:
            await until_lookups(observer, sum(simulation.outcome.lookups.values()))
            found.append(await observer.read())
        if before_leaving is not None:
            await before_leaving()

    outcome = await simulation.run(stop, before_leaving=at_the_end)
    if redis is None or not found:
        return Day(outcome)
    observed = found[0]
    wrong = differences(simulation.plan, observed, outcome.lookups)
    tables = figures(observed, flap_ms=flap_ms)
    return Day(outcome, Truth(redis[1], observed.epoch, observed.end_ms, flap_ms, wrong, tables))


def truth_json(simulation: Simulation, truth: Truth) -> bytes:
    """The truth, with the shape of the day, as a file holds it."""
    content: dict[str, Any] = {"shape": simulation.plan.shape, **msgspec.structs.asdict(truth)}
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"
