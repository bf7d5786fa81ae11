"""What the commands on a broker name share: reading it, the first line of a preview, the last word."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import click

from ...model import BrokerRow, QueueData
from ...operators.words import some
from ...store.operator_reads import read_clusters
from ...store.read_broker import read_broker
from ...store.store import Store
from .. import complete_names, output

name_argument = click.argument("name", shell_complete=complete_names.broker_names)


async def read(store: Store, name: str) -> tuple[BrokerRow, dict[str, QueueData]]:
    """A brokerName's row, and its queue data by topic.

    Raises:
        click.ClickException: there is none of that name.
    """
    view = await read_broker(store, name, all_topics=True)
    if view.row is None:
        raise click.ClickException(unknown_broker(name, (await read_clusters(store))[1]))
    topics = sorted(view.tables.broker_topics.get(name, ()))
    tables = (await read_broker(store, name, topics)).tables
    return view.row, {topic: datas[name] for topic, datas in tables.topics.items()}


def unknown_broker(name: str, known: Iterable[str]) -> str:
    """That there is no such broker name, and which there are."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, 3, 0.6)
    if close:
        return f"no broker name {name!r}; did you mean {' or '.join(close)}?"
    return f"no broker name {name!r}; there is {some(names) or 'none'}"


def head(name: str, row: BrokerRow) -> str:
    """The first line of a preview: what the broker name is."""
    return f"broker name {name} of cluster {row.cluster}, {', '.join(a for _, a in sorted(row.broker_addrs.items()))}"


def done(text: str, result: dict[str, object], *, as_json: bool) -> None:
    """Say what was done."""
    if as_json:
        output.json_line(result)
    else:
        output.show(text)
