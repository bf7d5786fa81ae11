"""``audit``: shows who changed what, from the stream of changes; for one topic with its route before and after."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import click

from ...auth.policy import Mode
from ...auth.refused import RefusedEntry
from ...events.by import By
from ...events.changes import Change
from ...operators.export import csv_head, csv_line
from ...operators.history import Wanted, broker_names_of, by_author, read_history, whole
from ...operators.words import queues_text
from ...store.auth.refusals import RefusalStore
from ...store.change_reader import read_back, read_first
from ...store.operator_reads import read_rows, read_topic_tables
from ...store.store import Store
from ...tables.topic_history import Place, Route
from .. import complete_names, output
from ..target import target_command
from ..time_options import instant_option
from .watch import line


@click.command()
@click.option(
    "--topic", metavar="TOPIC", shell_complete=complete_names.topics,
    help="Only changes of its route, each with the route before and after.",
)  # fmt: skip
@click.option(
    "--broker", metavar="NAME", shell_complete=complete_names.broker_names, help="Only changes of this broker name."
)
@click.option(
    "--user", metavar="USER", help="Only changes by this user: of the registry, of an operating system, or of Redis."
)
@click.option("--peer", metavar="HOST[:PORT]", help="Only what came from this address, or from a program on this host.")
@instant_option(
    "--since", "since_ms", "Only what happened since this time: 2026-11-21T14:03, 14:03 (the last one), -2h."
)
@instant_option("--until", "until_ms", "Only what happened up to this time.")
@click.option("--csv", "as_csv", is_flag=True, help="CSV instead of lines, for spreadsheets.")
@click.option("--denied", is_flag=True, help="Requests that were refused, or would be refused in mode 'enforce'.")
@click.option(
    "-n", "--number", type=click.IntRange(min=0), default=50, show_default=True, metavar="N",
    help="The last N; 0: all that the stream holds.",
)  # fmt: skip
@target_command
async def audit(
    store: Store, topic: str | None, broker: str | None, user: str | None, peer: str | None, since_ms: int | None,
    until_ms: int | None, as_csv: bool, denied: bool, number: int, as_json: bool,
) -> None:  # fmt: skip
    """Show who changed what, the newest change last: the user, how the user was recognised, address and front end.

    It reads the stream of changes, which keeps a week by default (see 'mqregistry streams'). For earlier times
    see 'mqregistry route TOPIC --at TIME'.
    """
    if since_ms is not None and until_ms is not None and until_ms < since_ms:
        raise click.UsageError(f"--until {output.moment(until_ms)} is before --since {output.moment(since_ms)}")
    if as_csv and (as_json or denied):
        raise click.UsageError("--csv writes changes as CSV: leave out --json and --denied")
    if denied:
        if topic is not None or broker is not None:
            raise click.UsageError("--denied lists requests: --topic and --broker cannot filter requests")
        await _show_refusals(store, user, peer, since_ms or 0, until_ms, number, as_json)
        return
    wanted = [by_author(user, peer)] if user is not None or peer is not None else []
    if broker is not None:
        wanted.append(lambda change: broker in broker_names_of(change))
    if until_ms is not None:
        end_ms = until_ms
        wanted.append(lambda change: change.ms <= end_ms)
    if topic is not None:
        await _show_topic(store, topic, wanted, since_ms or 0, number, as_json, as_csv)
        return
    before = "" if until_ms is None else f"{until_ms + 1}-0"
    changes = (whole(parts) async for parts in read_back(store, since_ms=since_ms or 0, before=before))
    found, more = await _last(changes, wanted, number)
    if as_csv:
        click.echo(csv_head(), nl=False)
    for change in found:
        if as_csv:
            click.echo(csv_line(change), nl=False)
        else:
            output.answer(as_json, change, line(change))
    await _say_what_is_not_shown(store, since_ms, len(found), more=more)


async def _last(changes: AsyncIterator[Change], wanted: list[Wanted], number: int) -> tuple[list[Change], bool]:
    """The last ``number`` wanted changes, oldest first, and whether there are earlier; ``changes``: newest first."""
    found: list[Change] = []
    async for change in changes:
        if all(one(change) for one in wanted):
            if number and len(found) == number:
                return found[::-1], True
            found.append(change)
    return found[::-1], False


async def _say_what_is_not_shown(store: Store, since_ms: int | None, shown: int, *, more: bool) -> None:
    """Say on stderr whether earlier changes were left out, or are no longer in the stream."""
    if more:
        click.echo(f"these are the last {shown}; -n says how many are shown, -n 0 shows all", err=True)
        return
    first = await read_first(store)
    if first is None:
        click.echo("nothing was changed yet: the stream of changes is empty", err=True)
    elif first.seq > 1 and (since_ms is None or since_ms < first.ms):
        click.echo(
            f"the stream begins at {output.moment(first.ms)}; earlier changes are in the lake, if 'mqregistry "
            "pipeline run' has recorded them",
            err=True,
        )
    elif not shown:
        click.echo("no change in the stream matches", err=True)


async def _show_topic(
    store: Store, topic: str, wanted: list[Wanted], since_ms: int, number: int, as_json: bool, as_csv: bool
) -> None:  # fmt: skip
    history, complete = await read_history(store, topic)
    now = (await read_topic_tables(store, topic)).topics.get(topic, {})
    rows = await read_rows(store, {*now, *history.broker_names})
    every = history.steps(now, rows, complete=complete)
    steps = [step for step in every if step.change.ms >= since_ms and all(one(step.change) for one in wanted)]
    shown = steps[-number:]
    if as_csv:
        click.echo(csv_head(), nl=False)
    for step in shown:
        if as_csv:
            click.echo(csv_line(step.change), nl=False)
        else:
            told = {"change": step.change, "before": _json(step.before), "after": _json(step.after)}
            lines = [line(step.change), *route_lines("before", step.before), *route_lines("after", step.after)]
            output.answer(as_json, told, *lines)
    if history.uncertain:
        names = ", ".join(sorted(set(history.uncertain)))
        click.echo(f"it is not known whether {topic} was at these broker names, which were removed: {names}", err=True)
    await _say_what_is_not_shown(store, since_ms, len(shown), more=len(shown) < len(steps))


def route_lines(when: str, route: Route) -> list[str]:
    """A route before or after a change, as lines below the change: one line for each brokerName."""
    if not route:
        return [f"    {when:<6}  no route"]
    width = max(map(len, route))
    return [
        f"    {when if at == 0 else '':<6}  {name:<{width}}  {_place(place)}"
        for at, (name, place) in enumerate(route.items())
    ]


def _place(place: Place) -> str:
    data = place.queue_data
    queues = "queues not known: set before the stream begins" if data is None else queues_text(data)
    if place.addrs is None:
        return queues if data is None else f"{queues}; addresses not known"
    return f"{queues}; {', '.join(f'{addr} id {number}' for number, addr in sorted(place.addrs.items()))}"


def _json(route: Route) -> dict[str, Any]:
    return {name: place._asdict() for name, place in route.items()}


async def _show_refusals(
    store: Store, user: str | None, peer: str | None, since_ms: int, until_ms: int | None, number: int, as_json: bool
) -> None:  # fmt: skip
    found = [
        refusal
        for refusal in await RefusalStore(store).entries(since_ms)
        if (until_ms is None or refusal.ms <= until_ms)
        and (user is None or refusal.kind.user == user)
        and (peer is None or refusal.last.source == peer or refusal.last.source.startswith(f"{peer}:"))
    ]
    shown = found[-number:]
    for refusal in shown:
        output.answer(as_json, refusal, _refusal_line(refusal))
    if len(shown) < len(found):
        click.echo(f"these are the last {len(shown)}; -n says how many are shown, -n 0 shows all", err=True)
    elif not found:
        click.echo("no request was refused", err=True)


def _refusal_line(refusal: RefusedEntry) -> str:
    kind, last = refusal.kind, refusal.last
    by = By(last.how or "not proved", kind.user or None, last.source or None, front_end=refusal.front_end)
    what = " ".join(filter(None, (kind.right or "any right", ", ".join(kind.resources))))
    outcome = "refused" if refusal.mode is Mode.ENFORCE else "would be refused"
    times = "once" if refusal.count == 1 else f"{refusal.count} times"
    return f"{output.moment(refusal.ms)}  {outcome} {times}: {what} ({kind.reason}); by {by}"
