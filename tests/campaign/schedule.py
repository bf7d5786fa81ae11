"""What happens when, drawn from a seed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from random import Random

from .operations import OPERATIONS
from .variants import SINGLE

PROFILES: dict[str, dict[str, float]] = {
    "all": {},
    "losses": {"redis_emptied": 6, "flushall": 6, "redis_rolled_back": 8, "script_cut": 4, "new_topics": 4},
    "silence": {"broker_falls_silent": 8, "redis_paused_again_and_again": 5, "links_cut_together": 5,
                "front_ends_paused_together": 5},
    "restarts": {"front_end_killed": 6, "front_end_drained": 6, "worker_killed": 6, "redis_killed": 5,
                 "sweeper_restarted": 4},
    "failovers": {"failover_planned": 6, "master_killed": 6, "master_paused": 6, "failover_with_losses": 6,
                  "failovers_in_a_row": 3},
    "links": {"link_cut": 6, "link_half_open": 6, "link_slow": 4, "script_cut": 6, "links_cut_together": 4},
}  # fmt: skip
"""Other weights for some operations: a hunt for one sort of fault. The name of an operation is a profile, too."""


@dataclasses.dataclass(frozen=True)
class Step:
    """``kind`` begins ``at_s`` after the round's world is up; ``seed``: of its own choices."""

    at_s: float
    kind: str
    seed: int

    def __str__(self) -> str:
        return f"{self.at_s:6.2f} s  {self.kind} (seed {self.seed})"


@dataclasses.dataclass(frozen=True)
class Plan:
    """One round. variant: which servers it is played on."""

    seed: int
    steps: tuple[Step, ...]
    variant: str = SINGLE

    def __str__(self) -> str:
        return "\n".join(f"    {step}" for step in self.steps)

    def to_json(self) -> str:
        steps = [dataclasses.astuple(step) for step in self.steps]
        return json.dumps({"seed": self.seed, "variant": self.variant, "steps": steps})


def from_json(text: str) -> Plan:
    """A plan as ``to_json`` wrote it.

    Raises:
        ValueError: an operation is not of the plan's variant.
    """
    told = json.loads(text)
    variant, steps = told.get("variant", SINGLE), tuple(Step(*step) for step in told["steps"])
    foreign = {step.kind for step in steps} - set(weights("all", variant))
    if foreign:
        raise ValueError(f"a plan of --redis {variant} cannot have {', '.join(sorted(foreign))}: see --operations")
    return Plan(told["seed"], steps, variant)


def weights(profile: str, variant: str = SINGLE) -> Mapping[str, float]:
    """Operation of the variant -> weight.

    Raises:
        ValueError: the profile has none of them.
    """
    known = {name: one.weight for name, one in OPERATIONS.items() if variant in one.variants}
    if profile in known:
        return {name: weight * 0.3 for name, weight in known.items()} | {profile: sum(known.values()) * 0.5}
    more = {name: weight for name, weight in PROFILES.get(profile, {}).items() if name in known}
    if profile != "all" and not more:
        raise ValueError(f"--schedule {profile} has nothing that --redis {variant} can play: see --operations")
    return known | more


def plan(
    seed: int, *, length_s: float = 25.0, steps: int = 14, profile: str = "all", variant: str = SINGLE
) -> Plan:  # fmt: skip
    """The same seed gives the same plan."""
    random = Random(f"plan {seed}")
    chances = dict(sorted(weights(profile, variant).items()))
    kinds = random.choices(list(chances), list(chances.values()), k=steps)
    times = sorted(random.uniform(0.2, length_s) for _ in kinds)
    drawn = [Step(round(at, 2), kind, random.randrange(1 << 30)) for at, kind in zip(times, kinds, strict=True)]
    return Plan(seed, tuple(drawn), variant)
