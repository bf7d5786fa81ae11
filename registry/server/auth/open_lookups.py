"""Says which lookups (105) are allowed to everybody, so that one answer may be kept for all senders.

Reading is allowed to everybody unless a rule denies it. So a lookup that is not signed is allowed if no rule can deny
its topic to anybody, and its sender is enabled, in the network that the user is bound to, and not denied all topics.
"""

from __future__ import annotations

from typing import Final

from ...auth.compiled import Pattern
from ...auth.policy import Policy
from ...auth.rights import Right
from ...auth.users import Effect, User
from ...networks import Address

_MOST_PATTERNS: Final = 100
"""Only this many patterns are tested for each topic: lookups of users with more are not kept in the cache."""
_EVERYTHING: Final = "*"


class OpenLookups:
    """The lookups that one policy allows to everybody who :meth:`may_ask`."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._bound: set[str] = set()
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
        """Whether no user who :meth:`may_ask` is denied this topic."""
        return topic not in self._names and not any(pattern.fits(topic or "") for pattern in self._patterns)

    def may_ask(self, user: User | None, source: Address | None) -> bool:
        """Whether a user may look up every topic that is open; None: nobody that is known.

        Args:
            source: the address of the connection; None: not known.
        """
        known = self._policy.anonymous if user is None else user
        sources = self._policy.rules_of(known).sources
        return known.enabled and known.name not in self._bound and (sources is None or sources.has(source))


def _denied_topics(user: User) -> set[str]:
    """The patterns of topics that the rules on a user may deny him to look up."""
    rules = (rule for rule in user.rules if rule.effect is Effect.DENY and Right.ROUTE in rule.rights)
    return {rule.pattern for rule in rules}
