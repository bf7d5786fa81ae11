"""Puts the topics of a whole snapshot into tables, three times as fast as cell by cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from sys import intern

from ..model import QueueData
from .tables import Tables


class TopicsLoader:
    """Adds topics to tables; ``broker_topics`` is complete after :meth:`finish`.

    Most topics are on the same brokerNames as many others, with the same queues on each: those share one list for the
    index, and their dict is made by one call.

    Args:
        decode: gives the cell of a text; it should give one object for equal texts, to save memory.
    """

    def __init__(self, tables: Tables, decode: Callable[[str], QueueData]) -> None:
        self._tables, self._decode = tables, decode
        self._groups: dict[tuple[str, ...], tuple[dict[str, None], list[str]]] = {}

    def add(self, rows: Iterable[tuple[str, list[str]]]) -> None:
        """Topics, each with its HASH: a brokerName, the text of its cell, the next brokerName. One may come twice."""
        table, groups, decode = self._tables.topics, self._groups, self._decode
        for topic, flat in rows:
            group = groups.get(tuple(flat[::2]))
            if group is None:
                key = tuple(map(intern, flat[::2]))
                group = groups[key] = dict.fromkeys(key), []
            names, topics = group
            texts = flat[1::2]
            if texts.count(texts[0]) == len(texts):
                cells = dict.fromkeys(names, decode(texts[0]))
            else:
                cells = dict(zip(names, map(decode, texts), strict=True))
            topic = intern(topic)
            there = table.setdefault(topic, cells)
            if there is not cells:
                there.update(cells)
            topics.append(topic)

    def finish(self) -> None:
        """Bring ``broker_topics`` up to date with what was added."""
        index = self._tables.broker_topics
        for names, topics in self._groups.values():
            found = set(topics)
            for name in names:
                there = index.get(name)
                if there is None:
                    index[name] = found.copy()
                else:
                    there |= found
