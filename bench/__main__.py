"""Every measurement of this folder, as Markdown: ``make bench``, or ``python -m bench start scripts``."""

from __future__ import annotations

import sys

from bench import scripts, start

SUITES = {"scripts": scripts.main, "start": start.main}


def main() -> int:
    """Run the suites that are named, or all; the exit status says whether every bar held."""
    names, failed = sys.argv[1:] or list(SUITES), False
    for name in names:
        if name not in SUITES:
            raise SystemExit(f"no suite {name!r}; there are: {', '.join(SUITES)}")
    for name in names:
        print(f"\n## {name}\n", flush=True)
        sys.argv = [name]
        failed = bool(SUITES[name]()) or failed
    return 1 if failed else 0


sys.exit(main())
