"""Filters changes by author or by subject, and reads one topic's history from the stream of changes."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..events.changes import BrokerChange, Change, TopicDeleted, TopicRegistered, WritePermSet
from ..follow.follow import Follow, StreamGap
from ..store.store import Store
from ..tables.topic_history import TopicHistory

Wanted = Callable[[Change], bool]


def by_author(user: str | None, peer: str | None) -> Wanted:
    """Changes by this user, or from this address, with or without port; None: any user, any address."""

    def wanted(change: Change) -> bool:
        by = change.by
        if by is None or (user is not None and user not in (by.user, by.login)):
            return False
        places = [at for at in (by.peer, by.via) if at is not None]  # HOST:PORT, or of a program HOST/PROCESS_ID
        return peer is None or any(at == peer or at.startswith((f"{peer}:", f"{peer}/")) for at in places)

    return wanted


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
    """Join the parts of a change: a large change is several entries of the stream."""
    first = parts[0]
    if len(parts) == 1:
        return first
    topics = {topic: data for part in parts for topic, data in getattr(part, "topics", {}).items()}
    return msgspec.structs.replace(first, part=1, parts=1, topics=topics)


async def read_history(store: Store, topic: str) -> tuple[TopicHistory, bool]:
    """One topic's history, read from the whole stream, and whether the stream still has every change."""
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
