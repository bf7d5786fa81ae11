"""Long runs: python -m tests.fuzz --minutes 10 --seed 1; one stream again: --seed 1 --only 4711"""

from __future__ import annotations

import argparse
import sys
import time
from random import Random

from .live import Live, Wrong
from .mutate import stream
from .protocol import Tally, try_stream

CHECK_EVERY = 100
TELL_EVERY_S = 30.0
MB = 1 << 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="a fifth of it without a network")
    parser.add_argument("--compat", default="5.x", help="the behaviour of the front end: 5.x or 4.8")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of one stream")
    parser.add_argument("--first", type=int, default=0, help="the number of the first stream")
    parser.add_argument("--no-live", action="store_true", help="nothing over the wire")
    options = parser.parse_args()
    if options.only is not None:
        print(stream(options.seed, options.only))
    failed = without_network(options)
    return failed if failed or options.no_live else over_the_wire(options)


def numbers(options: argparse.Namespace, share: float):
    """The numbers of the streams, until the time is over."""
    if options.only is not None:
        yield options.only
        return
    end = time.monotonic() + 60 * options.minutes * share
    number = options.first
    while time.monotonic() < end:
        yield number
        number += 1


def without_network(options: argparse.Namespace) -> int:
    tally = Tally()
    for number in numbers(options, 1.0 if options.no_live else 0.2):
        data = stream(options.seed, number).data
        try:
            try_stream(data, Random(number), tally)
        except Exception as error:
            print(f"seed {options.seed} stream {number}: {type(error).__name__}: {str(error)[:2000]}\n{data.hex()}")
            raise
    print(
        f"without a network: {tally.streams} streams, {tally.frames} frames, {tally.commands} commands, "
        f"{tally.refusals} refusals; the slowest stream took {tally.slowest_s * 1000:.0f} ms of processor time",
        flush=True,
    )
    return 0


def over_the_wire(options: argparse.Namespace) -> int:
    live = Live(options.compat)
    began = told = time.monotonic()
    try:
        before = live.rss()
        samples = [before]
        for number in numbers(options, 0.8):
            try:
                live.try_stream(stream(options.seed, number))
                if number % CHECK_EVERY == 0:
                    live.check()
            except Wrong as wrong:
                print(
                    f"seed {options.seed} stream {number}: {wrong}\n{stream(options.seed, number).data.hex()[:20_000]}"
                )
                return 1
            if time.monotonic() > told + TELL_EVERY_S:
                told = time.monotonic()
                samples.append(live.rss())
                print(
                    f"{live.connections} connections, {live.connections / (told - began):.0f} a second, "
                    f"RSS {samples[-1] / MB:.1f} MB, Redis {live.redis_bytes() / MB:.1f} MB", flush=True,
                )  # fmt: skip
        live.check()
        samples.append(live.rss())
        print(
            f"over the wire: {live.connections} connections, {live.bytes / MB:.1f} MB sent, {live.answers} answers, "
            f"{live.hung_up} hung up on, {live.lines} log lines; slowest {live.slowest_s * 1000:.0f} ms, "
            f"another client's slowest {live.slowest_control_s * 1000:.0f} ms; "
            f"RSS {before / MB:.1f} MB before, {max(samples) / MB:.1f} MB at most, {samples[-1] / MB:.1f} MB after; "
            f"Redis {live.redis_bytes() / MB:.1f} MB; "
            f"answers by code: {', '.join(f'{code} {count}' for code, count in live.codes.most_common())}"
        )
        return 0
    finally:
        live.close()


if __name__ == "__main__":
    sys.exit(main())
