"""What operators change by hand: first what it would do, in words, then the change, by the scripts of requests."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from ..behaviour import behaviour_of
from ..errors import RegistryError
from ..model import ORDER_TOPIC_CONFIG, PERM_READ, PERM_WRITE, BrokerRow, QueueData
from ..names import fault_of_name
from ..store.config_writes import KvStore
from ..store.operator_reads import (
    nowhere_else,
    read_brokers,
    read_clusters,
    read_kv_value,
    read_topic_names,
    read_topic_tables,
)
from ..store.read_broker import read_broker
from ..store.route_writes import RouteStore
from ..store.store import Store
from .maintenance import begin_maintenance, end_maintenance, read_maintenance
from .routes import closest_names
from .wiped import read_taken
from .words import counted, duration, moment, perm, some

_RESTORED: Final = PERM_READ | PERM_WRITE


# Java's clients read less strictly, but fail with anything that has no number.
_ORDER: Final = re.compile(r"[^:;]+:\d{1,9}(?:;[^:;]+:\d{1,9})*;?")


class Mistaken(RegistryError):
    """What is to be changed is not there, or cannot be so; nothing was changed. The message says what there is."""


class Preview(NamedTuple):
    """A change that was not made yet.

    lines: what it does. work: makes it; None: all is so already, and done says so. done: what to say afterwards.
    result: the same for programs.
    """

    lines: list[str]
    work: Callable[[], Awaitable[object]] | None
    done: str
    result: dict[str, Any]


async def _read(store: Store, name: str) -> tuple[BrokerRow, dict[str, QueueData]]:
    """A brokerName's row, and its queue data by topic.

    Raises:
        Mistaken: there is none of that name.
    """
    view = await read_broker(store, name, all_topics=True)
    if view.row is None:
        raise Mistaken(unknown_broker(name, (await read_clusters(store))[1]))
    return view.row, {topic: datas[name] for topic, datas in sorted(view.tables.topics.items())}


def unknown_broker(name: str, known: Iterable[str]) -> str:
    """That there is no such broker name, and which there are."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, 3, 0.6)
    if close:
        return f"no broker name {name!r}; did you mean {' or '.join(close)}?"
    return f"no broker name {name!r}; there is {some(names) or 'none'}"


def _head(name: str, row: BrokerRow) -> str:
    return f"broker name {name} of cluster {row.cluster}, {', '.join(a for _, a in sorted(row.broker_addrs.items()))}"


async def wipe(store: Store, name: str) -> Preview:
    """Take the write permission from every topic of a brokerName (205)."""
    row, queue_datas = await _read(store, name)
    losing = [topic for topic, data in queue_datas.items() if data.perm & PERM_WRITE]
    result = {"broker_name": name, "topics": sorted(losing)}
    if not losing:
        return Preview([], None, f"{name} has no topic with the write bit", result)
    lose = f"{counted(len(losing), 'topic')} lose{'s' * (len(losing) == 1)} the write bit: {some(losing)}"
    return Preview(
        [_head(name, row), lose], lambda: RouteStore(store).set_write_perm(name, "wipe"),
        f"{name}: {counted(len(losing), 'topic')} wiped", result,
    )  # fmt: skip


async def drain(store: Store, name: str, reason: str = "", until_ms: int | None = None) -> Preview:
    """Put a brokerName into maintenance: note why and until when, and take its write permission (205)."""
    wiping, already = await wipe(store, name), await read_maintenance(store, name)
    until = f", until {moment(until_ms)[:16]}" if until_ms is not None else ""
    lines = [
        f"{name} is in maintenance from now on{until}" + (f": {reason}" if reason else ""),
        *([f"it was {already}"] if already else []), *wiping.lines,
    ]  # fmt: skip

    async def work() -> None:
        await begin_maintenance(store, name, reason, until_ms)
        if wiping.work is not None:
            await wiping.work()

    return Preview(lines, work, f"{name} is in maintenance: {wiping.done}", wiping.result)


