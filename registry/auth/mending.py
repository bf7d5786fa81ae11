"""Finds which refused requests the present rules allow, and which command would allow one. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from ..networks import Networks, canonical_network, parse_address
from . import changes
from .decide import decide
from .decision import Decision, Reason
from .policy import Policy
from .refused import BROKER_ADDR, NEEDS_TLS, NOT_OWNER, RefusedSummary
from .users import ANONYMOUS, Effect, Rule, User


class Mend(NamedTuple):
    """A command that would allow a request, and the same change as a function."""

    command: str = ""  # "": there is none, or none is needed
    change: Callable[[Policy], Policy] | None = None  # None: a person must first complete the command


_NOTHING: Final = Mend()


def user_now(policy: Policy, row: RefusedSummary) -> User | None:
    """The user of such a request under the present rules; networks identify the user of an unsigned request."""
    if row.kind.user == ANONYMOUS:
        return policy.by_source(parse_address(row.last.source))
    return policy.by_access_key(row.kind.user)


def is_allowed_now(policy: Policy, row: RefusedSummary) -> bool:
    """Whether a refused request is allowed now; False: no, or more than the rules decides about it."""
    kind = row.kind
    if kind.right is None or kind.reason in (BROKER_ADDR, NOT_OWNER):
        return False
    user, source = user_now(policy, row), parse_address(row.last.source)
    if kind.reason == NEEDS_TLS and not (user and Networks((*user.networks, *user.sources)).has(source)):
        return False
    return decide(policy, user, kind.right, kind.parsed_resources(), source).allowed


def still_refused(policy: Policy, rows: list[RefusedSummary]) -> list[RefusedSummary]:
    """The refused requests that the present rules still refuse."""
    return [row for row in rows if not is_allowed_now(policy, row)]


def mend_of(policy: Policy, row: RefusedSummary) -> Mend:
    """The command that would allow such a request under the present rules."""
    kind, source = row.kind, row.last.source
    if kind.right is None:
        return _NOTHING
    user = user_now(policy, row)
    if user is not None and kind.reason == NEEDS_TLS:
        return Mend(from_here(user, source), _bind(user, source))
    if user is not None and kind.reason == BROKER_ADDR:
        return Mend(from_here(user, source, "BROKER_ADDRESS"))
    decision = decide(policy, user, kind.right, kind.parsed_resources(), parse_address(source))
    return Mend(decision.mend, _change(decision))


def from_here(user: User, *addresses: str) -> str:
    """The command that allows a user only from these addresses and from its present networks."""
    networks = dict.fromkeys((*user.sources, *(address or "ADDRESS" for address in addresses)))
    return f"mqregistry auth user set {shlex.quote(user.name)}" + "".join(
        f" --from {shlex.quote(network)}" for network in networks
    )


def _change(decision: Decision) -> Callable[[Policy], Policy] | None:
    """The change that the command of a refusal makes; None: no command, or a person must choose a new user's name."""
    name, rule, user, source = decision.user_name, decision.rule, decision.user, str(decision.source or "")
    if not decision.mend:
        return None
    if rule is not None:
        return lambda policy: changes.remove_rules(policy, name, [rule])
    if user is None:
        return None
    if decision.reason is Reason.DISABLED:
        return lambda policy: changes.edit_user(policy, name, lambda one: msgspec.structs.replace(one, enabled=True))
    if decision.reason is Reason.USER_SOURCE:
        return _bind(user, source)
    if decision.reason is Reason.RULE_SOURCE and not source:
        return None
    here = (canonical_network(source),) if decision.reason is Reason.RULE_SOURCE else ()
    of = [Rule(Effect.ALLOW, (decision.right,), one.kind, one.name, here) for one in decision.refused]
    rules = of or [Rule(Effect.ALLOW, (decision.right,), sources=here)]
    return lambda policy: changes.add_rules(policy, name, rules)


def _bind(user: User, source: str) -> Callable[[Policy], Policy] | None:
    """The change that allows a user from one more address; None: ``source`` is no address."""
    if parse_address(source) is None:
        return None
    here = canonical_network(source)

    def bind(one: User) -> User:
        return msgspec.structs.replace(one, sources=tuple(dict.fromkeys((*one.sources, here))))

    return lambda policy: changes.edit_user(policy, user.name, bind)
