"""Tries every mutant of patches/: does each of its named tests fail with it, and does the campaign find it?

python -m tests.mutants; one row: --only A06; with the campaign: --campaign 10
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed

import msgspec

from .patches import SELF_CHECKS, Mutant, read_mutants
from .trial import STILL_WORKS, Options, Result, copied, failures, run_tests, try_mutant


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Ends with 1 when a named test misses its mutant or a mutant cannot be tried. What the campaign misses "
        "is only told.",
    )  # fmt: skip
    parser.add_argument("--only", default="", help="rows or mutants, with commas between them: A06,B01b")
    parser.add_argument("--campaign", type=float, default=0.0, metavar="MINUTES", help="run the campaign for so long")
    parser.add_argument("--seed", type=int, default=1, help="of the campaign")
    parser.add_argument("--schedule", default="", help="of the campaign, for all; else that which the mutant names")
    parser.add_argument("--no-tests", action="store_true", help="the campaign alone")
    parser.add_argument("--no-baseline", action="store_true", help="do not see the named tests pass first")
    parser.add_argument("--processes", type=int, default=2, help="mutants that are tried at the same time")
    parser.add_argument("--json", action="store_true", help="print JSON, and no table")
    options = parser.parse_args()
    chosen = choose(read_mutants(), options.only)
    if not chosen:
        parser.error(f"no mutant is called {options.only}")
    how = Options(options.campaign, options.seed, options.schedule, named=not options.no_tests)

    def say(line: str) -> None:
        print(line, file=sys.stderr if options.json else sys.stdout, flush=True)

    if how.named and not options.no_baseline:
        failing = failing_without(chosen, options.processes)
        if failing:
            say("these fail without any mutant, so they say nothing:")
            for test, why in failing.items():
                say(f"  {test}: {why}")
            return 1
    results: list[Result] = []
    with ThreadPoolExecutor(options.processes) as pool:
        for done in as_completed([pool.submit(try_mutant, mutant, how) for mutant in chosen]):
            results.append(done.result())
            say(progress(results[-1]))
    results.sort(key=lambda result: result.id)
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(results), indent=2).decode())
    else:
        print(table(results))
    return int(any(not result.caught for result in results))


def choose(mutants: list[Mutant], only: str) -> list[Mutant]:
    """The mutants of these rows, or with these ids; all of them for "". The self checks always come first."""
    names = {name.strip() for name in only.split(",") if name.strip()}
    rest = [mutant for mutant in mutants if mutant.id not in SELF_CHECKS]
    wanted = [mutant for mutant in rest if not names or {mutant.id, mutant.row} & names]
    first = [mutant for mutant in mutants if mutant.id in SELF_CHECKS]
    return [*first, *wanted] if wanted else [mutant for mutant in first if mutant.id in names]


def failing_without(mutants: list[Mutant], processes: int) -> dict[str, str]:
    """The named tests that fail without a mutant, and why."""
    tests = sorted({test for mutant in mutants for test in mutant.tests} | {STILL_WORKS})
    with copied() as checkout:
        outcomes, fault = run_tests(checkout, tests, 3600, "-n", str(processes), "--dist", "worksteal")
        if fault:
            return {"pytest": fault}
        return {test: why for test in tests if (why := failures(test, outcomes))}


def progress(result: Result) -> str:
    """What became of one mutant, with the reasons."""
    lines = [f"{result.id}: {result.what}"]
    if result.fault:
        lines.append(f"  FAULT {result.fault}")
    for test, why in result.named.items():
        lines.append(f"  {'caught by' if why else 'MISSED by'} {test}{f': {why}' if why else ''}")
    if result.campaign is not None:
        played = result.campaign
        said = {True: "caught by", False: "missed by", None: "not tried by"}[played.caught]
        lines.append(f"  {said} the campaign, seed {played.seed}, after {played.after_s:.0f} s {played.why}")
    return "\n".join(lines)


def table(results: list[Result]) -> str:
    """All of them, one line each, and the sums."""
    lines = [f"{'MUTANT':<12} {'TESTS':<8} {'CAMPAIGN':<14} WHAT"]
    for result in results:
        named = "fault" if result.fault else "-" if not result.named else "caught" if result.caught else "MISSED"
        lines.append(f"{result.id:<12} {named:<8} {campaign_cell(result):<14} {result.what}")
    tried = [result for result in results if result.named]
    if tried:
        lines.append(f"named tests: {sum(result.caught for result in tried)} of {len(tried)} caught")
    played = [result for result in results if result.campaign is not None and result.row.startswith("A")]
    if played:
        found = sum(result.campaign is not None and result.campaign.caught is True for result in played)
        lines.append(f"campaign, part A: {found} of {len(played)} caught ({100 * found / len(played):.0f} %)")
    return "\n".join(lines)


def campaign_cell(result: Result) -> str:
    played = result.campaign
    if played is None:
        return "-"
    return {True: f"after {played.after_s:.0f} s", False: "missed", None: "not tried"}[played.caught]


if __name__ == "__main__":
    sys.exit(main())