async def restore(store: Store, name: str) -> Preview:
    """Give the topics of a brokerName the write permission that wipes took, and end its maintenance."""
    row, queue_datas = await _read(store, name)
    maintenance = await read_maintenance(store, name)
    without = {topic for topic, data in queue_datas.items() if not data.perm & PERM_WRITE}
    taken = await read_taken(store, name, without)
    back, stay = sorted(taken.topics), sorted(without - taken.topics)
    result = {"broker_name": name, "topics": back, "stay": stay}
    lines = [_head(name, row)]
    if taken.last is not None:
        by = taken.last.by or "somebody not known"
        lines.append(f"the last wipe was at {moment(taken.last.ms)[:19]}, by {by}")
    if back:
        lines.append(f"{counted(len(back), 'topic')} get{'s' * (len(back) == 1)} the write bit back: {some(back)}")
    if stay:
        why = "no wipe took it" if not taken.not_known else "the stream tells of no wipe that took it"
        lines.append(f"{counted(len(stay), 'topic')} stay{'s' * (len(stay) == 1)} without it: {why}: {some(stay)}")
    if maintenance is not None:
        lines.append(f"its maintenance ends: it was {maintenance}")

    async def work() -> None:
        if back:
            await RouteStore(store).set_write_perm(name, "give", back)
        if maintenance is not None:
            await end_maintenance(store, name)

    done = f"{name}: {counted(len(back), 'topic')} restored" if back else f"{name}: no wipe took what is missing"
    if not without:
        done = f"{name}: every topic can be written to"
    if stay:
        done += f"; without write permission: {some(stay)}; --all gives permission 6 to every topic"
    if maintenance is not None:
        done += "; its maintenance is over"
    return Preview(lines, work if back or maintenance is not None else None, done, result)


async def restore_all(store: Store, name: str) -> Preview:
    """Give every topic of a brokerName the permission to read and write (327), and end its maintenance."""
    row, queue_datas = await _read(store, name)
    maintenance = await read_maintenance(store, name)
    other = {topic: data.perm for topic, data in queue_datas.items() if data.perm != _RESTORED}
    result = {"broker_name": name, "topics": sorted(other)}
    if not other and maintenance is None:
        return Preview([], None, f"{name}: every topic has permission 6 RW", result)
    lines = [
        f"{counted(count, 'topic')} with permission {perm(value)} get{'s' * (count == 1)} {perm(_RESTORED)}: "
        + some(topic for topic, had in other.items() if had == value)
        for value, count in sorted(Counter(other.values()).items())
    ]
    if maintenance is not None:
        lines.append(f"its maintenance ends: it was {maintenance}")

    async def work() -> None:
        if other:
            await RouteStore(store).set_write_perm(name, "add")
        if maintenance is not None:
            await end_maintenance(store, name)

    return Preview(
        [_head(name, row), *lines], work, f"{name}: {counted(len(other), 'topic')} restored", result
    )  # fmt: skip


async def forget(store: Store, name: str) -> Preview:
    """Remove a brokerName with all its addresses and topics, as if each had said goodbye (104)."""
    row, queue_datas = await _read(store, name)
    live = {info.broker_addr: info for info in await read_brokers(store) if info.broker_name == name}
    alone = await nowhere_else(store, queue_datas, name)
    lines = [_head(name, row)]
    for broker_id, addr in sorted(row.broker_addrs.items()):
        info = live.get(addr)
        heard = f"last heard {duration(info.heard_ms_ago)} ago" if info else "does not count as alive"
        back = "; it registers again as long as it lives" if info and info.expires_in_ms > 0 else ""
        lines.append(f"goes: {addr} id {broker_id}, {heard}{back}")
    lines.append(f"{counted(len(queue_datas), 'topic')} lose{'s' * (len(queue_datas) == 1)} the route to it")
    if alone:
        lines.append(f"{counted(len(alone), 'topic')} of these will have no route at all: {some(alone)}")

    async def work() -> None:
        for broker_id, addr in row.broker_addrs.items():
            await RouteStore(store).unregister_broker(row.cluster, addr, name, broker_id)

    return Preview(
        lines, work,
        f"{name}: {counted(len(row.broker_addrs), 'address', 'addresses')} and "
        f"{counted(len(queue_datas), 'topic')} forgotten",
        {"broker_name": name, "addrs": sorted(row.broker_addrs.values()), "topics": sorted(queue_datas),
         "topics_without_route": sorted(alone)},
    )  # fmt: skip


async def delete_topic(
    store: Store, topic: str, cluster: str, show: Callable[[str, Mapping[str, QueueData], Mapping[str, BrokerRow]], str]
) -> Preview:
    """Take a topic out of the route tables, everywhere or from one cluster's broker names (216).

    Args:
        show: a topic's queues at each broker name, as lines.
    """
    if cluster and not behaviour_of(store.compat).deletes_in_one_cluster:
        raise Mistaken(f"a namespace with compat {store.compat} deletes a topic everywhere, not in one cluster")
    tables = await read_topic_tables(store, topic)
    going = tables.topics.get(topic, {})
    if not going:
        close = closest_names(topic, await read_topic_names(store))
        raise Mistaken(f"no topic {topic!r}" + (f"; did you mean {' or '.join(close)}?" if close else ""))
    if cluster:
        members = (await read_clusters(store))[0].get(cluster, [])
        stay, going = set(going).difference(members), {name: going[name] for name in going if name in members}
        if not going:
            raise Mistaken(f"topic {topic} is not in cluster {cluster!r}, but at {some(stay)}")
    return Preview(
        [*show(topic, going, tables.brokers).split("\n"), "goes from all of these broker names",
         *await _comes_back(store, topic, going)],
        lambda: RouteStore(store).delete_topic(topic, cluster),
        f"topic {topic} deleted at {some(going)}", {"topic": topic, "before": going},
    )  # fmt: skip


