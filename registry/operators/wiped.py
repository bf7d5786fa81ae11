"""Finds in the stream of changes which topics lost their write permission by a wipe (205), for ``restore``."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from ..events.changes import BrokerRegistered, BrokerRemoved, Change, TopicRegistered, WritePermSet
from ..model import PERM_WRITE
from ..store.change_reader import read_back
from ..store.store import Store
from .history import broker_names_of, whole

_SCANNED: Final = 200_000


class Taken(NamedTuple):
    """Topics without write permission, by the reason that the stream shows."""

    topics: set[str]  # a wipe took their write permission
    not_known: set[str]  # the reason is not among the last _SCANNED entries, or no longer in the stream
    last: WritePermSet | None  # the last wipe


async def read_taken(store: Store, name: str, without: Collection[str]) -> Taken:
    """Find for each topic that has no write permission at a broker name whether a wipe took it.

    Args:
        without: the topics without write permission at the broker name.
    """
    left, taken = set(without), set[str]()
    last: WritePermSet | None = None
    scanned, is_all = 0, False
    async for parts in read_back(store):
        change = whole(parts)
        if name in broker_names_of(change):
            if isinstance(change, WritePermSet):
                wiped = {topic for topic, data in change.topics.items() if not data.perm & PERM_WRITE} & left
                taken |= wiped
                last = last or (change if wiped else None)
            left -= _set_by(change)
            # this change removed an earlier broker of this name: older changes do not count
            is_all = isinstance(change, BrokerRemoved) and change.row is None
        is_all = is_all or change.seq == 1
        scanned += len(parts)
        if not left or is_all or scanned >= _SCANNED:
            break
    return Taken(taken, set() if is_all else left, last)


def _set_by(change: Change) -> set[str]:
    """The topics whose queue data a change sets."""
    match change:
        case WritePermSet() | BrokerRegistered() | BrokerRemoved():
            return {*change.topics}
        case TopicRegistered():
            return {change.topic}
    return set()
