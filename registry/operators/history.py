"""Filters changes by author or by subject, and reads one topic's history from the stream of changes."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..events.by import By
from ..events.changes import BrokerChange, Change, TopicDeleted, TopicRegistered, WritePermSet
from ..follow.follow import Follow, StreamGap
from ..store.store import Store
from ..tables.topic_history import TopicHistory

Wanted = Callable[[Change], bool]


def by_author(user: str | None, peer: str | None) -> Wanted:
    """Changes by this user, or from this address; None: any user, any address."""

    def wanted(change: Change) -> bool:
        by = change.by
        return by is not None and (user is None or user in (by.user, by.login)) and (peer is None or is_at(by, peer))

    return wanted


def is_at(by: By, peer: str) -> bool:
    """Whether an author has this address, given with or without port; a program's address is host/process id."""
    return any(at is not None and (at == peer or at.startswith((f"{peer}:", f"{peer}/"))) for at in (by.peer, by.via))


def broker_names_of(change: Change) -> tuple[str, ...]:
    """The brokerNames whose row or queue data a change is about."""
    match change:
        case BrokerChange() | WritePermSet():
            return (change.broker_name,)
        case TopicDeleted():
            return (*change.broker_names,)
        case TopicRegistered():
            return (*change.queue_datas,)
    return ()


def whole(parts: list[Change]) -> Change:
    """One change made of all its parts."""
    first = parts[0]
    if len(parts) == 1:
        return first
    topics = {topic: data for part in parts for topic, data in getattr(part, "topics", {}).items()}
    return msgspec.structs.replace(first, part=1, parts=1, topics=topics)


async def read_history(store: Store, topic: str) -> tuple[TopicHistory, bool]:
    """One topic's history, read from the whole stream, and whether the stream holds every change that ever was."""
    history, follow, complete = TopicHistory(topic), Follow(store, seq=0), True
    while True:
        try:
            changes = await follow.read(block_ms=0)
        except StreamGap:
            complete = False
            continue
        if not changes:
            return history, complete and follow.seq != 0
        for change in changes:
            if whole := list(follow.whole(change)):
                history.add(whole)
