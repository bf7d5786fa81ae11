"""``why``: whether a topic exists, existed or never did, who ended it, and who asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ...config.settings import Settings
from ...operators.why import explain, sentences
from .. import FAILED, complete_names, output
from ..target import find_target, open_target, run, target_options


@click.command()
@click.argument("topic", shell_complete=complete_names.topics)
@target_options
def why(topic: str, as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Say why TOPIC has a route, or why clients get 'No route info of this topic'.

    If it has none: since when, which change ended it, who made that change, where the topic was until then, names that
    are nearly the same, how often clients asked for it in vain within the last day, and addresses of some of them.
    Ends with 1 then.

    \b
    Example: mqregistry why orders
    """  # noqa: D301 (\\b is for click)

    async def work(settings: Settings) -> None:
        async with open_target(settings) as store:
            found = await explain(store, settings, topic)
        if as_json:
            step = found.lost
            output.json_line({
                "topic": topic, "has_route": found.route is not None,
                "lost_by": None if step is None else step.change, "stream_begins_ms": found.began_ms,
                "close_names": found.close, "asked_in_vain": found.asked.times,
                "asked_in_vain_last_ms": found.asked.last_ms or None, "asked_in_vain_by": found.asked.clients,
            })  # fmt: skip
        else:
            output.show(*sentences(found))
        if found.route is None:
            raise click.exceptions.Exit(FAILED)

    run(work(find_target(flags, config_file)))
