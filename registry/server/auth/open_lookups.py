"""Says which lookups (105) are allowed to everybody, so that one kept answer serves all senders.

Everybody may read unless a rule denies it. So an unsigned lookup is allowed if no rule of any user denies its topic,
and if its sender is enabled, sends from a network that he is bound to, and is not denied all topics.
"""

from __future__ import annotations

from typing import Final

from ...auth.compiled import Pattern
from ...auth.policy import Policy
from ...auth.rights import Right
from ...auth.users import Effect, User
from ...networks import Address

_MOST_PATTERNS: Final = 100
"""A topic is compared with at most this many patterns. Users whose rules would add more get no kept answers."""


class OpenLookups:
    """The lookups that one policy allows to every user of whom :meth:`may_ask` is true."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._bound: set[str] = set()  # users who may not ask: denied all topics, or with too many patterns
        denied = _denied_topics(policy.anonymous)
        for user in policy.users.values():
            topics = _denied_topics(user)
            more = {topic for topic in topics - denied if "*" in topic}
            if "*" in topics or (more and len(more) + len(denied) > _MOST_PATTERNS):
                self._bound.add(user.name)
            else:
                denied |= topics
        self._names = frozenset(topic for topic in denied if "*" not in topic)
        self._patterns = tuple(Pattern(topic) for topic in denied if "*" in topic)

    def has(self, topic: str | None) -> bool:
        """Whether every user of whom :meth:`may_ask` is true may look up this topic."""
        return topic not in self._names and not any(pattern.fits(topic or "") for pattern in self._patterns)

    def may_ask(self, user: User | None, source: Address | None) -> bool:
        """Whether a user (None: an unknown one) may look up every topic of which :meth:`has` is true."""
        known = self._policy.anonymous if user is None else user
        sources = self._policy.rules_of(known).sources
        return known.enabled and known.name not in self._bound and (sources is None or sources.has(source))


def _denied_topics(user: User) -> set[str]:
    """The patterns of the topics that some rule denies the user to look up, whatever the rule's sources."""
    rules = (rule for rule in user.rules if rule.effect is Effect.DENY and Right.ROUTE in rule.rights)
    return {rule.pattern for rule in rules}
