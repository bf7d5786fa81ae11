"""``broker wipe``, ``restore`` and ``forget``: operators' changes of a broker name, by the scripts of 205, 327, 104."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable
from typing import Final

import click

from ...model import PERM_READ, PERM_WRITE, BrokerRow, QueueData
from ...store import keys
from ...store.operator_reads import read_brokers, read_clusters
from ...store.read_broker import read_broker
from ...store.route_writes import RouteStore
from ...store.store import Store
from .. import complete_names, output
from ..target import target_command
from .confirm import confirm, counted, some, yes_option

_TOPICS_PER_CALL: Final = 1000
_RESTORED: Final = PERM_READ | PERM_WRITE

_name = click.argument("name", shell_complete=complete_names.broker_names)


@click.command()
@_name
@yes_option
@target_command
async def wipe(store: Store, name: str, yes: bool, as_json: bool) -> None:
    """Take the write permission from every topic of broker NAME, before it is taken out of service.

    A broker gives a topic its own permission back when it registers it with a new data version.
    """
    row, queue_datas = await _read(store, name)
    losing = [topic for topic, data in queue_datas.items() if data.perm & PERM_WRITE]
    if losing:
        confirm(
            _head(name, row), f"{counted(len(losing), 'topic')} lose{'s' * (len(losing) == 1)} the write bit: "
            f"{some(losing)}", yes=yes, as_json=as_json,
        )  # fmt: skip
        await RouteStore(store).set_write_perm(name, "wipe")
    _done(f"{name}: {counted(len(losing), 'topic')} wiped" if losing else f"{name} has no topic with the write bit",
          {"broker_name": name, "topics": sorted(losing)}, as_json=as_json)  # fmt: skip


@click.command()
@_name
@yes_option
@target_command
async def restore(store: Store, name: str, yes: bool, as_json: bool) -> None:
    """Give every topic of broker NAME the permission to read and write (6), whatever it was, as after 'wipe'."""
    row, queue_datas = await _read(store, name)
    other = {topic: data.perm for topic, data in queue_datas.items() if data.perm != _RESTORED}
    if other:
        confirm(
            _head(name, row),
            *(f"{counted(count, 'topic')} with permission {output.perm(perm)} get{'s' * (count == 1)} "
              f"{output.perm(_RESTORED)}: {some(topic for topic, had in other.items() if had == perm)}"
              for perm, count in sorted(Counter(other.values()).items())),
            yes=yes, as_json=as_json,
        )  # fmt: skip
        await RouteStore(store).set_write_perm(name, "add")
    _done(
        f"{name}: {counted(len(other), 'topic')} restored" if other else f"{name}: every topic has permission 6 RW",
        {"broker_name": name, "topics": sorted(other)}, as_json=as_json,
    )  # fmt: skip


@click.command()
@_name
@yes_option
@target_command
async def forget(store: Store, name: str, yes: bool, as_json: bool) -> None:
    """Remove broker NAME with all its addresses and topics, as if each had said goodbye (104).

    For brokers that are gone for good. One that lives comes back with its next registration.
    """
    row, queue_datas = await _read(store, name)
    live = {info.broker_addr: info for info in await read_brokers(store) if info.broker_name == name}
    alone = await _nowhere_else(store, queue_datas)
    lines = [_head(name, row)]
    for broker_id, addr in sorted(row.broker_addrs.items()):
        info = live.get(addr)
        heard = f"last heard {output.duration(info.heard_ms_ago)} ago" if info else "does not count as alive"
        back = "; it registers again as long as it lives" if info and info.expires_in_ms > 0 else ""
        lines.append(f"goes: {addr} id {broker_id}, {heard}{back}")
    lines.append(f"{counted(len(queue_datas), 'topic')} lose{'s' * (len(queue_datas) == 1)} the route to it")
    if alone:
        lines.append(f"{counted(len(alone), 'topic')} of these will have no route at all: {some(alone)}")
    confirm(*lines, yes=yes, as_json=as_json)
    routes = RouteStore(store)
    for broker_id, addr in row.broker_addrs.items():
        await routes.unregister_broker(row.cluster, addr, name, broker_id)
    _done(
        f"{name}: {counted(len(row.broker_addrs), 'address', 'addresses')} and "
        f"{counted(len(queue_datas), 'topic')} forgotten",
        {"broker_name": name, "addrs": sorted(row.broker_addrs.values()), "topics": sorted(queue_datas),
         "topics_without_route": sorted(alone)},
        as_json=as_json,
    )  # fmt: skip


async def _read(store: Store, name: str) -> tuple[BrokerRow, dict[str, QueueData]]:
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


async def _nowhere_else(store: Store, topics: Iterable[str]) -> list[str]:
    """Those of these topics that have one broker name."""
    names, alone = list(topics), list[str]()
    for first in range(0, len(names), _TOPICS_PER_CALL):
        part = names[first : first + _TOPICS_PER_CALL]
        counts = await store.read(*(("HLEN", keys.topic(store.namespace, topic)) for topic in part))
        alone += (topic for topic, count in zip(part, counts, strict=True) if count == 1)
    return alone


def _head(name: str, row: BrokerRow) -> str:
    return f"broker name {name} of cluster {row.cluster}, {', '.join(a for _, a in sorted(row.broker_addrs.items()))}"


def _done(text: str, result: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        output.json_line(result)
    else:
        output.show(text)
