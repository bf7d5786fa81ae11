"""Operators' changes: a preview describes each in words, then the script of its RocketMQ request makes it."""

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
from .closest_names import closest_names
from .language import marked, say, say_number
from .maintenance import Maintenance, begin_maintenance, end_maintenance, read_maintenance
from .wiped import read_taken
from .words import counted, duration, moment, perm, queues_text, some

_RESTORED: Final = PERM_READ | PERM_WRITE
# Java's clients accept more forms, but fail at an entry without a number.
_ORDER: Final = re.compile(r"[^:;]+:\d{1,9}(?:;[^:;]+:\d{1,9})*;?")
_TOO_LONG: Final = re.compile(r"has (\d+) bytes, at most (\d+) are allowed")


class Mistaken(RegistryError):
    """The name does not exist, or cannot have this value; nothing was changed. The message says what exists."""


class Preview(NamedTuple):
    """A change before it is made."""

    lines: list[str]  # what it does
    work: Callable[[], Awaitable[object]] | None  # makes the change; None: nothing has to change, and ``done`` says so
    done: str  # what to say afterwards
    result: dict[str, Any]  # what was changed, for programs


async def _read(store: Store, name: str) -> tuple[BrokerRow, dict[str, QueueData]]:
    """A brokerName's row, and its queue data by topic.

    Raises:
        Mistaken: there is no such brokerName.
    """
    view = await read_broker(store, name, all_topics=True)
    if view.row is None:
        raise Mistaken(unknown_broker(name, (await read_clusters(store))[1]))
    return view.row, {topic: datas[name] for topic, datas in sorted(view.tables.topics.items())}


