"""``streams``: shows the event streams, and what each reader has acknowledged."""

from __future__ import annotations

import click

from mqregistry.worker.trim import limits_of

from ...config.in_force import in_force
from ...config.settings import Settings
from ...store.snapshot import read_shared_config
from ...store.store import Store
from ...store.streams import StreamState, StreamStore, Survey, count_behind
from .. import output
from ..target import target_command


@click.command()
@click.option("--forget", metavar="READER", help="Remove this reader: no entries are kept for it any more.")
@target_command
async def streams(store: Store, settings: Settings, forget: str | None, as_json: bool) -> None:
    """Show the event streams with their limits, and what each reader has acknowledged."""
    journal = StreamStore(store)
    if forget is not None and not await journal.forget_reader(forget):
        known = ", ".join(sorted((await journal.survey()).readers)) or "none"
        raise click.ClickException(f"there is no reader {forget!r}; there are: {known}")
    survey = await count_behind(store, await journal.survey())
    settings = in_force(settings, await read_shared_config(store), compat=store.compat)
    if as_json:
        output.json_page(survey)
    else:
        click.echo(streams_text(survey, settings))
        click.echo(readers_text(survey))


def streams_text(survey: Survey, settings: Settings) -> str:
    """A table of the streams: one line for each, with its length, age and limits."""
    limits = limits_of(settings)

    def line(stream: str, state: StreamState) -> tuple[object, ...]:
        limit = limits[stream]
        kept = f"{limit.entries} or {output.duration(limit.age_ms)}" + (
            f" or {_mib(limit.bytes)}" if limit.bytes else ""
        )
        oldest = output.duration(survey.now_ms - int(state.first.partition("-")[0])) if state.first else ""
        at_most = f"{limit.hard_entries}" + (f" or {_mib(limit.hard_bytes)}" if limit.hard_bytes else "")
        return stream, state.entries, _mib(state.bytes) if state.bytes >= 0 else "", oldest, kept, at_most

    return output.table(
        ("STREAM", "ENTRIES", "SIZE", "OLDEST", "KEPT", "FOR READERS"),
        [line(stream, survey.streams[stream]) for stream in limits],
        right=("ENTRIES", "SIZE", "OLDEST"),
    )


def readers_text(survey: Survey) -> str:
    """A table of the readers: what each has acknowledged of each stream, and how much is left."""
    if not survey.readers:
        return "no reader has acknowledged anything: entries above the limits are deleted"
    lines: list[tuple[object, ...]] = []
    for name, reader in sorted(survey.readers.items()):
        heard = output.duration(max(0, survey.now_ms - reader.seen_ms))
        for stream, position in sorted(reader.positions.items()):
            state = position.state or ("silent" if reader.silent else "ok")
            behind = f"{'' if position.exact else '~'}{position.behind}"
            lines.append((name, stream, position.id, behind, output.duration(position.behind_ms), heard, state))
        if not reader.positions:
            lines.append((name, "", "", "", "", heard, "silent" if reader.silent else "ok"))
    return output.table(
        ("READER", "STREAM", "ACKNOWLEDGED", "BEHIND", "BEHIND BY", "HEARD", "STATE"), lines,
        right=("BEHIND", "BEHIND BY", "HEARD"),
    )  # fmt: skip


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB" if size < 10 << 20 else f"{size >> 20} MiB"
