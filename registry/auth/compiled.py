"""Compiles a user's roles and rules for fast decisions: rules by right, and patterns split at ``*``."""

from __future__ import annotations

from typing import NamedTuple

from ..networks import Address, Networks
from .rights import ROLES, Kind, Resource, Right
from .users import Effect, Rule, User


class Pattern:
    """A name in which ``*`` stands for any characters, or none. No other character is special.

    Cost: linear in the name for every pattern, so no pattern can block a front end.
    """

    __slots__ = ("_first", "_last", "_least", "_middle", "_one")

    def __init__(self, text: str) -> None:
        first, *middle = text.split("*")
        self._one = first if not middle else None
        self._first = first
        self._last = middle.pop() if middle else ""
        self._middle = tuple(part for part in middle if part)
        self._least = len(first) + len(self._last)

    def fits(self, name: str) -> bool:
        """Whether the name matches."""
        if self._one is not None:
            return name == self._one
        if len(name) < self._least or not name.startswith(self._first) or not name.endswith(self._last):
            return False
        at, end = len(self._first), len(name) - len(self._last)
        for part in self._middle:
            at = name.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True


class CompiledRule(NamedTuple):
    """One rule of a user, for one right."""

    kind: Kind | None  # None: on everything
    pattern: Pattern
    sources: Networks | None  # None: from anywhere
    rule: Rule

    def is_on(self, resource: Resource | None) -> bool:
        """Whether the rule covers this resource; None: everything together."""
        if self.kind is None:
            return True
        return resource is not None and self.kind is resource.kind and self.pattern.fits(resource.name)

    def is_from(self, source: Address | None) -> bool:
        """Whether the rule applies to a request from this address."""
        return self.sources is None or self.sources.has(source)


class UserRules(NamedTuple):
    """The compiled roles and rules of one user."""

    everywhere: frozenset[Right]  # rights on everything from anywhere
    allow: dict[Right, tuple[CompiledRule, ...]]
    deny: dict[Right, tuple[CompiledRule, ...]]
    sources: Networks | None  # None: from anywhere
    binds_topics: bool = False  # a rule limits the topics that the user may register as a broker


def compile_rules(user: User, everybody: frozenset[Right] = frozenset()) -> UserRules:
    """Compile a user's roles and rules; ``everybody``: rights that each user also has.

    Raises:
        ValueError: a network of a rule is no network, or a rule on everything has a pattern.
    """
    everywhere = everybody.union(*(ROLES[role] for role in user.roles))
    allow: dict[Right, list[CompiledRule]] = {}
    deny: dict[Right, list[CompiledRule]] = {}
    for rule in user.rules:
        if rule.kind is None and rule.pattern != "*":
            raise ValueError(f"a rule has the pattern {rule.pattern!r}, and no kind of resource")
        compiled = CompiledRule(
            rule.kind, Pattern(rule.pattern), Networks(rule.sources) if rule.sources else None, rule
        )
        for right in rule.rights:
            (deny if rule.effect is Effect.DENY else allow).setdefault(right, []).append(compiled)
    return UserRules(
        everywhere,
        {right: tuple(rules) for right, rules in allow.items()},
        {right: tuple(rules) for right, rules in deny.items()},
        Networks(user.sources) if user.sources else None,
        any(rule.kind is Kind.TOPIC and Right.REGISTER in rule.rights for rule in user.rules),
    )
