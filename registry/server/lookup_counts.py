"""Which topics are looked up, and how often: what one worker counts for the journal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from registry.server.view import KeptAnswer

OTHERS: Final = "(others)"
"""Stands for every topic beyond the bounds. No topic may be called so (parentheses), though a client may ask for it."""

MAX_TOPICS: Final = 50_000
MAX_MISSING: Final = 10_000
# A topic's name is 127 characters at most, a retry topic's 255: what is longer is only counted.
_MAX_NAME_CHARS: Final = 255


class LookupCounts:
    """Answers to 105 since the last drain: found, by topic, and not found (code 17), by the name asked for.

    Args:
        kept: the view's kept answers by topic; each counts by itself how often it was given.
        max_topics, max_missing: so many are told by name, the others together, as OTHERS.
    """

    def __init__(
        self, *kept: Mapping[str, KeptAnswer], max_topics: int = MAX_TOPICS, max_missing: int = MAX_MISSING
    ) -> None:
        self._kept = kept
        self._max_topics, self._max_missing = max_topics, max_missing
        self._found: dict[str, int] = {}
        self._missing: dict[str, int] = {}

    def found(self, topic: str, times: int = 1) -> None:
        """Lookups were answered with a route that counts nothing by itself, or does not any more."""
        _add(self._found, topic, times, self._max_topics)

    def missing(self, topic: str | None) -> None:
        """One was answered with code 17; None: it named no topic."""
        if topic is None or len(topic) > _MAX_NAME_CHARS:
            topic = OTHERS
        _add(self._missing, topic, 1, self._max_missing)

    def drain(self) -> tuple[dict[str, int], dict[str, int]]:
        """Everything counted since the last call: found by topic, missing by name; none is 0.

        Cost: O(kept answers), about 6 ms for 40,000.
        """
        found, self._found = self._found, {}
        missing, self._missing = self._missing, {}
        limit = self._max_topics
        for answers in self._kept:
            for topic, answer in answers.items():
                if asked := answer.asked:
                    answer.asked = 0
                    if topic in found or len(found) >= limit:
                        _add(found, topic, asked, limit)
                    else:
                        found[topic] = asked
        return found, missing


def _add(counts: dict[str, int], name: str, times: int, limit: int) -> None:
    if name not in counts and len(counts) >= limit:
        name = OTHERS
    counts[name] = counts.get(name, 0) + times
