"""Remembers the deleted topics of each brokerName, for NameServer versions in which they stay deleted (4.8)."""

from __future__ import annotations

from collections.abc import Container

from ...events.changes import BrokerRegistered, BrokerRemoved, TopicDeleted, TopicRegistered
from ..view.view import Applied


class DeletedTopics:
    """The topics that were deleted since the tables were read.

    ``are_restored``: a registration with an unchanged DataVersion brings deleted topics back (5.x), so none is
    remembered.
    """

    def __init__(self, *, are_restored: bool) -> None:
        self._are_restored = are_restored
        self._deleted: dict[str, set[str]] = {}  # by brokerName

    def of(self, broker_name: str, *, is_new_body: bool) -> Container[str] | None:
        """The topics that a registration with an unchanged DataVersion does not bring back; None: it brings none back.

        Args:
            is_new_body: the body differs from the last body, and may have topics that were never there (D33).
        """
        if self._are_restored:
            return ()
        return self._deleted.get(broker_name, ()) if is_new_body else None

    def applied(self, applied: Applied) -> None:
        """Take in a change of the tables."""
        change = applied.change
        if self._are_restored:
            return
        if isinstance(change, TopicDeleted):
            for name in change.broker_names:
                self._deleted.setdefault(name, set()).add(change.topic)
        elif isinstance(change, BrokerRegistered) and change.broker_name in self._deleted:
            self._deleted[change.broker_name].difference_update(change.topics)
        elif isinstance(change, BrokerRemoved) and change.row is None:
            self._deleted.pop(change.broker_name, None)
        elif isinstance(change, TopicRegistered):
            for name in change.queue_datas:
                self._deleted.get(name, set()).discard(change.topic)

    def replaced(self, epoch: str, seq: int) -> None:
        """Forget all deletions: the view has loaded the tables again."""
        self._deleted.clear()
