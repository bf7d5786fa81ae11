"""Queue data and mappings of one bucket's topics, replayed in the order of ``seq``."""

from __future__ import annotations

from collections.abc import Callable
from sys import intern
from typing import Any, Final

from mqregistry.events.cells import DropBroker, DropQueueData, Operation, SetMappings, SetQueueData

from .cell_history import CellHistory, Moment

TABLES: Final = ("queue_data", "mapping")


class TopicBucket:
    """One bucket's tables.

    Args:
        cells: one for each of TABLES.
    """

    def __init__(self, cells: dict[str, CellHistory]) -> None:
        self.cells = cells
        self.index()

    def index(self) -> None:
        """Make the look-up from the cells: an event that removes a brokerName lists none of its topics."""
        self._topics: dict[str, set[str]] = {}
        for topic, name in self.cells["queue_data"].held:
            self._topics.setdefault(name, set()).add(topic)

    def apply(self, operation: Operation, at: Moment) -> None:
        """Apply one operation."""
        _APPLY[type(operation)](self, operation, at)

    def _set_queue_data(self, of: SetQueueData, at: Moment) -> None:
        cells, name = self.cells["queue_data"], intern(of.broker_name)
        for topic, queue_data in of.queue_datas.items():
            key = topic, name
            if key not in cells.held:
                topic = intern(topic)
                key = topic, name
                self._topics.setdefault(name, set()).add(topic)
            cells.set(key, queue_data.numbers, at)

    def _drop_queue_data(self, of: DropQueueData, at: Moment) -> None:
        for topic in of.topics:
            if self.cells["queue_data"].drop((topic, of.broker_name), at):
                self._topics[of.broker_name].discard(topic)

    def _set_mappings(self, of: SetMappings, at: Moment) -> None:
        for topic, name, text in of.mappings:
            self.cells["mapping"].set((topic, name), (text,), at)

    def _drop_broker(self, of: DropBroker, at: Moment) -> None:
        for topic in self._topics.pop(of.broker_name, ()):
            self.cells["queue_data"].drop((topic, of.broker_name), at)


_APPLY: Final[dict[type, Callable[[TopicBucket, Any, Moment], None]]] = {
    SetQueueData: TopicBucket._set_queue_data,
    DropQueueData: TopicBucket._drop_queue_data,
    SetMappings: TopicBucket._set_mappings,
    DropBroker: TopicBucket._drop_broker,
}
"""What a topics' bucket does for the operations that it is sent; the head is sent the others."""
