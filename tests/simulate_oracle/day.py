"""Plays a day and computes from Redis what gold must show."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from mqregistry.simulate.run import Outcome, Simulation
from tests.simulate_oracle.observe import Observed, Observer, differences, until_lookups
from tests.simulate_oracle.truth import FLAP_MS, GoldRows, figures


class Truth(msgspec.Struct, frozen=True):
    """What the pipeline must find.

    end_ms: end of observation, in Redis time. differences: between Redis and the plan; the figures mean something only
    if there is none.
    """

    namespace: str
    epoch: str
    end_ms: int
    differences: list[str]
    figures: GoldRows


class Day(msgspec.Struct, frozen=True):
    """The result of one. truth: None when the day was interrupted."""

    outcome: Outcome
    truth: Truth | None = None


async def play(
    simulation: Simulation,
    stop: asyncio.Event,
    *,
    redis: tuple[str, str],
    flap_ms: int = FLAP_MS,
    before_leaving: Callable[[], Awaitable[None]] | None = None,
) -> Day:
    """Play to the end, or until ``stop`` is set.

    Args:
        redis: URL and namespace of the registry.
        before_leaving: awaited once the streams are read, while what the plan leaves registered is still there.

    Raises:
        PeerUnavailable: a name server cannot be reached at the start.
        StoreUnavailable, StoreError: Redis; or its streams have a hole.
    """
    url, namespace = redis
    observer = Observer(url, namespace)
    await observer.begin()
    found: list[Observed] = []

    async def at_the_end() -> None:
        await until_lookups(observer, sum(simulation.outcome.lookups.values()))
        found.append(await observer.read())
        if before_leaving is not None:
            await before_leaving()

    outcome = await simulation.run(stop, before_leaving=at_the_end)
    if not found:
        return Day(outcome)
    observed = found[0]
    wrong = differences(simulation.plan, observed, outcome.lookups)
    return Day(outcome, Truth(namespace, observed.epoch, observed.end_ms, wrong, figures(observed, flap_ms=flap_ms)))
