"""Says which lookups (105) are allowed to everybody, so that one answer may be kept for all senders.

Reading is allowed to everybody unless a rule denies it. So an unsigned lookup is allowed if no rule can deny its topic
to anybody, and if its sender is enabled, is in a network that the user is bound to, and is not denied all topics.
"""

from __future__ import annotations

from typing import Final

from ...auth.compiled import Pattern
from ...auth.policy import Policy
from ...auth.rights import Right
from ...auth.users import Effect, User
from ...networks import Address

_MOST_PATTERNS: Final = 100
"""A topic is compared with at most this many patterns: a user whose rules have more gets no kept answers."""
_EVERYTHING: Final = "*"


class OpenLookups:
    """The lookups that one policy allows to everybody who :meth:`may_ask`."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._bound: set[str] = set()  # users who may not ask: denied all topics, or with too many patterns
        denied = _denied_topics(policy.anonymous)
        for user in policy.users.values():
            topics = _denied_topics(user)
            more = {topic for topic in topics - denied if "*" in topic}
            if _EVERYTHING in topics or (more and len(more) + len(denied) > _MOST_PATTERNS):
                self._bound.add(user.name)
            else:
                denied |= topics
        self._names = frozenset(topic for topic in denied if "*" not in topic)
        self._patterns = tuple(Pattern(topic) for topic in denied if "*" in topic)

    def has(self, topic: str | None) -> bool:
        """Whether every user who :meth:`may_ask` may look up this topic."""
        return topic not in self._names and not any(pattern.fits(topic or "") for pattern in self._patterns)

    def may_ask(self, user: User | None, source: Address | None) -> bool:
        """Whether a user may look up every topic that this object :meth:`has`.

        Args:
            user: None: an unknown one.
            source: the address of the connection; None: not known.
        """
        known = self._policy.anonymous if user is None else user
        sources = self._policy.rules_of(known).sources
        return known.enabled and known.name not in self._bound and (sources is None or sources.has(source))


def _denied_topics(user: User) -> set[str]:
    """The patterns of topics that the rules on a user may deny him to look up."""
    rules = (rule for rule in user.rules if rule.effect is Effect.DENY and Right.ROUTE in rule.rights)
    return {rule.pattern for rule in rules}
