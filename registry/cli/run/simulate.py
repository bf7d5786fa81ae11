"""``simulate``: plays a cluster's day in a minute, for drills, demonstrations and tests of the pipeline."""

from __future__ import annotations

import asyncio
import ssl
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ...client.addresses import NAMESRV_ADDR, NameServerAddresses
from ...errors import ConfigError, RegistryError
from ...events.by import CLI, this_process
from ...store.store import Store
from ...tasks import set_by_signals
from ..options import setting_options
from ..target import find_target
from ..time_options import length_ms
from ..tls import tls_options
from .state_files import name_servers_or

if TYPE_CHECKING:
    from ...config.settings import Settings
    from ...simulate.broker import SimulatedServer
    from ...simulate.day import DayPlan
    from ...simulate.past import PastDay
    from ...simulate.run import Outcome, Simulation

_SHOWN: Final = 20
_PROGRESS_EVERY_S: Final = 0.5


@click.command()
@click.option("-n", "--namesrv", metavar="ADDRESSES", help=f"'host:port;host:port': brokers register at all of them. "
              f"[env: {NAMESRV_ADDR}; else the 'mqregistry up' that runs here]")  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same day.")
@click.option("--scale", type=click.FloatRange(min=1), default=1440, show_default=True,
              help="How many times faster than real time: 1440 is a day in a minute.")  # fmt: skip
@click.option("--duration", "duration_ms", default="24h", show_default=True, metavar="TIME", callback=length_ms,
              help="How long, before scaling: 90m, 24h, 7d.")  # fmt: skip
@click.option("--clusters", type=click.IntRange(1), default=2, show_default=True,
              help="How many clusters the brokers are in.")  # fmt: skip
@click.option("--brokers", type=click.IntRange(1), default=8, show_default=True,
              help="How many brokerNames; each has one to three processes.")  # fmt: skip
@click.option("--topics", type=click.IntRange(0), default=60, show_default=True,
              help="How many topics at the start; some are added, changed and deleted.")  # fmt: skip
@click.option("--clients", type=click.IntRange(0), default=20, show_default=True,
              help="How many applications look up topics, by Zipf's law.")  # fmt: skip
@click.option("--lookups", "lookups_per_s", type=click.FloatRange(0), metavar="N",
              help="Lookups per second, of all clients together.  [default: 50; with --past 0.5]")  # fmt: skip
@click.option("--incidents", type=click.FloatRange(0), default=6, show_default=True, metavar="N",
              help="About how many incidents each broker has.")  # fmt: skip
@click.option("--beat", "beat_ms", type=click.IntRange(10), metavar="MS",
              help="Time between registrations.  [default: 30 s scaled, at least 500]")  # fmt: skip
@click.option("--timeout", "timeout_ms", type=click.IntRange(100), metavar="MS",
              help="heartbeatTimeoutMillis of the brokers.  [default: 120 s scaled, at least 3000]")  # fmt: skip
@click.option("--plan", "plan_file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True), metavar="FILE",
              help="Write the planned operations to FILE, one per line; - is standard output.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only make the plan; send nothing.")
@click.option("--past", metavar="NAMESPACE", help="Write the day as a past day into this new namespace of Redis, "
              "without name servers and as fast as Redis takes it; intervals are those of real brokers.")  # fmt: skip
@setting_options("redis")
@tls_options
def simulate(
    namesrv: str | None, past: str | None, redis: str | None, scale: float, duration_ms: int, plan_file: Path | None,
    dry_run: bool, tls: ssl.SSLContext | None, **shape: Any,
) -> None:  # fmt: skip
    """Play a cluster's day: brokers beat, flap, hang, lose masters and leave; clients look up topics.

    It sends the requests of RocketMQ's own brokers and clients over the network. Ctrl-C ends it: every broker
    unregisters. The exit code is 1 when a name server did not answer as planned.

    \b
    mqregistry simulate                                   a day in a minute, at the registry that runs here
    mqregistry simulate -n '10.0.0.8:9876;10.0.0.9:9876' --scale 1 --brokers 30
    mqregistry simulate --seed 7 --plan - --dry-run
    mqregistry simulate --past yesterday                  the last 24 hours, for the pipeline and its report
    """  # noqa: D301 (\\b is for click)
    from ...simulate.day import DayShape
    from ...simulate.plan import make_plan

    given = {name: value for name, value in shape.items() if value is not None}
    if "timeout_ms" in given:
        given["acting_timeout_ms"] = given["timeout_ms"]
    servers: list[SimulatedServer] = []
    if past is not None:
        if namesrv:
            raise click.UsageError("--past writes to Redis, --namesrv names name servers: choose one")
        size = DayShape.past(duration_ms, **given)
    else:
        try:
            servers = [] if dry_run else asyncio.run(_servers(namesrv, tls))
        except ConfigError as error:
            raise click.UsageError(str(error)) from error
        size = DayShape.scaled(scale, duration_ms, servers=max(1, len(servers)), **given)
    if size.clusters > size.brokers:
        raise click.UsageError(f"--clusters {size.clusters}: there are only {size.brokers} brokers to put in them")
    for timeout, beat in ((size.timeout_ms, size.beat_ms), (size.acting_timeout_ms, size.touch_ms)):
        if timeout < 4 * beat:
            raise click.UsageError(f"--timeout {timeout}: brokers that beat every {beat} ms need {4 * beat} or more")
    plan = make_plan(size)
    if plan_file is not None:
        _write(plan_file, plan.json_lines())
    if dry_run:
        return
    if past is None:
        from ...simulate.run import Simulation

        outcome = asyncio.run(_watched(Simulation(plan, servers), scale))
    else:
        outcome = asyncio.run(_write_past(plan, find_target({"redis": redis, "namespace": past}, None)))
    if outcome.fault_count:
        raise RegistryError("not everything was answered as planned")


