"""Long runs: python -m tests.fleet --sequences 1000 --seed 1"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.servers.processes import Processes
from tests.differential.__main__ import search_as_told, search_options

from .start import start_pair


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fleet", description=__doc__)
    parser.add_argument("--front-ends", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1, help="worker processes of each of them")
    parser.add_argument(
        "--eager", action="store_true", help="writes do not wait for what another front end wrote before"
    )
    parser.add_argument("--compat", default="5.x", help="the behaviour of all of them: 5.x or 4.8")
    search_options(parser, sequences=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mqfleet") as folder:
        processes = Processes(Path(folder))
        try:
            pair = start_pair(
                processes, options.front_ends, options.workers, eager=options.eager, compat=options.compat
            )
            found = search_as_told(pair, options)
            pair.close()
            if found:
                for name, told in processes.reports():
                    print(f"--- {name}\n{told}")
            return 1 if found else 0
        finally:
            processes.close()


if __name__ == "__main__":
    sys.exit(main())
