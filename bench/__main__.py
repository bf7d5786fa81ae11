"""Runs the measurements of this folder: ``python -m bench NAME [options]``, or several names one after the other.

A suite is a module with a ``main() -> int`` that reads ``sys.argv`` (argparse) and returns 0 when every bar held.
SUITES has one line for each suite; a suite is imported only when it runs.
"""

from __future__ import annotations

import importlib
import sys
from typing import NamedTuple


class Suite(NamedTuple):
    """One measurement: the module with its ``main``, what it measures, and whether a call without names runs it."""

    module: str
    what: str
    in_selection: bool = False


SUITES = {
    "compare": Suite(
        "compare.command", "ours beside the Java NameServer under the same load (--full: everything)", True
    ),
    "pairs": Suite("compare.pairs", "this checkout and a second one, each load in turn"),
    "hotpath": Suite("costs.hotpath", "CPU time of each step of a lookup and of a registration inside a worker"),
    "authorization": Suite("costs.authorization", "what enforced rules add to a lookup, for each kind of sender"),
    "scripts": Suite("costs.scripts", "what each Lua script costs Redis, against bare loops of the same commands"),
    "registrations": Suite("costs.registrations", "CPU time of registrations in each process, and memory afterwards"),
    "embedded": Suite("costs.embedded", "each Redis or Valkey that `up` can start, in turn"),
    "start": Suite("delays.start", "how long `mqregistry up` takes to start, to start again, and to end; commands"),
    "restart": Suite("delays.restart", "how soon a front end that starts again answers, with S2's tables"),
    "client": Suite("delays.client", "how long a changed route takes to reach an application, announced and polled"),
    "console": Suite(
        "delays.console",
        "how soon open pages of the console show a change, its pages, its memory, and how it slows lookups",
    ),
    "scale": Suite("limits.command", "the limits: one Redis, 10,000 brokers, namespaces over a Redis Cluster"),
    "pipeline": Suite("pipeline.throughput", "how fast Spark turns streams into tables, and the CPU time"),
    "lag": Suite("delays.lag", "how long a change takes to reach every worker of every front end, under load"),
}


def usage() -> str:
    lines = [f"  {name:14} {suite.what}{' *' if suite.in_selection else ''}" for name, suite in SUITES.items()]
    return "\n".join(
        ["usage: python -m bench [NAME...] [options of the last one, --help for them]", "", *lines, "",
         "Without a name those marked * run."]
    )  # fmt: skip


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split the arguments into the suites' names, which come first, and the options after them.

    Raises:
        SystemExit: a name is no suite; there are options, but no name.
    """
    names: list[str] = []
    while len(names) < len(arguments) and not arguments[len(names)].startswith("-"):
        names.append(arguments[len(names)])
    options = arguments[len(names) :]
    unknown = [name for name in names if name not in SUITES]
    if unknown:
        raise SystemExit(f"no suite {unknown[0]!r}; there are: {', '.join(SUITES)}")
    if options and not names:
        raise SystemExit(usage())
    return names or [name for name, suite in SUITES.items() if suite.in_selection], options


def main() -> int:
    """Run the suites; the exit status says whether every bar held."""
    names, options = split(sys.argv[1:])
    failed = False
    for name in names:
        print(f"\n## {name}\n", flush=True)
        sys.argv = [f"python -m bench {name}", *(options if name == names[-1] else ())]
        failed = bool(importlib.import_module(f"bench.{SUITES[name].module}").main()) or failed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
