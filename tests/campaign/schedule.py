"""What happens when, drawn from a seed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from random import Random

from .operations import OPERATIONS

PROFILES: dict[str, dict[str, float]] = {
    "all": {},
    "losses": {"redis_emptied": 6, "flushall": 6, "redis_rolled_back": 8, "script_cut": 4, "new_topics": 4},
    "silence": {"broker_falls_silent": 8, "redis_paused_again_and_again": 5, "links_cut_together": 5,
                "front_ends_paused_together": 5},
    "restarts": {"front_end_killed": 6, "front_end_drained": 6, "worker_killed": 6, "redis_killed": 5,
                 "sweeper_restarted": 4},
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
    """One round. profile: how its steps were weighted."""

    seed: int
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return "\n".join(f"    {step}" for step in self.steps)

    def to_json(self) -> str:
        return json.dumps({"seed": self.seed, "steps": [dataclasses.astuple(step) for step in self.steps]})


def from_json(text: str) -> Plan:
    told = json.loads(text)
    return Plan(told["seed"], tuple(Step(*step) for step in told["steps"]))


def weights(profile: str) -> Mapping[str, float]:
    """Operation -> weight."""
    known = {name: weight for name, (weight, _) in OPERATIONS.items()}
    if profile in known:
        return {name: weight * 0.3 for name, weight in known.items()} | {profile: sum(known.values()) * 0.5}
    return known | PROFILES[profile]


def plan(seed: int, *, length_s: float = 25.0, steps: int = 14, profile: str = "all") -> Plan:
    """The same seed gives the same plan."""
    random = Random(f"plan {seed}")
    chances = dict(sorted(weights(profile).items()))
    kinds = random.choices(list(chances), list(chances.values()), k=steps)
    times = sorted(random.uniform(0.2, length_s) for _ in kinds)
    return Plan(
        seed, tuple(Step(round(at, 2), kind, random.randrange(1 << 30)) for at, kind in zip(times, kinds, strict=True))
    )


def without(whole: Plan, dropped: Iterable[Step]) -> Plan:
    gone = set(dropped)
    return Plan(whole.seed, tuple(step for step in whole.steps if step not in gone))
