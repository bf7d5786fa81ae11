"""Queue data and mappings of one bucket's topics, replayed in the order of ``seq``."""

from __future__ import annotations

from sys import intern

import msgspec

from pipeline.silver.cells import Cells, Moment
from pipeline.silver.ops import KINDS, TopicOp

TABLES = ("queue_data", "mapping")


class Topics:
    """One bucket's tables.

    Args:
        cells: one for each of TABLES.
    """

    def __init__(self, cells: dict[str, Cells]) -> None:
        self.cells = cells
        self._decode = msgspec.msgpack.Decoder(TopicOp).decode
        self.index()

    def index(self) -> None:
        """Make the look-up from the cells: a broker that goes names none of its topics."""
        self._topics: dict[str, set[str]] = {}
        for topic, name in self.cells["queue_data"].held:
            self._topics.setdefault(name, set()).add(topic)

    def apply(self, payload: bytes, us: int, seq: int) -> None:
        """One operation."""
        op = self._decode(payload)
        at = Moment(us, seq, KINDS[op.kind])
        queue_data, topics = self.cells["queue_data"], self._topics
        if op.gone is not None:
            for topic in topics.pop(op.gone, ()):
                queue_data.drop((topic, op.gone), at)
            return
        for cell in op.sets:
            key = cell[:2]
            if key not in queue_data.held:
                topic, name = key = intern(key[0]), intern(key[1])
                topics.setdefault(name, set()).add(topic)
            queue_data.set(key, cell[2:], at)
        for topic, name in op.drops:
            if queue_data.drop((topic, name), at):
                topics[name].discard(topic)
        for topic, name, text in op.mappings:
            self.cells["mapping"].set((topic, name), (text,), at)
