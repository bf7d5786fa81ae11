"""``compare``: shows the differences between name servers, registries and past states, with their age."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
import msgspec
from prometheus_client import Metric

from ...compare.judged_differences import Sort
from ...compare.report import Report, counts
from ...errors import RegistryError, StartError
from ...names import printable
from ...operators.words import counted
from ...tasks import set_by_signals
from .. import output
from ..exporter import exporting, family
from ..options import config_file_option, lake_option
from ..tls import tls_options
from .comparing import Comparing, is_decided
from .name_sides import Ways, find_sides
from .sides import NameServerSide
from .words import length_option, show_groups, show_uncounted

SAME: Final = 0
DIFFERENT: Final = 1
UNREACHABLE: Final = 3
_END_S: Final = 1.0
_PREFIX: Final = "mqregistry_compare_"


@click.command()
@click.argument("sides", nargs=-1, required=True, metavar="SIDE...")
@click.option("--once", is_flag=True,
              help="End when nothing differs, or each difference is older than --lasting.")  # fmt: skip
@length_option("--until-same", "until_same_ms", "End with 0 when nothing differs, or with 1 after this time.")
@length_option("--every", "every_ms", "The time between full comparisons; differences are checked each second.", "10s")
@length_option(
    "--lasting",
    "lasting_ms",
    "A difference counts when it is older than this; the default is one heartbeat period.",
    "30s",
)
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only the routes of these topics; repeatable.")
@click.option("--kv-namespace", "kv_namespaces", multiple=True, metavar="NAME",
              help="Also compare this KV namespace; name servers do not list theirs. Repeatable.")  # fmt: skip
@click.option("--timeout", "timeout_s", type=click.FloatRange(0.01, 60), default=5.0, show_default=True, metavar="S",
              help="The longest wait for a connection, and for each answer.")  # fmt: skip
@click.option("--namespace", metavar="NAME", help="The namespace of every Redis or lake SIDE that has no #NAME.")
@click.option("--listen", metavar="[HOST:]PORT", help="Also serve /metrics for Prometheus. Default HOST: 127.0.0.1.")
@click.option("--json", "as_json", is_flag=True, help="JSON, one line whenever the result changes.")
@lake_option
@config_file_option
@tls_options
def compare(
    sides: tuple[str, ...], once: bool, until_same_ms: int | None, every_ms: int, lasting_ms: int,
    topics: tuple[str, ...], kv_namespaces: tuple[str, ...], timeout_s: float, namespace: str | None,
    listen: str | None, as_json: bool, lake: str, config_file: Path | None, tls: ssl.SSLContext | None,
) -> None:  # fmt: skip
    """Compare what SIDEs have: clusters, brokers, every topic's route, KV and configuration.

    \b
    A SIDE is
      host:port or a list of them     name servers, ours or Java's, each a side
      redis://host:port[#namespace]   what a front end answers from that Redis
      lake@TIME[#namespace]           the registry as it was then, from the lake (--lake)

    Without --once and --until-same it runs until Ctrl-C, and shows the result whenever a difference comes or goes.
    Ends with 0 when no difference counts, 1 when one counts, 3 when a side cannot be read.
    """  # noqa: D301 (\\b is for click)
    if once and until_same_ms is not None:
        raise click.UsageError("--once and --until-same: give one of them")
    ways = Ways(timeout_s, tls, namespace, lake, config_file)

    async def work() -> int:
        try:
            found = await find_sides(sides, ways)
        except StartError:
            raise
        except RegistryError as error:
            click.echo(f"mqregistry: {printable(str(error))}", err=True)
            return UNREACHABLE
        comparison = Comparing(
            found, topics=frozenset(topics) or None, kv_namespaces=kv_namespaces, lasting_ms=lasting_ms
        )
        show = _json if as_json else _show
        try:
            with exporting(listen, lambda: exposition(comparison.report())):
                if once:
                    await comparison.look()
                    report = await comparison.until(is_decided, time.monotonic() + 2 * lasting_ms / 1000 + 10)
                elif until_same_ms is not None:
                    report = await _until_same(comparison, until_same_ms, every_ms)
                else:
                    report = await _go_on(comparison, every_ms, show)
            if once or until_same_ms is not None:
                show(report)
            if until_same_ms is not None and not report.settled and not report.unread:
                return DIFFERENT
        finally:
            for side in found:
                if isinstance(side, NameServerSide):
                    await side.close()
        return DIFFERENT if report.of(Sort.COUNTED) else UNREACHABLE if report.unread else SAME

    raise SystemExit(asyncio.run(work()))


async def _until_same(comparison: Comparing, until_same_ms: int, every_ms: int) -> Report:
    end_s = time.monotonic() + until_same_ms / 1000
    while True:
        next_s = time.monotonic() + every_ms / 1000
        report = await comparison.look()
        if not report.unread and not report.settled:
            report = await comparison.until(lambda one: one.settled or bool(one.unread), min(end_s, next_s))
            if report.settled:  # only what differed was read again; this reads all
                report = await comparison.look()
        if report.settled or time.monotonic() >= end_s:
            return report
        await asyncio.sleep(max(0.0, min(end_s, next_s) - time.monotonic()))


async def _go_on(comparison: Comparing, every_ms: int, show: Callable[[Report], None]) -> Report:
    """Compare until Ctrl-C; show the result whenever it changes."""
    shown: object = None
    report = comparison.report()
    click.echo(
        f"compares every {every_ms / 1000:g} s and shows what changes, until Ctrl-C; --once ends with the result",
        err=True,
    )

    def told(one: Report) -> bool:
        nonlocal shown, report
        report = one
        lasting = {(each.sort, each.cell) for each in one.differences if each.sort in (Sort.COUNTED, Sort.NOISE)}
        result = [(side.name, bool(side.error)) for side in one.sides], lasting
        if result != shown:
            shown = result
            show(one)
        return False

    async def look_on() -> None:
        while True:
            next_s = time.monotonic() + every_ms / 1000
            told(await comparison.look())
            await comparison.until(told, next_s)

    looking, stopped = asyncio.create_task(look_on()), asyncio.create_task(set_by_signals().wait())
    await asyncio.wait((looking, stopped), return_when=asyncio.FIRST_COMPLETED)
    if looking.done():
        await looking
    looking.cancel()
    await asyncio.wait((looking,), timeout=_END_S)
    return report


def _json(report: Report) -> None:
    output.json_line({
        "same": report.same, "settled": report.settled, "at_ms": report.at_ms, "lasting_ms": report.lasting_ms,
        "counts": {sort.value: len(report.of(sort)) for sort in Sort},
        "sides": msgspec.to_builtins(report.sides), "differences": msgspec.to_builtins(report.differences),
    })  # fmt: skip


def _show(report: Report) -> None:
    click.echo(output.table(
        ("SIDE", "WHAT", "TOPICS", "BROKER NAMES", "STATE"),
        ((side.name, side.what, side.topics, side.brokers,
          side.error or "; ".join(f"does not tell {kind}: {why}" for kind, why in side.untold.items()) or "read")
         for side in report.sides),
        right=("TOPICS", "BROKER NAMES"),
    ))  # fmt: skip
    found, young = report.of(Sort.COUNTED), report.of(Sort.YOUNG)
    state = (
        counted(len(found), "difference") if found
        else "not known: a side cannot be read" if report.unread
        else "no difference has lasted so far" if young else "same"
    )  # fmt: skip
    output.show(f"{output.moment(report.at_ms)} {state}")
    show_groups(found, report.at_ms)
    if young:
        why = f"younger than {output.duration(report.lasting_ms)}: perhaps changes on their way"
        output.show(f"not counted: {counted(len(young), 'difference')} {why}")
        show_groups(young, report.at_ms)
    show_uncounted(report.differences, report.at_ms)


def exposition(report: Report) -> list[Metric]:
    """Return the differences as metrics for Prometheus."""
    oldest = [report.at_ms - one.since_ms for one in report.of(Sort.COUNTED)]
    return [
        family(f"{_PREFIX}same", "gauge", "1 when all sides were read, and no difference counts.",
               [({}, report.same)]),
        family(f"{_PREFIX}differences", "gauge", "Cells that differ, by sort (counted, young, meant, noise) and kind.",
               (({"sort": sort, "kind": kind}, number)
                for (sort, kind), number in sorted(counts(report.differences).items()))),
        family(f"{_PREFIX}oldest_seconds", "gauge", "Age of the oldest difference that counts; 0: there is none.",
               [({}, max(oldest, default=0) / 1000)]),
        family(f"{_PREFIX}side_up", "gauge", "1 when a side could be read.",
               (({"side": side.name}, not side.error) for side in report.sides)),
        family(f"{_PREFIX}topics", "gauge", "Topics of which a side has a route.",
               (({"side": side.name}, side.topics) for side in report.sides)),
        family(f"{_PREFIX}looks_total", "counter", "How often the sides were read.", [({}, report.looks)]),
        family(f"{_PREFIX}look_seconds", "gauge", "How long it took to read everything the last time.",
               [({}, report.look_ms / 1000)]),
        family(f"{_PREFIX}looked_seconds", "gauge", "When the sides were last read, in seconds since 1970.",
               [({}, report.at_ms / 1000)]),
    ]  # fmt: skip
