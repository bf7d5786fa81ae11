"""Finds the action that reverses a change. Does no I/O: the action has its own preview and needs its own rights."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import RegistryError
from ..events.changes import Change, KvDeleted, KvPut, TopicDeleted, TopicRegistered, WritePermSet
from ..model import PERM_WRITE, QueueData
from ..operators.language import say
from ..tables.tables import Tables


class NotUndone(RegistryError):
    """No action reverses the change; the message says why."""


def can_undo(change: Change) -> bool:
    """Whether an action may reverse a change; no action reverses what a broker or a process of the registry did."""
    if isinstance(change, (KvPut, KvDeleted)):
        return change.key is not None
    return isinstance(change, (TopicDeleted, TopicRegistered, WritePermSet))


def undo_of(change: Change, before: Tables, now: Tables) -> dict[str, str]:
    """The fields of the action that reverses a whole change. ``before``: the tables before the change."""
    match change:
        case KvPut() | KvDeleted() if change.key is not None:
            value = before.kv.get(change.kv_namespace, {}).get(change.key)
            of = {"kv_namespace": change.kv_namespace, "key": change.key}
            return {"do": "delete-kv", **of} if value is None else {"do": "put-kv", **of, "value": value}
        case TopicDeleted():
            return _queues(change.topic, change.before or before.topics.get(change.topic, {}), now)
        case TopicRegistered():
            had = before.topics.get(change.topic, {})
            if not had:
                return {"do": "delete-topic", "topic": change.topic}
            return _queues(change.topic, {name: had[name] for name in change.queue_datas if name in had}, now)
        case WritePermSet():
            return _perm(change, now)
    raise NotUndone(say("A broker, or a process of the registry, did this; no action puts it back."))


def _queues(topic: str, had: Mapping[str, QueueData], now: Tables) -> dict[str, str]:
    there = {name: data for name, data in sorted(had.items()) if name in now.brokers}
    if not there:
        raise NotUndone(say(
            "None of the broker names that had {topic} is registered now: a broker that has it brings it back.",
            topic=topic,
        ))  # fmt: skip
    queues = " ".join(
        f"{name}={data.read_queue_nums}:{data.write_queue_nums}:{data.perm}" for name, data in there.items()
    )
    return {"do": "set-topic", "topic": topic, "queues": queues}


def _perm(change: WritePermSet, now: Tables) -> dict[str, str]:
    name = change.broker_name
    if any(not data.perm & PERM_WRITE for data in change.topics.values()):
        return {"do": "restore", "name": name}
    given = {topic for topic in now.broker_topics.get(name, ()) if now.topics[topic][name].perm & PERM_WRITE}
    if given - change.topics.keys():
        raise NotUndone(say(
            "Other topics of {name} can be written to, too: a wipe would also take what this change did not give.",
            name=name,
        ))  # fmt: skip
    return {"do": "wipe", "name": name}
