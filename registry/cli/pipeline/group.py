"""``pipeline``: the group of the commands about the registry's history."""

from __future__ import annotations

import click

from ..lazy_group import LazyGroup


@click.group(
    cls=LazyGroup,
    words="pipeline",
    modules={
        name: f"mqregistry.cli.pipeline.{name.replace('-', '_')}"
        for name in ("run", "audit", "backfill", "jars", "maintain", "report", "requarantine", "sql", "what-if")
    },
)
def pipeline() -> None:
    """The registry's history: bronze, silver and gold tables of its streams, by Spark."""
