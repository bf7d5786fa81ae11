"""Long runs: python -m tests.fuzz --minutes 60 --seed 1; one stream again: --seed 1 --only 4711

Ends with 1 when anything was found. After a finding the front end is started anew, so that one does not hide others.
"""

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
SHOWN_BYTES = 10_000
MOST_GROWTH = 48 * MB
"""Of a worker, from its first minute to the least of the last samples: what grows for ever is far beyond it in an hour;
what it keeps of large bodies, and the tables that streams have filled, are below."""
LAST_SAMPLES = 5
"""Of which the least counts: one that was taken while a body of 16 MB was decoded says nothing."""


class Findings:
    """What was found, printed at once."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.seed, self.most, self.count = options.seed, options.findings, 0

    def add(self, number: int | None, what: str) -> None:
        self.count += 1
        which = "" if number is None else f" stream {number}"
        print(f"FINDING {self.count}: seed {self.seed}{which}: {what}")
        if number is not None:
            print(f"  again: python -m tests.fuzz --seed {self.seed} --only {number}")
            print(f"  {stream(self.seed, number).data.hex()[:SHOWN_BYTES]}", flush=True)

    @property
    def enough(self) -> bool:
        return self.count >= self.most


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="a fifth of it without a network")
    parser.add_argument("--compat", default="5.x", help="the behaviour of the front end: 5.x or 4.8")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of one stream")
    parser.add_argument("--first", type=int, default=0, help="the number of the first stream")
    parser.add_argument("--no-live", action="store_true", help="nothing over the wire")
    parser.add_argument("--findings", type=int, default=5, help="end after so many findings")
    options = parser.parse_args()
    print(f"seed {options.seed}, compat {options.compat}, {options.minutes:g} minutes", flush=True)
    if options.only is not None:
        print(stream(options.seed, options.only))
    findings = Findings(options)
    without_network(options, findings)
    if not options.no_live:
        over_the_wire(options, findings)
    print(f"seed {options.seed}: {findings.count} findings", flush=True)
    return 1 if findings.count else 0


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


def without_network(options: argparse.Namespace, findings: Findings) -> None:
    tally = Tally()
    for number in numbers(options, 1.0 if options.no_live else 0.2):
        try:
            try_stream(stream(options.seed, number).data, Random(number), tally)
        except Exception as error:  # noqa: BLE001 - it is a finding
            findings.add(number, f"{type(error).__name__}: {str(error)[:2000]}")
            if findings.enough:
                break
    print(
        f"without a network: {tally.streams} streams, {tally.frames} frames, {tally.commands} commands, "
        f"{tally.refusals} refusals; the slowest stream took {tally.slowest_s * 1000:.0f} ms of processor time",
        flush=True,
    )


def over_the_wire(options: argparse.Namespace, findings: Findings) -> None:
    streams = numbers(options, 0.8)
    while not findings.enough and one_front_end(options, findings, streams):
        pass


def one_front_end(options: argparse.Namespace, findings: Findings, streams) -> bool:
    """Send streams to a front end of its own; True when a finding ended it before they did."""
    live = Live(options.compat)
    began = told = time.monotonic()
    samples = [live.rss()]
    ended_by_finding = False
    number = None
    try:
        for number in streams:
            live.try_stream(stream(options.seed, number))
            if number % CHECK_EVERY == 0:
                live.check()
                live.check_scripts()
            if time.monotonic() > told + TELL_EVERY_S:
                told = time.monotonic()
                samples.append(live.rss())
                print(
                    f"{live.connections} connections, {live.connections / (told - began):.0f} a second, "
                    f"RSS {samples[-1] / MB:.1f} MB, Redis {live.redis_bytes() / MB:.1f} MB", flush=True,
                )  # fmt: skip
        live.check()
        live.check_scripts()
    except Wrong as wrong:
        findings.add(number, str(wrong))
        ended_by_finding = True
    try:
        samples.append(live.rss())
        first, last = max(samples[:3]), min(samples[-LAST_SAMPLES:])
        if len(samples) > 3 + LAST_SAMPLES and last > first + MOST_GROWTH:
            findings.add(None, f"a worker grew from {first / MB:.1f} to {last / MB:.1f} MB")
        print(
            f"over the wire: {live.connections} connections, {live.bytes / MB:.1f} MB sent, {live.answers} answers, "
            f"{live.hung_up} hung up on, {live.lines} log lines; slowest {live.slowest_s * 1000:.0f} ms, "
            f"another client's slowest {live.slowest_control_s * 1000:.0f} ms, "
            f"slowest script {live.slowest_script_ms:.0f} ms; "
            f"RSS first {samples[0] / MB:.1f} MB, after a minute {first / MB:.1f} MB, at most "
            f"{max(samples) / MB:.1f} MB, last {samples[-1] / MB:.1f} MB; Redis {live.redis_bytes() / MB:.1f} MB; "
            f"answers by code: {', '.join(f'{code} {count}' for code, count in live.codes.most_common())}",
            flush=True,
        )
    except Exception as error:  # noqa: BLE001 - the process ended, which is the finding above
        print(f"no figures: {error!r}")
    finally:
        live.close()
    return ended_by_finding


if __name__ == "__main__":
    sys.exit(main())
