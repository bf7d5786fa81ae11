"""Finds the names in a sentence that have a page. Does no I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, Literal, NamedTuple

from ..events.changes import (
    BrokerChange,
    BrokerRegistered,
    BrokerRemoved,
    Change,
    TopicDeleted,
    TopicRegistered,
    WritePermSet,
)

_MOST: Final = 10  # names of one kind in a sentence
_BEHIND: Final = re.compile(r"[ /,;?，。；：？）]|[.:](?: |\Z)|\Z")
_BEFORE: Final = frozenset(("", " ", "/", "，", "：", "（"))


class Named(NamedTuple):
    """A name in a sentence. kind is also the path of its page."""

    kind: Literal["topic", "broker", "cluster"]
    name: str


def brokers_named(names: Iterable[str]) -> tuple[Named, ...]:
    """Broker names, for the links of a sentence."""
    return tuple(Named("broker", name) for name in islice(names, _MOST))


def names_in(change: Change) -> Iterator[Named]:
    """The names in the words of a change (:func:`mqregistry.operators.words.what`), in order."""
    match change:
        case TopicDeleted():
            yield Named("topic", change.topic)
            yield from brokers_named(change.broker_names)
        case TopicRegistered():
            yield Named("topic", change.topic)
            yield from brokers_named(change.queue_datas)
        case WritePermSet():
            yield Named("broker", change.broker_name)
            yield from _topics(change.topics)
        case BrokerChange():
            if change.cluster is not None:
                yield Named("cluster", change.cluster)
            yield Named("broker", change.broker_name)
            if isinstance(change, (BrokerRegistered, BrokerRemoved)):
                yield from _topics(change.topics)
            if isinstance(change, BrokerRegistered):
                yield from _topics(change.dropped)


def _topics(names: Iterable[str]) -> Iterator[Named]:
    return (Named("topic", name) for name in islice(names, _MOST))


def find_name(text: str, name: str, begin: int) -> int:
    """The first index, from ``begin`` on, at which a name stands in a text as a whole word; -1: there is none."""
    while (place := text.find(name, begin)) >= 0:
        if text[max(0, place - 1) : place] in _BEFORE and _BEHIND.match(text, place + len(name)):
            return place
        begin = place + 1
    return -1
