"""Decides whether a user may do what a request asks for."""

from __future__ import annotations

from collections.abc import Sequence

from ..networks import Address
from .compiled import UserRules
from .decision import Decision, Reason
from .policy import Policy
from .rights import READING, Kind, Need, Resource, Right
from .users import Rule, User


def decide(
    policy: Policy, user: User | None, right: Right, resources: Sequence[Resource], source: Address | None
) -> Decision:
    """The decision of the rules on a request, in any mode.

    A rule that denies wins. Else a role or a rule must allow each resource; a user who may register, and has no rule on
    topics, may register all topics. A read that no rule allows is still allowed, unless a rule denies it to anonymous.

    Args:
        user: the user that the request proved; None: anonymous.
        resources: the resources of the request; empty: everything, which only rules on everything allow.
        source: the address of the sender; None: unknown. Then a rule with networks never allows, and always denies.

    Cost: 0.7 microseconds if a role or a read decides, 5.5 with two rules on two resources; linear in the rules.
    """
    known = policy.anonymous if user is None else user
    if not known.enabled:
        return Decision(False, Reason.DISABLED, right, user, tuple(resources), None, source)
    rules = policy.rules_of(known)
    if rules.sources is not None and not rules.sources.has(source):
        return Decision(False, Reason.USER_SOURCE, right, user, tuple(resources), None, source)
    if rules.deny:
        denied = _denied(rules, right, resources, source)
        if denied is not None:
            return Decision(False, Reason.DENIED, right, user, denied[0], denied[1], source)
    if right in rules.everywhere:
        return Decision(True, Reason.GRANTED, right, user)
    reason, refused = _not_allowed(rules, right, resources, source)
    if reason is Reason.GRANTED or (
        right in READING and _denied(policy.rules_of(policy.anonymous), right, refused, source) is None
    ):
        return Decision(True, Reason.GRANTED, right, user)
    return Decision(False, reason, right, user, refused, None, source)


def decide_any(policy: Policy, user: User | None, needs: Sequence[Need], source: Address | None) -> Decision:
    """The decision on a request for which one of several rights is enough; a rule that denies any of them wins.

    Args:
        needs: at least one; a refusal names the first. For the other arguments see :func:`decide`.
    """
    decisions = [decide(policy, user, need.right, need.resources, source) for need in needs]
    if len(decisions) > 1:
        for decision in decisions:
            if decision.reason is Reason.DENIED:
                return decision
        for decision in decisions:
            if decision.allowed:
                return decision
    return decisions[0]


def _denied(
    rules: UserRules, right: Right, resources: Sequence[Resource], source: Address | None
) -> tuple[tuple[Resource, ...], Rule] | None:
    """The first resource that a rule denies (empty: everything), with the rule; None: no rule denies a resource."""
    for rule in rules.deny.get(right, ()):
        if source is None or rule.is_from(source):
            for resource in resources or (None,):
                if rule.is_on(resource):
                    return (() if resource is None else (resource,)), rule.rule
    return None


def _not_allowed(
    rules: UserRules, right: Right, resources: Sequence[Resource], source: Address | None
) -> tuple[Reason, tuple[Resource, ...]]:
    """The resources that no rule allows. RULE_SOURCE: rules allow them from other addresses. GRANTED: no resource."""
    allow = rules.allow.get(right, ())
    elsewhere, refused = True, []
    all_topics = right is Right.REGISTER and allow and all(rule.kind is not Kind.TOPIC for rule in allow)
    for resource in resources or (None,):
        if all_topics and resource is not None and resource.kind is Kind.TOPIC:
            continue
        on = [rule for rule in allow if rule.is_on(resource)]
        if not any(rule.is_from(source) for rule in on):
            refused.append(resource)
            elsewhere = elsewhere and bool(on)
    if not refused:
        return Reason.GRANTED, ()
    reason = Reason.RULE_SOURCE if elsewhere else Reason.NO_RULE
    return reason, tuple(resource for resource in refused if resource is not None)
