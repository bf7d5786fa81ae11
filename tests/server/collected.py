"""A worker in a new interpreter that tells of the cycles among what it has not looked at: for test_collector.

SIGUSR1: what is alive is not looked at any more. SIGUSR2: it is, and the log tells what was garbage.
"""

import gc
import logging
import signal
import sys
from collections import Counter
from typing import Any

from mqregistry.server.process.worker import main


def freeze(*_: Any) -> None:
    gc.unfreeze()  # what the start left is none of the connections'
    gc.collect()
    gc.freeze()
    logging.warning("frozen")


def collect(*_: Any) -> None:
    gc.collect()  # what it looks at anyway
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.unfreeze()
    gc.collect()
    kinds = Counter(type(one).__name__ for one in gc.garbage)
    logging.warning("garbage: %s.", sorted(name for name, count in kinds.items() if count >= 10))


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, freeze)
    signal.signal(signal.SIGUSR2, collect)
    sys.exit(main(sys.stdin.read()))