def unknown_broker(name: str, known: Iterable[str]) -> str:
    """The message for an unknown broker name; it proposes similar names, else the first few."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, 3, 0.6)
    if close:
        return say("no broker name {name}; did you mean {names}?", name=repr(name), names=say(" or ").join(close))
    return say("no broker name {name}; there is {names}", name=repr(name), names=some(names) or say("none"))


def _head(name: str, row: BrokerRow) -> str:
    addresses = ", ".join(addr for _, addr in sorted(row.broker_addrs.items()))
    return say("broker name {name} of cluster {cluster}, {addresses}", name=name, cluster=row.cluster,
               addresses=addresses)  # fmt: skip


async def wipe(store: Store, name: str) -> Preview:
    """Take the write permission from every topic of a brokerName (205)."""
    row, queue_datas = await _read(store, name)
    losing = [topic for topic, data in queue_datas.items() if data.perm & PERM_WRITE]
    result = {"broker_name": name, "topics": sorted(losing)}
    if not losing:
        return Preview([], None, say("{name} has no topic with the write bit", name=name), result)
    lose = say_number(
        "{number} topic loses the write bit: {names}", "{number} topics lose the write bit: {names}", len(losing),
        names=some(losing),
    )  # fmt: skip
    return Preview(
        [_head(name, row), lose], lambda: RouteStore(store).set_write_perm(name, "wipe"),
        say("{name}: {topics} wiped", name=name, topics=counted(len(losing), "topic")), result,
    )  # fmt: skip


async def drain(store: Store, name: str, reason: str = "", until_ms: int | None = None) -> Preview:
    """Put a brokerName into maintenance: note why and until when, and take its write permission (205)."""
    wiping, already = await wipe(store, name), await read_maintenance(store, name)
    until = say(", until {time}", time=moment(until_ms)[:16]) if until_ms is not None else ""
    begins = say("{name} is in maintenance from now on", name=name) + until
    lines = [
        begins + (say(": {reason}", reason=reason) if reason else ""),
        *([say("it was {state}", state=already)] if already else []), *wiping.lines,
    ]  # fmt: skip

    async def work() -> None:
        await begin_maintenance(store, name, reason, until_ms)
        if wiping.work is not None:
            await wiping.work()

    return Preview(lines, work, say("{name} is in maintenance: {done}", name=name, done=wiping.done), wiping.result)


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
        by, at = taken.last.by or say("somebody not known"), moment(taken.last.ms)[:19]
        lines.append(say("the last wipe was at {time}, by {author}", time=at, author=by))
    if back:
        lines.append(say_number(
            "{number} topic gets the write bit back: {names}", "{number} topics get the write bit back: {names}",
            len(back), names=some(back),
        ))  # fmt: skip
    if stay:
        why = say("the stream shows no wipe that took it") if taken.not_known else say("no wipe took it")
        lines.append(say_number(
            "{number} topic stays without it: {why}: {names}", "{number} topics stay without it: {why}: {names}",
            len(stay), why=why, names=some(stay),
        ))  # fmt: skip
    ends, work = _ending(
        store, name, maintenance, (lambda: RouteStore(store).set_write_perm(name, "give", back)) if back else None
    )
    if back:
        done = say("{name}: {topics} restored", name=name, topics=counted(len(back), "topic"))
    elif without:
        done = say("{name}: no wipe took the missing write permissions", name=name)
    else:
        done = say("{name}: every topic can be written to", name=name)
    if stay:
        done += say(
            "; without write permission: {names}; --all gives permission 6 to every topic", names=some(stay)
        )  # fmt: skip
    if maintenance is not None:
        done += say("; its maintenance is over")
    return Preview([*lines, *ends], work, done, result)


def _ending(
    store: Store, name: str, maintenance: Maintenance | None, give: Callable[[], Awaitable[object]] | None
) -> tuple[list[str], Callable[[], Awaitable[object]] | None]:
    """Add the end of a maintenance to the work ``give``; returns the lines about it, and the whole work."""
    if maintenance is None:
        return [], give

    async def work() -> None:
        if give is not None:
            await give()
        await end_maintenance(store, name)

    return [say("its maintenance ends: it was {state}", state=maintenance)], work


async def restore_all(store: Store, name: str) -> Preview:
    """Give every topic of a brokerName the permission to read and write (327), and end its maintenance."""
    row, queue_datas = await _read(store, name)
    maintenance = await read_maintenance(store, name)
    other = {topic: data.perm for topic, data in queue_datas.items() if data.perm != _RESTORED}
    result = {"broker_name": name, "topics": sorted(other)}
    if not other and maintenance is None:
        return Preview([], None, say("{name}: every topic has permission 6 RW", name=name), result)
    lines = [
        say_number(
            "{number} topic with permission {was} gets {now}: {names}",
            "{number} topics with permission {was} get {now}: {names}", count, was=perm(value), now=perm(_RESTORED),
            names=some(topic for topic, had in other.items() if had == value),
        )
        for value, count in sorted(Counter(other.values()).items())
    ]  # fmt: skip
    ends, work = _ending(
        store, name, maintenance, (lambda: RouteStore(store).set_write_perm(name, "add")) if other else None
    )
    done = say("{name}: {topics} restored", name=name, topics=counted(len(other), "topic"))
    return Preview([_head(name, row), *lines, *ends], work, done, result)


async def forget(store: Store, name: str) -> Preview:
    """Remove a brokerName with all its addresses and topics, as if each had unregistered (104)."""
    row, queue_datas = await _read(store, name)
    live = {info.broker_addr: info for info in await read_brokers(store) if info.broker_name == name}
    alone = await nowhere_else(store, queue_datas, name)
    lines = [_head(name, row)]
    for broker_id, addr in sorted(row.broker_addrs.items()):
        info = live.get(addr)
        removed = say("will be removed: {addr} id {broker_id}", addr=addr, broker_id=broker_id)
        heard = heard_text(duration(info.heard_ms_ago)) if info else say(", does not count as alive")
        back = say("; it registers again if it is alive") if info and info.expires_in_ms > 0 else ""
        lines.append(removed + heard + back)
    lines.append(say_number(
        "{number} topic loses the route to it", "{number} topics lose the route to it", len(queue_datas)
    ))  # fmt: skip
    if alone:
        topics = counted(len(alone), "topic")
        lines.append(say("{topics} of these will have no route at all: {names}", topics=topics, names=some(alone)))

    async def work() -> None:
        for broker_id, addr in row.broker_addrs.items():
            await RouteStore(store).unregister_broker(row.cluster, addr, name, broker_id)

    return Preview(
        lines, work,
        say("{name}: {addresses} and {topics} forgotten", name=name,
            addresses=counted(len(row.broker_addrs), "address", "addresses"),
            topics=counted(len(queue_datas), "topic")),
        {"broker_name": name, "addrs": sorted(row.broker_addrs.values()), "topics": sorted(queue_datas),
         "topics_without_route": sorted(alone)},
    )  # fmt: skip


def heard_text(ago: str) -> str:
    """The words for when a broker was heard last; the console ignores them when it asks whether a preview changed."""
    return say(", last heard {ago} ago", ago=ago)


async def delete_topic(
    store: Store, topic: str, cluster: str, show: Callable[[str, Mapping[str, QueueData], Mapping[str, BrokerRow]], str]
) -> Preview:
    """Take a topic out of the route tables, everywhere or from one cluster's broker names (216).

    Args:
        show: gives a topic's queues at each broker name as lines of text.
    """
    if cluster and not behaviour_of(store.compat).deletes_in_one_cluster:
        raise Mistaken(say(
            "a namespace with compat {compat} deletes a topic everywhere, not in one cluster", compat=store.compat
        ))  # fmt: skip
    tables = await read_topic_tables(store, topic)
    going = tables.topics.get(topic, {})
    if not going:
        close = closest_names(topic, await read_topic_names(store))
        hint = say("; did you mean {names}?", names=say(" or ").join(close)) if close else ""
        raise Mistaken(say("no topic {name}", name=repr(topic)) + hint)
    if cluster:
        members = (await read_clusters(store))[0].get(cluster, [])
        stay, going = set(going).difference(members), {name: going[name] for name in going if name in members}
        if not going:
            text = marked("topic {name} is not in cluster {cluster}, but at {places}")
            raise Mistaken(say(text, name=topic, cluster=repr(cluster), places=some(stay)))
    return Preview(
        [*show(topic, going, tables.brokers).split("\n"), say("it will be removed from all of these broker names"),
         *await _comes_back(store, topic, going)],
        lambda: RouteStore(store).delete_topic(topic, cluster),
        say("topic {name} deleted at {places}", name=topic, places=some(going)), {"topic": topic, "before": going},
    )  # fmt: skip


async def _comes_back(store: Store, topic: str, going: Iterable[str]) -> list[str]:
    """The warning that live brokers bring a deleted topic back, and what works instead."""
    alive = [info for info in await read_brokers(store) if info.broker_name in going and info.expires_in_ms > 0]
    if not alive:
        return []
    names, clusters = sorted({info.broker_name for info in alive}), sorted({info.cluster for info in alive})
    when = (
        say("with the next registration, within 30 s as a rule, also at an unchanged data version")
        if behaviour_of(store.compat).restores_deleted_topics
        else say("when their data version changes")
    )
    return [
        say(
            "comes back {when}, while it is at live brokers: {names}; delete it there, which also deletes it here:",
            when=when, names=some(names),
        ),
        *(f"  mqadmin deleteTopic -n HOST:PORT -c {cluster} -t {topic}" for cluster in clusters),
    ]  # fmt: skip


async def set_topic(store: Store, topic: str, asked: Mapping[str, tuple[int, int, int]]) -> Preview:
    """Give a topic queues at broker names that are known (217).

    Args:
        asked: brokerName -> read queues, write queues, permission.
    """
    fault = fault_of_name(topic)
    if fault is not None:
        raise Mistaken(say("the topic {fault}", fault=_fault_text(fault)))
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
        return Preview([], None, say("topic {name} has these queues already", name=topic), result)
    lines = [say("topic {name}", name=topic) + ("" if before else say(", which is new"))]
    for name, data in changed.items():
        was = say(", was {queues}", queues=queues_text(before[name])) if name in before else ""
        lines.append(f"{name}: {queues_text(data)}{was}")
    return Preview(
        lines, lambda: RouteStore(store).register_topic(topic, changed.items()),
        say("topic {name} set at {places}", name=topic, places=some(changed)), result,
    )  # fmt: skip


def _fault_text(fault: str) -> str:
    """What is wrong with a name, in the language of the page."""
    sizes = _TOO_LONG.fullmatch(fault)
    if sizes is None:
        return say(fault)
    return say("has {size} bytes, at most {most} are allowed", size=sizes[1], most=sizes[2])


async def set_kv(store: Store, kv_namespace: str, key: str, value: str | None) -> Preview:
    """Set a key of the KV configuration (100); value None: delete it (102)."""
    for name in (kv_namespace, key):
        fault = fault_of_name(name)
        if fault is not None and (value is not None or not name):
            raise Mistaken(
                say("the name {name} {fault}; nothing was changed", name=repr(name[:100]), fault=_fault_text(fault))
            )
    if kv_namespace == ORDER_TOPIC_CONFIG and value is not None and not _ORDER.fullmatch(value):
        raise Mistaken(say(
            "the order configuration of a topic is like broker-a:4;broker-b:4, not {value}: clients could not "
            "read the topic's route; nothing was changed", value=repr(value[:100]),
        ))  # fmt: skip
    before = await read_kv_value(store, kv_namespace, key)
    result = {"kv_namespace": kv_namespace, "key": key, "value": value, "before": before}
    was = "" if before is None else say(" (as before)") if before == value else say(" (was {value})", value=before)
    if value is None:
        name = f"{kv_namespace}/{key}"
        line = say("{name} deleted", name=name) + was if before is not None else say("{name} was not there", name=name)
        return Preview(
            [say("{name} will be deleted", name=name), say("its value is {value}", value=before)],
            None if before is None else lambda: KvStore(store).delete(kv_namespace, key), line, result,
        )  # fmt: skip
    line = f"{kv_namespace}/{key} = {value}{was}"
    return Preview(
        [say("{name} becomes {value}", name=f"{kv_namespace}/{key}", value=value),
         say("its value is {value}", value=before) if before is not None else say("it is new")],
        None if before == value else lambda: KvStore(store).put(kv_namespace, key, value), line, result,
    )  # fmt: skip
