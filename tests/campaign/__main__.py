"""Plays rounds of random faults against real processes until the time is over; the first finding ends it with 1.

python -m tests.campaign --minutes 30 --seed 1
python -m tests.campaign --round-seed 4711            one round again
python -m tests.campaign --schedule losses            one sort of fault more often than others
python -m tests.campaign --redis sentinel             a master and a replica under Sentinels, which fail over
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

from .operations import OPERATIONS
from .round import Outcome, play
from .schedule import PROFILES, Plan, from_json, plan, weights
from .shorten import shorten
from .variants import SINGLE, VARIANTS


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaign", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="rounds begin for so long")
    parser.add_argument("--seed", type=int, default=1, help="of the rounds' seeds")
    parser.add_argument("--redis", choices=VARIANTS, default=SINGLE, help="the servers (default: %(default)s)")
    parser.add_argument("--round-seed", type=int, help="play this one round alone")
    parser.add_argument("--plan", type=Path, help="play the plan of this file (JSON, as a failure prints it)")
    parser.add_argument(
        "--schedule", default="all", metavar="NAME",
        help=f"what happens more often: {', '.join(PROFILES)}, or the name of an operation",
    )  # fmt: skip
    parser.add_argument("--steps", type=int, default=14, help="faults of each round")
    parser.add_argument("--length-s", type=float, default=25.0, help="in which they begin")
    parser.add_argument("--rounds", type=int, default=10**9, help="at most so many")
    parser.add_argument("--repeat", type=int, default=1, help="play the round of --round-seed or --plan so often")
    parser.add_argument("--shorten-s", type=float, default=300.0, help="how long a failing schedule is made shorter")
    parser.add_argument("--logs", action="store_true", help="print the logs of a round that failed")
    parser.add_argument("--operations", action="store_true", help="list the operations, and end")
    options = parser.parse_args()
    logging.getLogger("mqregistry").setLevel(logging.CRITICAL)  # of what this process reads itself
    if options.operations:
        for name, one in OPERATIONS.items():
            if options.redis in one.variants:
                print(f"{name} ({one.weight:g}): {one.what}")
        return 0
    try:
        weights(options.schedule, options.redis)
        told = from_json(options.plan.read_text()) if options.plan else None
    except ValueError as error:
        parser.error(str(error))
    if told is not None:
        return _replay(told, options)
    if options.round_seed is not None:
        return _replay(_plan(options.round_seed, options), options)
    return _campaign(options)


def _plan(seed: int, options: argparse.Namespace) -> Plan:
    return plan(
        seed, length_s=options.length_s, steps=options.steps, profile=options.schedule, variant=options.redis
    )  # fmt: skip


def _replay(whole: Plan, options: argparse.Namespace) -> int:
    print(f"round {whole.seed}:\n{whole}", flush=True)
    for _ in range(options.repeat):
        outcome = play(whole)
        _tell(whole, outcome, options)
        if outcome.wrong:
            return 1
    return 0


def _tell(whole: Plan, outcome: Outcome, options: argparse.Namespace) -> None:
    verdict = "FAILED" if outcome.wrong else "ok"
    print(f"round {whole.seed}: {verdict} in {outcome.took_s:.0f} s; {outcome.notes}", flush=True)
    for text in outcome.wrong[:10]:
        print(f"  {text}")
    if outcome.wrong and options.logs:
        print(outcome.logs)
    sys.stdout.flush()


def _campaign(options: argparse.Namespace) -> int:
    random = Random(options.seed)
    began = time.monotonic()
    rounds, done = 0, Counter[str]()
    while time.monotonic() < began + 60 * options.minutes and rounds < options.rounds:
        whole = _plan(random.randrange(1 << 31), options)
        outcome = play(whole)
        rounds += 1
        done += outcome.done
        _tell(whole, outcome, options)
        if outcome.wrong:
            _tell_failure(whole, options)
            return 1
    minutes = (time.monotonic() - began) / 60
    print(f"seed {options.seed}: {rounds} rounds in {minutes:.1f} minutes without a finding")
    print("played: " + ", ".join(f"{name} {count}" for name, count in done.most_common()))
    return 0


def _tell_failure(whole: Plan, options: argparse.Namespace) -> None:
    print(f"the schedule of round {whole.seed} (seed {options.seed}):\n{whole}")
    print(f"again: python -m tests.campaign --round-seed {whole.seed} --redis {whole.variant} --schedule "
          f"{options.schedule} --steps {options.steps} --length-s {options.length_s:g}", flush=True)  # fmt: skip

    def fails(steps: object) -> bool:
        outcome = play(Plan(whole.seed, tuple(steps), whole.variant))  # type: ignore[arg-type]
        print(f"  with {len(steps)} steps: {outcome.wrong[0] if outcome.wrong else 'ok'}", flush=True)  # type: ignore[arg-type]
        return bool(outcome.wrong)

    shortest = Plan(whole.seed, tuple(shorten(whole.steps, fails, within_s=options.shorten_s)), whole.variant)
    print(f"shortened to {len(shortest.steps)} of {len(whole.steps)} steps:\n{shortest}\n{shortest.to_json()}")


if __name__ == "__main__":
    sys.exit(main())