async def _servers(namesrv: str | None, tls: ssl.SSLContext | None) -> list[SimulatedServer]:
    from ...simulate.broker import SimulatedServer

    given = name_servers_or(namesrv, f"say which name servers: --namesrv 'HOST:PORT;HOST:PORT' (or {NAMESRV_ADDR})")
    return [SimulatedServer(address.host, address.port, tls) for address in await NameServerAddresses(given).refresh()]


async def _write_past(plan: DayPlan, settings: Settings) -> Outcome:
    from ...simulate.past import HEARTBEATS_KEPT, PastDay

    if (heartbeats := plan.heartbeats()) > HEARTBEATS_KEPT:
        raise click.UsageError(
            f"{heartbeats:,} heartbeats, and Redis keeps {HEARTBEATS_KEPT:,}: a shorter --duration, fewer --brokers or "
            "a longer --beat"
        )
    async with Store(
        settings.redis, settings.namespace, timeout_ms=settings.redis_timeout_ms, by=this_process(CLI)
    ) as store:
        if not (await store.connect()).created:
            raise RegistryError(
                f"the namespace {settings.namespace!r} exists already, but --past needs a new one: choose another name"
            )
        return await _watched(PastDay(plan, store), 1)


async def _watched(simulation: Simulation | PastDay, scale: float) -> Outcome:
    """Play a day, or write one; Ctrl-C ends it."""
    stop = set_by_signals()
    progress = asyncio.create_task(_progress(simulation, scale))
    try:
        outcome = await simulation.run(stop)
    finally:
        progress.cancel()
        await asyncio.wait([progress])
    _summary(outcome)
    return outcome


async def _progress(simulation: Simulation | PastDay, scale: float) -> None:
    """Rewrite one line of progress, if standard error is a terminal."""
    if not sys.stderr.isatty():
        return
    shape = simulation.plan.shape
    processes = len(simulation.plan.members())
    try:
        while True:
            await asyncio.sleep(_PROGRESS_EVERY_S)
            minutes = round(simulation.elapsed_ms * scale / 60_000)
            outcome = simulation.outcome
            click.echo(
                f"\r{simulation.elapsed_ms * 100 // shape.duration_ms:3d} %  {minutes // 60:02d}:{minutes % 60:02d}  "
                f"{simulation.brokers_up}/{processes} processes up, {sum(outcome.done.values()):,} operations, "
                f"{outcome.fault_count} not as planned \x1b[K",
                nl=False,
                err=True,
            )
    finally:
        click.echo("\r\x1b[K", nl=False, err=True)


def _summary(outcome: Outcome) -> None:
    for kind, count in sorted(outcome.done.items(), key=lambda item: -item[1]):
        click.echo(f"{count:>9,}  {kind.replace('_', ' ')}")
    found = sum(count for (_, was_found), count in outcome.lookups.items() if was_found)
    missing = sum(outcome.lookups.values()) - found
    late = f"; at most {outcome.late_ms:.0f} ms behind the plan" if outcome.late_ms else ""
    click.echo(f"lookups: {found:,} found, {missing:,} without a route{late}")
    if not outcome.is_complete:
        click.echo("interrupted; every broker has left")
    for text in outcome.faults[:_SHOWN]:
        click.echo(f"not as planned: {text}", err=True)
    if outcome.fault_count > _SHOWN:
        click.echo(f"and {outcome.fault_count - _SHOWN} more", err=True)


def _write(path: Path, content: bytes) -> None:
    if str(path) == "-":
        sys.stdout.buffer.write(content)
        return
    unfinished = path.with_name(path.name + ".unfinished")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except OSError as error:
        raise RegistryError(f"{path} cannot be written: {error.strerror}") from error
