"""``why``: says whether a topic exists or existed, who ended its route, and who asks for it."""

from __future__ import annotations

import click

from ...config.settings import Settings
from ...operators.why import explain, sentences
from ...store.store import Store
from .. import FAILED, complete_names, output
from ..target import target_command


@click.command()
@click.argument("topic", shell_complete=complete_names.topics)
@target_command
async def why(store: Store, settings: Settings, topic: str, as_json: bool) -> None:
    """Say why TOPIC has a route, or why clients get 'No route info of this topic'.

    If it has none, this says when the route ended, by which change and author, and where the topic was. It proposes
    similar names. It shows how often clients asked for the topic within the last day, with the addresses of some of
    them. The command then ends with 1.

    \b
    Example: mqregistry why orders
    """  # noqa: D301 (\\b is for click)
    found = await explain(store, settings, topic)
    told = {
        "topic": topic, "has_route": found.route is not None,
        "lost_by": None if found.lost is None else found.lost.change, "stream_begins_ms": found.began_ms,
        "close_names": found.close, "asked_in_vain": found.asked.times,
        "asked_in_vain_last_ms": found.asked.last_ms or None, "asked_in_vain_by": found.asked.clients,
    }  # fmt: skip
    output.answer(as_json, told, *sentences(found))
    if found.route is None:
        raise click.exceptions.Exit(FAILED)
