"""``topic``: delete a topic or give it queues, by the scripts of requests 216 and 217."""

from __future__ import annotations

import re
from typing import Final

import click

from ...behaviour import behaviour_of
from ...model import QueueData, TopicRoute
from ...names import fault_of_name
from ...operators.routes import closest_names
from ...operators.words import some
from ...store.operator_reads import read_clusters, read_topic_names, read_topic_tables
from ...store.route_writes import RouteStore
from ...store.store import Store
from .. import complete_names, output
from ..target import target_command
from .broker_name import unknown_broker
from .confirm import confirm, yes_option

_QUEUES: Final = re.compile(r"(\d{1,5}):(\d{1,5})(?::([0-7]))?")
_DEFAULT_PERM: Final = 6

_topic = click.argument("topic", shell_complete=complete_names.topics)


@click.group()
def topic() -> None:
    """Delete a topic, or give it queues, at the name servers alone: brokers keep what they have."""


@topic.command()
@_topic
@click.option("--cluster", default="", metavar="NAME", help="Only from the broker names of this cluster.")
@yes_option
@target_command
async def delete(store: Store, topic: str, cluster: str, yes: bool, as_json: bool) -> None:
    """Take TOPIC out of the route tables.

    A broker that still has it brings it back when it registers with a new data version: delete it there first.
    """
    if cluster and not behaviour_of(store.compat).deletes_in_one_cluster:
        raise click.UsageError(f"--cluster: a namespace with compat {store.compat} deletes a topic everywhere")
    tables = await read_topic_tables(store, topic)
    going = tables.topics.get(topic, {})
    if not going:
        close = closest_names(topic, await read_topic_names(store))
        raise click.ClickException(f"no topic {topic!r}" + (f"; did you mean {' or '.join(close)}?" if close else ""))
    if cluster:
        members = (await read_clusters(store))[0].get(cluster, [])
        stay, going = set(going).difference(members), {name: going[name] for name in going if name in members}
        if not going:
            raise click.ClickException(f"topic {topic} is not in cluster {cluster!r}, but at {some(stay)}")
    route = TopicRoute(going, tables.brokers, {})
    confirm(
        *output.route_text(topic, route).split("\n"), "goes from all of these broker names", yes=yes, as_json=as_json
    )
    await RouteStore(store).delete_topic(topic, cluster)
    if as_json:
        output.json_line({"topic": topic, "before": going})
    else:
        output.show(f"topic {topic} deleted at {some(going)}")


@topic.command("set")
@_topic
@click.argument("queues", nargs=-1, required=True, metavar="BROKER_NAME=READ:WRITE[:PERM]...")
@yes_option
@target_command
async def set_(store: Store, topic: str, queues: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Give TOPIC these numbers of queues at broker names that are known; PERM is 6 (read and write) unless given.

    \b
    mqregistry topic set orders broker-a=8:8 broker-b=8:4:4
    """  # noqa: D301 (\\b is for click)
    fault = fault_of_name(topic)
    if fault is not None:
        raise click.UsageError(f"the topic {fault}")
    asked = dict(map(_parse, queues))
    known = (await read_clusters(store))[1]
    for name in asked:
        if name not in known:
            raise click.ClickException(unknown_broker(name, known))
    before = (await read_topic_tables(store, topic)).topics.get(topic, {})
    flags = {name: data.topic_sys_flag for name, data in before.items()}
    wanted = {name: QueueData(*numbers, flags.get(name, 0)) for name, numbers in asked.items()}
    changed = {name: data for name, data in wanted.items() if before.get(name) != data}
    if changed:
        lines = [f"topic {topic}" + ("" if before else ", which is new")]
        for name, data in changed.items():
            was = f", was {_shown(before[name])}" if name in before else ""
            lines.append(f"{name}: {_shown(data)}{was}")
        confirm(*lines, yes=yes, as_json=as_json)
        await RouteStore(store).register_topic(topic, changed.items())
    if as_json:
        output.json_line({"topic": topic, "before": before, "changed": changed})
    else:
        output.show(f"topic {topic} set at {some(changed)}" if changed else f"topic {topic} is so already")


def _parse(text: str) -> tuple[str, tuple[int, int, int]]:
    """The broker name, and its read queues, write queues and permission."""
    name, _, numbers = text.rpartition("=")
    match = _QUEUES.fullmatch(numbers)
    if not name or match is None:
        raise click.UsageError(
            f"{text!r}: expected BROKER_NAME=READ:WRITE[:PERM] with numbers of queues, as broker-a=8:8:6"
        )
    read, write, perm = match.groups()
    return name, (int(read), int(write), _DEFAULT_PERM if perm is None else int(perm))


def _shown(data: QueueData) -> str:
    return f"{data.read_queue_nums} read, {data.write_queue_nums} write, {output.perm(data.perm)}"
