"""Large changes that this process has sent: their events come back with topics that need no decoding."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from registry.change import Change, decode_change, with_topics
from registry.model import QueueData

# More than that many are not on their way at once; those whose events never come make room.
_MOST_CHANGES: Final = 4
_TOPICS: Final = b',"topics":{'  # quotes within a string have a backslash before them: this stands in none


class Sent:
    """One change: the texts of its events' topics, part by part, and the same decoded."""

    def __init__(self, broker_name: str, bodies: Sequence[bytes], topics: Sequence[dict[str, QueueData]]) -> None:
        self.broker_name = broker_name
        self.bodies = bodies
        self.topics = topics
        self.next = 0


class SentTopics:
    """What was sent and has not come back yet. An event is recognised by its bytes, whoever sent it."""

    def __init__(self) -> None:
        self._sent: deque[Sent] = deque(maxlen=_MOST_CHANGES)

    def add(self, sent: Sent) -> None:
        """Before it is sent: the events may come before the answer."""
        self._sent.append(sent)

    def drop(self, sent: Sent) -> None:
        """No event of it is to come; nothing happens when all have come."""
        if sent in self._sent:
            self._sent.remove(sent)

    def decode(self, entry: bytes) -> Change:
        """One entry of the change stream, as ``decode_change``; its head alone is read if the rest was sent from here.

        Raises:
            msgspec.DecodeError: not an event of this schema.
        """
        at = entry.find(_TOPICS) if self._sent else -1
        if at >= 0:
            begin = at + len(_TOPICS)
            for sent in self._sent:
                body = sent.bodies[sent.next]
                end = begin + len(body)
                if entry.startswith(body, begin) and entry[end : end + 1] == b"}":
                    head = decode_change(entry[:at] + entry[end + 1 :])
                    if head.broker_name != sent.broker_name:
                        continue  # brokers of a cluster often say the same
                    change = with_topics(head, sent.topics[sent.next])
                    sent.next += 1
                    if sent.next == len(sent.bodies):
                        self._sent.remove(sent)
                    return change
        return decode_change(entry)
