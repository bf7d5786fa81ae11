"""``shadow``: passes clients on to a Java NameServer, repeats their reads at our server, and compares the answers."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any, Final

import click
import msgspec
from prometheus_client import Metric
from prometheus_client.core import HistogramMetricFamily

from ...compare.differences import Cell
from ...compare.judged_differences import Sort, now_ms
from ...histograms import DurationHistogram, buckets
from ...operators.words import counted
from ...queued_output import queue_output
from ...shadow.counts import Counts, quantile_s
from ...shadow.relay import Relay
from ...shadow.repeats import Repeats
from ...shadow.tap import Tap
from ...tasks import set_by_signals, wait_within
from .. import output
from ..exporter import exporting, family, listen_address
from ..read.tables import one_name_server
from ..tls import tls_options
from .words import length_option, show_groups, show_uncounted

_PREFIX: Final = "mqregistry_shadow_"
_DIFFERENT: Final = 1


class _Now:
    """What ``shadow`` has found so far, as text, JSON and metrics."""

    def __init__(self, relay: Relay, repeats: Repeats, counts: Counts) -> None:
        self._relay, self._repeats, self._counts = relay, repeats, counts
        self._shown: set[Cell] = set()

    @property
    def differs(self) -> bool:
        """Whether a difference counts."""
        return bool(self._repeats.of(Sort.COUNTED))

    def as_json(self) -> dict[str, Any]:
        """All counts, times and differences."""
        counts, standing = self._counts, self._repeats.standing()
        return {
            "at_ms": now_ms(), "connections": len(self._relay.open),
            "tls_connections": counts.tls_connections, "unreadable_connections": counts.unreadable_connections,
            "requests": counts.requests, "same": counts.of("same"), "different": counts.of("different"),
            "meant": counts.of("meant"), "failed": counts.failed, "skipped": counts.skipped,
            "ours_away": self._repeats.away,
            "milliseconds": {server: {"p50": _ms(took, 0.5), "p99": _ms(took, 0.99)}
                             for server, took in counts.took.items()},
            "counts": {sort.value: sum(one.sort is sort for one in standing) for sort in Sort},
            "differences": msgspec.to_builtins(standing),
        }  # fmt: skip

    def show(self) -> None:
        """Print a line of counts, and the differences if they have changed."""
        counts, at_ms = self._counts, now_ms()
        parts = [
            counted(len(self._relay.open), "connection"), counted(sum(counts.repeated.values()), "read") + " repeated",
            f"{counts.of('same')} same", f"{counts.of('different')} differed at first", f"{counts.of('meant')} meant",
        ]  # fmt: skip
        parts += [f"{number} {what}" for number, what in (
            (counts.failed, "not answered by ours"), (counts.skipped, "not repeated"),
            (counts.tls_connections, "TLS connections passed through unread"),
            (counts.unreadable_connections, "connections passed through unread"),
        ) if number]  # fmt: skip
        output.show(f"{output.moment(at_ms)} {', '.join(parts)}; {_times(counts)}")
        if self._repeats.away:
            output.show(f"  ours: {self._repeats.away}")
        standing = self._repeats.standing()
        cells = {one.cell for one in standing if one.sort is not Sort.YOUNG}
        if cells != self._shown:
            self._shown = cells
            found = [one for one in standing if one.sort is Sort.COUNTED]
            output.show(counted(len(found), "difference"))
            show_groups(found, at_ms)
            show_uncounted(standing, at_ms)

    def exposition(self) -> list[Metric]:
        """The page for Prometheus."""
        counts, standing = self._counts, self._repeats.standing()
        return [
            family(f"{_PREFIX}connections", "gauge", "Connections that are passed through.",
                   [({}, len(self._relay.open))]),
            family(f"{_PREFIX}unread_connections_total", "counter",
                   "Connections that were passed through without being read: TLS, or not RocketMQ's protocol.",
                   [({"why": "tls"}, counts.tls_connections), ({"why": "protocol"}, counts.unreadable_connections)]),
            family(f"{_PREFIX}requests_total", "counter", "Requests that were passed through and read.",
                   [({}, counts.requests)]),
            family(f"{_PREFIX}repeated_total", "counter",
                   "Reads that ours answered, by code and first result: same, different, meant.",
                   (({"code": str(code), "result": result}, number)
                    for (code, result), number in sorted(counts.repeated.items()))),
            family(f"{_PREFIX}failed_total", "counter", "Reads that ours did not answer.", [({}, counts.failed)]),
            family(f"{_PREFIX}skipped_total", "counter", "Reads that were not repeated: there were too many.",
                   [({}, counts.skipped)]),
            family(f"{_PREFIX}ours_up", "gauge", "1 when ours answered the last read.",
                   [({}, not self._repeats.away)]),
            family(f"{_PREFIX}differences", "gauge", "Current differences, by sort (counted, young, meant, noise).",
                   (({"sort": sort.value}, sum(one.sort is sort for one in standing)) for sort in Sort)),
            _histogram(f"{_PREFIX}seconds", "How long the servers took for the reads that were repeated.",
                       counts.took),
        ]  # fmt: skip


def _ms(took: DurationHistogram, share: float) -> float | None:
    seconds = quantile_s(took, share)
    return None if seconds is None else round(seconds * 1000, 3)


def _times(counts: Counts) -> str:
    shown = ((server, _ms(took, 0.5), _ms(took, 0.99)) for server, took in counts.took.items())
    return ", ".join(f"{server} p50 ≤{half or '-'} p99 ≤{most or '-'} ms" for server, half, most in shown)


def _histogram(name: str, text: str, took: dict[str, DurationHistogram]) -> Metric:
    found = HistogramMetricFamily(name, text, labels=["server"])
    for server, durations in took.items():
        found.add_metric([server], buckets(durations.counts), durations.total_s)
    return found


@click.command()
@click.option("--port", "here", required=True, metavar="[HOST:]PORT",
              help="Where clients connect to. Default HOST: 127.0.0.1.")  # fmt: skip
@click.option("--java", required=True, metavar="HOST:PORT", help="The Java NameServer, whose answers clients get.")
@click.option("--ours", required=True, metavar="HOST:PORT", help="Our name server, which gets the same reads.")
@length_option("--every", "every_ms", "The time between reports.", "10s")
@length_option(
    "--lasting",
    "lasting_ms",
    "A difference counts when it is older than this; the default is one heartbeat period.",
    "30s",
)
@click.option("--most", "most_per_s", type=click.IntRange(1, 100_000), default=500, show_default=True, metavar="N",
              help="Repeat at most this many reads a second.")  # fmt: skip
@click.option("--timeout", "timeout_s", type=click.FloatRange(0.01, 60), default=3.0, show_default=True, metavar="S",
              help="The longest wait for a connection to ours, and for each answer.")  # fmt: skip
@click.option("--listen", metavar="[HOST:]PORT", help="Also serve /metrics for Prometheus. Default HOST: 127.0.0.1.")
@click.option("--json", "as_json", is_flag=True, help="JSON, one line a report.")
@tls_options
def shadow(
    here: str, java: str, ours: str, every_ms: int, lasting_ms: int, most_per_s: int, timeout_s: float,
    listen: str | None, as_json: bool, tls: ssl.SSLContext | None,
) -> None:  # fmt: skip
    """Pass connections through to a Java NameServer, and repeat the clients' reads at OURS.

    Clients get Java's answers, unchanged, and never wait for ours. Only reads are repeated (105, 106, 101, 219, 206,
    224, 304, 311 to 313, 319, 901), in the background; writes go to Java alone. Connections with TLS pass through, too,
    but their reads cannot be repeated. --tls is for the connection to ours.

    Runs until Ctrl-C; ends with 1 when a difference counts then, else with 0.
    """
    host, port = listen_address(here, "--port")
    queue_output()  # connections pass through here: no reader of the log may hold them up
    logging.basicConfig(level=logging.WARNING, format="mqregistry: %(message)s")

    async def work() -> int:
        to, asked = await one_name_server(java, "--java"), await one_name_server(ours, "--ours")
        counts = Counts()
        repeats = Repeats(to, asked, counts, lasting_ms=lasting_ms, most_per_s=most_per_s, timeout_s=timeout_s, tls=tls)
        relay = Relay(host, port, to.host, to.port, lambda: Tap(counts, repeats.offer))
        now = _Now(relay, repeats, counts)
        stop = set_by_signals()
        with exporting(listen, now.exposition):
            try:
                async with repeats, relay:
                    click.echo(f"passing {here} through to {to}, repeating reads at {asked}; Ctrl-C ends it", err=True)
                    await _report(now, stop, every_ms / 1000, as_json)
            except OSError as error:
                raise click.ClickException(f"cannot listen on {here}: {error.strerror or error}") from error
        return _DIFFERENT if now.differs else 0

    raise SystemExit(asyncio.run(work()))


async def _report(now: _Now, stop: asyncio.Event, every_s: float, as_json: bool) -> None:
    while not stop.is_set():
        await wait_within(stop, every_s)
        if as_json:
            output.json_line(now.as_json())
        else:
            now.show()
