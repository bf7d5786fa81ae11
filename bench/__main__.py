"""Every measurement of this folder, as Markdown: ``make bench``, or ``python -m bench start scripts``."""

from __future__ import annotations

import sys

from bench import scripts, start

SUITES = {"scripts": scripts.run, "start": start.run}


def main() -> None:
    """Run the suites that are named, or all."""
    names = sys.argv[1:] or list(SUITES)
    for name in names:
        if name not in SUITES:
            raise SystemExit(f"no suite {name!r}; there are: {', '.join(SUITES)}")
        print(f"\n## {name}\n\n| what | bar | measured |\n| --- | --- | --- |")
        for row in SUITES[name]():
            print("| " + " | ".join(row) + " |", flush=True)


main()
