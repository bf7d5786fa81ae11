"""Long runs: python -m tests.differential --version 5.3.3 --sequences 2000 --seed 1"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from bench.servers.processes import Processes
from bench.servers.rocketmq import Unavailable
from tests.interop.rocketmq import fetch

from .run import Difference, Pair, start_pair
from .shrink import Numbers, random_sequence, shrink, steps_of


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--version", default="5.3.3", help="release of the Java NameServer")
    search_options(parser, sequences=2000)
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a NameServer setting, for both servers"
    )
    options = parser.parse_args()
    properties = dict(assignment.split("=", 1) for assignment in options.set)
    try:
        release = fetch(options.version)
    except Unavailable as reason:
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="mqdiff") as folder:
        processes = Processes(Path(folder))
        try:
            pair = start_pair(processes, release, properties)
            found = search_as_told(pair, options)
            if found:
                for name, told in processes.reports():
                    print(f"--- {name}\n{told}")
            return 1 if found else 0
        finally:
            processes.close()


def search_options(parser: argparse.ArgumentParser, *, sequences: int) -> None:
    """The options that :func:`search_as_told` reads."""
    parser.add_argument("--sequences", type=int, default=sequences)
    parser.add_argument("--length", type=int, default=60, help="operations in each sequence")
    parser.add_argument("--seed", type=int, default=1, help="of the first sequence; the next ones count on from it")
    parser.add_argument("--shrink-s", type=float, default=60.0, help="how long one difference is made shorter")
    parser.add_argument("--stop-after", type=int, default=1, help="differences to find before it stops")


def search_as_told(pair: Pair, options: argparse.Namespace) -> int:
    return search(
        pair, options.seed, options.sequences, options.length, shrink_s=options.shrink_s, stop_after=options.stop_after
    )


def search(
    pair: Pair, first_seed: int, sequences: int, length: int, *, shrink_s: float = 60.0, stop_after: int = 1
) -> int:
    """Play random sequences; print those that differ twice, made shorter. Returns how many were found."""
    started = told = time.monotonic()
    found, flaky, number = 0, 0, 0
    for number in range(sequences):
        seed = first_seed + number
        sequence = random_sequence(seed, length)
        difference = attempt(pair, sequence)
        if difference is not None:
            again = attempt(pair, sequence)
            if again is None:
                flaky += 1
                print(f"seed {seed}: differed once and not again (timing): {difference}", flush=True)
                continue
            found += 1
            print(f"seed {seed} differs: {again}", flush=True)
            report(pair, seed, sequence, shrink_s)
            if found >= stop_after:
                break
        if time.monotonic() > told + 10:
            told = time.monotonic()
            rate = (number + 1) / (told - started)
            print(f"{number + 1} sequences, {found} differ, {rate:.1f} a second", flush=True)
    print(f"{number + 1} sequences of {length} from seed {first_seed}: {found} differ, {flaky} only once")
    print("requests by code: " + ", ".join(f"{code} {count}" for code, count in sorted(pair.sent.items())))
    print(f"ours could not tell for want of its Redis, and the sequence was run again: {pair.not_now}")
    print("stepped aside: " + ", ".join(f"{why} {count}" for why, count in sorted(pair.stepped_aside.items())))
    return found


def attempt(pair: Pair, sequence: list[Numbers]) -> Difference | None:
    try:
        pair.run(steps_of(sequence))
    except Difference as difference:
        return difference
    return None


def report(pair: Pair, seed: int, sequence: list[Numbers], shrink_s: float) -> None:
    shortest = shrink(sequence, lambda candidate: attempt(pair, candidate) is not None, shrink_s)
    difference = attempt(pair, shortest)
    print(f"\nseed {seed}: the servers differ; shortest found:")
    for number, step in enumerate(steps_of(shortest)):
        print(f"  {number}: {step}")
    print(f"  -> {difference}\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