async def _comes_back(store: Store, topic: str, going: Iterable[str]) -> list[str]:
    """That brokers which live bring a deleted topic back, and what works instead."""
    alive = [info for info in await read_brokers(store) if info.broker_name in going and info.expires_in_ms > 0]
    if not alive:
        return []
    names, clusters = sorted({info.broker_name for info in alive}), sorted({info.cluster for info in alive})
    when = (
        "with the next registration, within 30 s as a rule, also at an unchanged data version"
        if behaviour_of(store.compat).restores_deleted_topics
        else "when their data version changes"
    )
    return [
        f"comes back {when}, while it is at brokers that live: {some(names)}; delete it there, which deletes it here, "
        "too:",
        *(f"  mqadmin deleteTopic -n HOST:PORT -c {cluster} -t {topic}" for cluster in clusters),
    ]


async def set_topic(store: Store, topic: str, asked: Mapping[str, tuple[int, int, int]]) -> Preview:
    """Give a topic queues at broker names that are known (217).

    Args:
        asked: brokerName -> read queues, write queues, permission.
    """
    fault = fault_of_name(topic)
    if fault is not None:
        raise Mistaken(f"the topic {fault}")
    known = (await read_clusters(store))[1]
    for name in asked:
        if name not in known:
            raise Mistaken(unknown_broker(name, known))
    before = (await read_topic_tables(store, topic)).topics.get(topic, {})
    flags = {name: data.topic_sys_flag for name, data in before.items()}
    wanted = {name: QueueData(*numbers, flags.get(name, 0)) for name, numbers in asked.items()}
    changed = {
        name: data for name, data in wanted.items() if name not in before or before[name].numbers != data.numbers
    }
    result = {"topic": topic, "before": before, "changed": changed}
    if not changed:
        return Preview([], None, f"topic {topic} is so already", result)
    lines = [f"topic {topic}" + ("" if before else ", which is new")]
    for name, data in changed.items():
        was = f", was {_queues(before[name])}" if name in before else ""
        lines.append(f"{name}: {_queues(data)}{was}")
    return Preview(
        lines, lambda: RouteStore(store).register_topic(topic, changed.items()),
        f"topic {topic} set at {some(changed)}", result,
    )  # fmt: skip


def _queues(data: QueueData) -> str:
    return f"{data.read_queue_nums} read, {data.write_queue_nums} write, {perm(data.perm)}"


async def set_kv(store: Store, kv_namespace: str, key: str, value: str | None) -> Preview:
    """Set a key of the KV configuration (100), or delete it (102); value None: delete."""
    for name in (kv_namespace, key):
        fault = fault_of_name(name)
        if fault is not None and (value is not None or not name):
            raise Mistaken(f"the name {name[:100]!r} {fault}; nothing was changed")
    if kv_namespace == ORDER_TOPIC_CONFIG and value is not None and not _ORDER.fullmatch(value):
        raise Mistaken(
            f"the order configuration of a topic is like broker-a:4;broker-b:4, not {value[:100]!r}: clients could not "
            "read the topic's route; nothing was changed"
        )
    before = await read_kv_value(store, kv_namespace, key)
    result = {"kv_namespace": kv_namespace, "key": key, "value": value, "before": before}
    was = "" if before is None else " (as before)" if before == value else f" (was {before})"
    if value is None:
        line = f"{kv_namespace}/{key} deleted{was}" if before is not None else f"{kv_namespace}/{key} was not there"
        return Preview(
            [f"{kv_namespace}/{key} goes", f"its value is {before}"],
            None if before is None else lambda: KvStore(store).delete(kv_namespace, key), line, result,
        )  # fmt: skip
    line = f"{kv_namespace}/{key} = {value}{was}"
    return Preview(
        [f"{kv_namespace}/{key} becomes {value}", f"its value is {before}" if before is not None else "it is new"],
        None if before == value else lambda: KvStore(store).put(kv_namespace, key, value), line, result,
    )  # fmt: skip
