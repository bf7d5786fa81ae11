"""``mqregistry convert``: takes a namespace of an older schema over, with all it has."""

from __future__ import annotations

from pathlib import Path

import click

from ...config.settings import Settings
from ...events.by import CLI, this_process
from ...events.changes import SCHEMA_MAJOR
from ...store.connection.schema import convert as convert_namespace
from ...store.store import open_existing
from .. import output
from ..target import find_target, run, target_options


@click.command()
@target_options
def convert(config_file: Path | None, as_json: bool, redis: str | None, namespace: str | None) -> None:
    """Bring a namespace that a release of schema 1 made into the form of this release.

    Everything stays: brokers, topics, KV and shared configuration, users and rules, all streams. Stop all front ends,
    sweepers and consoles of the older release before; it waits 15 s for their end, then gives up. No older release
    works on the namespace afterwards. If it is stopped half way, repeat it. 'mqregistry up' does it by itself.
    """

    async def work(settings: Settings) -> None:
        async with open_existing(
            settings.redis, settings.namespace, timeout_ms=settings.redis_timeout_ms, by=this_process(CLI),
            any_schema=True,
        ) as store:  # fmt: skip
            topics = await convert_namespace(store.call, store.namespace)
        if as_json:
            output.json_line({"namespace": settings.namespace, "schema": SCHEMA_MAJOR, "topics_moved": topics})
        else:
            moved = f"{topics} topics were moved" if topics else "there was nothing to do"
            output.show(f"namespace {settings.namespace} has schema {SCHEMA_MAJOR}; {moved}")

    run(work(find_target({"redis": redis, "namespace": namespace}, config_file)))
