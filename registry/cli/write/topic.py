"""``topic``: delete a topic or give it queues, by the scripts of requests 216 and 217."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import click

from ...behaviour import behaviour_of
from ...model import BrokerRow, QueueData, TopicRoute
from ...names import fault_of_name
from ...operators import previews
from ...store.store import Store
from .. import complete_names, output
from ..target import target_command
from .confirm import carry_out, yes_option

_QUEUES: Final = re.compile(r"(\d{1,5}):(\d{1,5})(?::([0-7]))?")
_DEFAULT_PERM: Final = 6

_topic = click.argument("topic", shell_complete=complete_names.topics)


@click.group()
def topic() -> None:
    """Delete a topic, or give it queues, only at the name servers: brokers keep what they have."""


@topic.command()
@_topic
@click.option("--cluster", default="", metavar="NAME", help="Only from the broker names of this cluster.")
@yes_option
@target_command
async def delete(store: Store, topic: str, cluster: str, yes: bool, as_json: bool) -> None:
    """Take TOPIC out of the route tables, for topics whose brokers are gone.

    A live broker that has TOPIC brings it back: in a namespace of compat 5.x with its next registration, within 30
    seconds as a rule, even at an unchanged data version; in a namespace of 4.8 when its data version changes. Delete
    such a topic at the brokers instead, which also deletes it here:

    \b
    mqadmin deleteTopic -n HOST:PORT -c CLUSTER -t TOPIC

    To stop clients from sending to it meanwhile:

    \b
    mqregistry topic set TOPIC BROKER_NAME=8:8:4
    """  # noqa: D301 (\\b is for click)
    if cluster and not behaviour_of(store.compat).deletes_in_one_cluster:
        raise click.UsageError(f"--cluster: a namespace with compat {store.compat} deletes a topic everywhere")
    await carry_out(previews.delete_topic(store, topic, cluster, _shown), yes=yes, as_json=as_json)


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
    await carry_out(previews.set_topic(store, topic, dict(map(_parse, queues))), yes=yes, as_json=as_json)


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


def _shown(topic: str, queue_datas: Mapping[str, QueueData], rows: Mapping[str, BrokerRow]) -> str:
    return output.route_text(topic, TopicRoute(dict(queue_datas), dict(rows), {}))
