"""``streams``: the journal's streams, who reads them, and how far each reader is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from registry.cli import show
from registry.cli.reads import existing_namespace, read_config
from registry.cli.target import find_target, run, target_options
from registry.config import Settings, with_shared
from registry.store.streams import StreamState, StreamStore, Survey
from worker.trim import limits_of


@click.command()
@click.option("--forget", metavar="READER", help="Keep nothing for this reader any more.")
@target_options
def streams(forget: str | None, as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Show the journal: its streams with their limits, and what each reader has acknowledged."""

    async def work(settings: Settings) -> None:
        async with existing_namespace(settings) as store:
            journal = StreamStore(store)
            if forget is not None and not await journal.forget_reader(forget):
                known = ", ".join(sorted(await journal.readers())) or "none"
                raise click.ClickException(f"there is no reader {forget!r}; there are: {known}")
            survey = await journal.survey()
            settings = with_shared(settings, await read_config(settings))
        if as_json:
            show.json_page(survey)
        else:
            click.echo(streams_text(survey, settings))
            click.echo(readers_text(survey))

    run(work(find_target(flags, config_file)))


def streams_text(survey: Survey, settings: Settings) -> str:
    """One line for each stream."""
    limits = limits_of(settings)

    def line(stream: str, state: StreamState) -> tuple[object, ...]:
        limit = limits[stream]
        kept = f"{limit.entries} or {show.duration(limit.age_ms)}" + (f" or {_mib(limit.bytes)}" if limit.bytes else "")
        oldest = show.duration(survey.now_ms - _ms(state.first)) if state.first else ""
        at_most = f"{limit.hard_entries}" + (f" or {_mib(limit.hard_bytes)}" if limit.hard_bytes else "")
        return stream, state.entries, _mib(state.bytes) if state.bytes >= 0 else "", oldest, kept, at_most

    return show.table(
        ("STREAM", "ENTRIES", "SIZE", "OLDEST", "KEPT", "FOR READERS"),
        [line(stream, survey.streams[stream]) for stream in limits],
        right=("ENTRIES", "SIZE", "OLDEST"),
    )


def readers_text(survey: Survey) -> str:
    """One line for each reader and stream."""
    if not survey.readers:
        return "no reader has acknowledged anything: entries go when they are beyond what is kept"
    lines: list[tuple[object, ...]] = []
    for name, reader in sorted(survey.readers.items()):
        heard = show.duration(max(0, survey.now_ms - reader.seen_ms))
        for stream, position in sorted(reader.positions.items()):
            state = position.state or ("silent" if reader.silent else "ok")
            lines.append((name, stream, position.id, position.behind, show.duration(position.behind_ms), heard, state))
        if not reader.positions:
            lines.append((name, "", "", "", "", heard, "silent" if reader.silent else "ok"))
    return show.table(
        ("READER", "STREAM", "ACKNOWLEDGED", "BEHIND", "BEHIND BY", "HEARD", "STATE"), lines,
        right=("BEHIND", "BEHIND BY", "HEARD"),
    )  # fmt: skip


def _ms(entry_id: str) -> int:
    return int(entry_id.partition("-")[0])


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB" if size < 10 << 20 else f"{size >> 20} MiB"
