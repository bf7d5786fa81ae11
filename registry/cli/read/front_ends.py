"""``front-ends``: shows the front ends and sweepers that work on the tables."""

from __future__ import annotations

from typing import Final

import click

from ...store.processes import Fleet, FrontEnd, read_fleet
from ...store.store import Store
from .. import output
from ..target import target_command

_NUMBERS: Final = ("PID", "UP", "TOLD", "SEQ", "BEHIND", "CONNECTIONS", "BROKERS")


@click.command("front-ends")
@target_command
async def front_ends(store: Store, as_json: bool) -> None:
    """Show each front end and sweeper: its address, whether it is ready, how far it is behind Redis.

    A process that was killed or cut off from Redis is shown as gone for an hour.
    """
    fleet = await read_fleet(store)
    if as_json:
        output.json_page(fleet)
        return
    if fleet.front_ends:
        click.echo(_front_ends_text(fleet))
    else:
        click.echo("no front end has reported its state in the last hour", err=True)
    if fleet.sweepers:
        click.echo(f"\n{_sweepers_text(fleet)}")
    else:
        click.echo(
            "no sweeper has reported its state in the last hour: brokers that fall silent stay in the tables",
            err=True,
        )


def _front_ends_text(fleet: Fleet) -> str:
    return output.table(
        ("FRONT END", "ADDRESS", "HTTP", "STATE", "WORKERS", "RELEASE", "UP", "TOLD", "SEQ", "BEHIND", "CONNECTIONS",
         "BROKERS", "PID"),
        (
            (
                one.name, one.address, one.http_address, one.state, _workers(one), one.release,
                _ago(fleet, one.started_ms), _ago(fleet, one.told_ms), one.seq,
                one.behind, one.connections, one.brokers, " ".join(str(worker.facts.pid) for worker in one.workers),
            )
            for one in fleet.front_ends
        ),
        right=_NUMBERS,
    )  # fmt: skip


def _ago(fleet: Fleet, ms: int) -> str:
    """How long ago a moment was. 0 for a start time from a machine whose clock is ahead of the clock of Redis."""
    return output.duration(max(0, fleet.now_ms - ms))


def _workers(one: FrontEnd) -> str:
    """How many workers serve, how many should serve, and the states of their tables except ``fresh``."""
    serving = [worker.facts for worker in one.workers if worker.facts.ready and not worker.gone]
    views = sorted({facts.view for facts in serving} - {"fresh", ""})
    return f"{len(serving)}/{one.workers_expected}" + (f" {', '.join(views)}" if views else "")


def _sweepers_text(fleet: Fleet) -> str:
    return output.table(
        ("SWEEPER", "STATE", "RELEASE", "UP", "LAST SWEEP", "EXPIRED", "REAPED", "PID"),
        (
            (
                one.place, "gone" if one.gone else "sweeps", one.facts.release,
                _ago(fleet, one.facts.started_ms), _ago(fleet, one.last_sweep_ms), one.facts.expired,
                one.facts.reaped, one.facts.pid,
            )
            for one in fleet.sweepers
        ),
        right=("UP", "LAST SWEEP", "EXPIRED", "REAPED", "PID"),
    )  # fmt: skip
