"""Which topics are looked up, and how often: what one worker counts for the journal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

OTHERS: Final = "(others)"
"""Stands for every topic beyond the bounds. No topic may be called so (parentheses), though a client may ask for it."""

MAX_TOPICS: Final = 50_000
MAX_MISSING: Final = 10_000
# A topic's name is 127 characters at most, a retry topic's 255: what is longer is only counted.
_MAX_NAME_CHARS: Final = 255


class LookupCounts:
    """Answers to 105 since the last drain: found, by topic, and not found (code 17), by the name asked for.

    Args:
        max_topics: counted by name; the others together, as OTHERS. Topics keep their counter over a drain, so that
            counting a lookup is one addition; when no more fit and at least half had no lookup, those are forgotten.
        max_missing: names that do not exist counted by name, between two drains.
    """

    def __init__(self, max_topics: int = MAX_TOPICS, max_missing: int = MAX_MISSING) -> None:
        self._max_topics, self._max_missing = max_topics, max_missing
        self._found: dict[str, list[int]] = {}
        self._other_topics = [0]
        self._missing: dict[str, int] = {}
        self.on_forget: Callable[[], None] = lambda: None
        """Called when counters were forgotten: whoever keeps any that :meth:`counter` gave must ask again."""

    def counter(self, topic: str) -> list[int]:
        """The counter of a topic that exists: a list of one number, for the caller to add to."""
        counter = self._found.get(topic)
        if counter is None:
            if len(self._found) >= self._max_topics:
                return self._other_topics
            counter = self._found[topic] = [0]
        return counter

    def found(self, topic: str) -> None:
        """One lookup was answered with a route."""
        self.counter(topic)[0] += 1

    def missing(self, topic: str | None) -> None:
        """One was answered with code 17; None: it named no topic."""
        missing = self._missing
        if topic is None or (
            topic not in missing and (len(missing) >= self._max_missing or len(topic) > _MAX_NAME_CHARS)
        ):
            topic = OTHERS
        missing[topic] = missing.get(topic, 0) + 1

    def drain(self) -> tuple[dict[str, int], dict[str, int]]:
        """Everything counted since the last call: found by topic, missing by name; none is 0."""
        counters = self._found
        found = {topic: counter[0] for topic, counter in counters.items() if counter[0]}
        for topic in found:
            counters[topic][0] = 0
        if len(counters) >= self._max_topics and len(found) <= len(counters) // 2:
            self._found = {topic: counters[topic] for topic in found}
            self.on_forget()
        if self._other_topics[0]:
            found[OTHERS] = found.get(OTHERS, 0) + self._other_topics[0]
            self._other_topics[0] = 0
        missing, self._missing = self._missing, {}
        return found, missing
