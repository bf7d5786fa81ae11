"""The decision on a request: a table of cases, and random policies against a plain model."""

from __future__ import annotations

import fnmatch
import ipaddress
import re
import shlex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mqregistry.auth.compiled import Pattern
from mqregistry.auth.decide import decide
from mqregistry.auth.decision import Reason
from mqregistry.auth.policy import Mode, Policy
from mqregistry.auth.rights import KINDS, READING, ROLES, WRITING, Kind, Resource, Right, Role
from mqregistry.auth.users import ANONYMOUS, Effect, Rule, User
from mqregistry.networks import parse_address

T, C, B, KV = Kind.TOPIC, Kind.CLUSTER, Kind.BROKER, Kind.KV
HERE, THERE = parse_address("10.1.2.3"), parse_address("192.0.2.1")
LAN = ("10.0.0.0/8",)


def allow(right, kind=None, pattern="*", sources=()):
    return Rule(Effect.ALLOW, (right,), kind, pattern, sources)


def deny(right, kind=None, pattern="*", sources=()):
    return Rule(Effect.DENY, (right,), kind, pattern, sources)


USERS = [
    User("client", roles=(Role.CLIENT,)),
    User("broker", roles=(Role.BROKER,), rules=(allow(Right.REGISTER, C, "c1"), allow(Right.REGISTER, B, "broker-a*"))),
    User("operator", roles=(Role.OPERATOR,), rules=(deny(Right.PERM, B, "pay-*"),)),
    User("admin", roles=(Role.ADMIN,)),
    User("at-home", roles=(Role.ADMIN,), sources=LAN),
    User("off", enabled=False, roles=(Role.ADMIN,)),
    User("bare"),
    User("near", rules=(allow(Right.PERM, B, "b", LAN), deny(Right.KV_WRITE, KV, "*", LAN), allow(Right.KV_WRITE))),
    User("no-route", rules=(deny(Right.ROUTE, T, "secret-*"),)),
    User(ANONYMOUS, rules=(deny(Right.ROUTE, T, "pay-*"), deny(Right.LIST))),
]
POLICY = Policy(Mode.ENFORCE, 1, USERS)
OPEN = Policy(Mode.ENFORCE, 1, [user for user in USERS if user.name != ANONYMOUS])


def on(*names):
    return [Resource(Kind(kind), name) for kind, name in (name.split(":") for name in names)]


@pytest.mark.parametrize(
    ("user", "right", "resources", "source", "reason"),
    [
        # everybody reads, nobody unknown writes
        (None, Right.ROUTE, ["topic:t"], HERE, Reason.GRANTED),
        (None, Right.KV_READ, ["kv:n"], None, Reason.GRANTED),
        (None, Right.CONFIG_READ, [], HERE, Reason.GRANTED),
        (None, Right.ROUTE, ["topic:pay-1"], HERE, Reason.DENIED),
        (None, Right.LIST, [], HERE, Reason.DENIED),
        (None, Right.REGISTER, ["cluster:c1", "broker:broker-a"], HERE, Reason.NO_RULE),
        (None, Right.CONFIG_WRITE, [], HERE, Reason.NO_RULE),
        # who is denied as anonymous may do it under his name, if something allows it
        ("client", Right.ROUTE, ["topic:pay-1"], HERE, Reason.GRANTED),
        ("client", Right.LIST, [], HERE, Reason.GRANTED),
        ("bare", Right.ROUTE, ["topic:t"], HERE, Reason.GRANTED),
        ("bare", Right.ROUTE, ["topic:pay-1"], HERE, Reason.NO_RULE),
        ("no-route", Right.ROUTE, ["topic:secret-1"], HERE, Reason.DENIED),
        ("no-route", Right.ROUTE, ["topic:t"], HERE, Reason.GRANTED),
        ("client", Right.TOPIC_WRITE, ["topic:t"], HERE, Reason.NO_RULE),
        # a broker speaks for itself only
        ("broker", Right.REGISTER, ["cluster:c1", "broker:broker-a1"], HERE, Reason.GRANTED),
        ("broker", Right.REGISTER, ["cluster:c2", "broker:broker-a1"], HERE, Reason.NO_RULE),
        ("broker", Right.REGISTER, ["cluster:c1", "broker:broker-b"], HERE, Reason.NO_RULE),
        ("broker", Right.REGISTER, ["broker:xbroker-a"], HERE, Reason.NO_RULE),
        ("broker", Right.REGISTER, [], HERE, Reason.NO_RULE),
        ("broker", Right.PERM, ["broker:broker-a"], HERE, Reason.NO_RULE),
        # a rule that denies wins over a role
        ("operator", Right.PERM, ["broker:broker-a"], HERE, Reason.GRANTED),
        ("operator", Right.PERM, ["broker:pay-1"], HERE, Reason.DENIED),
        ("operator", Right.PERM, ["broker:broker-a", "broker:pay-1"], HERE, Reason.DENIED),
        ("operator", Right.CONFIG_WRITE, [], HERE, Reason.NO_RULE),
        ("operator", Right.REGISTER, ["broker:broker-a"], HERE, Reason.NO_RULE),
        ("admin", Right.CONFIG_WRITE, [], None, Reason.GRANTED),
        ("admin", Right.REGISTER, ["cluster:c", "broker:b"], HERE, Reason.GRANTED),
        # networks restrict
        ("at-home", Right.PERM, ["broker:b"], HERE, Reason.GRANTED),
        ("at-home", Right.PERM, ["broker:b"], THERE, Reason.USER_SOURCE),
        ("at-home", Right.ROUTE, ["topic:t"], None, Reason.USER_SOURCE),
        ("near", Right.PERM, ["broker:b"], HERE, Reason.GRANTED),
        ("near", Right.PERM, ["broker:b"], THERE, Reason.RULE_SOURCE),
        ("near", Right.PERM, ["broker:b"], None, Reason.RULE_SOURCE),
        ("near", Right.PERM, ["broker:b", "broker:c"], THERE, Reason.NO_RULE),
        ("near", Right.KV_WRITE, ["kv:n"], HERE, Reason.DENIED),
        ("near", Right.KV_WRITE, ["kv:n"], THERE, Reason.GRANTED),
        ("near", Right.KV_WRITE, ["kv:n"], None, Reason.DENIED),
        ("off", Right.ROUTE, ["topic:t"], HERE, Reason.DISABLED),
    ],
)
def test_decisions(user, right, resources, source, reason):
    known = None if user is None else POLICY.users[user]
    decision = decide(POLICY, known, right, on(*resources), source)
    assert (decision.allowed, decision.reason) == (reason is Reason.GRANTED, reason), decision.text


@pytest.mark.parametrize("right", sorted(WRITING))
def test_no_policy_lets_anonymous_write(right):
    rules = (allow(right), *(allow(right, kind, "*") for kind in KINDS[right]))
    for policy in (Policy(), Policy(Mode.ENFORCE, 1, [User("a", roles=tuple(Role), rules=rules)])):
        for resources in ([], [Resource(kind, "x") for kind in KINDS[right]]):
            assert not decide(policy, None, right, resources, HERE).allowed


ADDRESSES = ["10.1.2.3", "10.200.0.1", "192.0.2.1", "2001:db8::1"]
NETWORKS = ["10.0.0.0/8", "10.1.2.3/32", "192.0.2.0/24", "2001:db8::/32", "0.0.0.0/0"]
NAMES = ["a", "ab", "aba", "b", "a-b", "%RETRY%a"]
PATTERNS = ["*", "a", "a*", "*b", "a*b", "*a*", "b*b", "%RETRY%*"]
RULES = st.builds(
    Rule, st.sampled_from(Effect), st.lists(st.sampled_from(Right), min_size=1, max_size=3).map(tuple),
    st.sampled_from(Kind), st.sampled_from(PATTERNS), st.lists(st.sampled_from(NETWORKS), max_size=2).map(tuple),
) | st.builds(
    Rule, st.sampled_from(Effect), st.lists(st.sampled_from(Right), min_size=1, max_size=3).map(tuple),
    sources=st.lists(st.sampled_from(NETWORKS), max_size=1).map(tuple),
)  # fmt: skip
READ_DENIED = st.builds(
    Rule, st.just(Effect.DENY), st.lists(st.sampled_from(sorted(READING)), min_size=1, max_size=2).map(tuple),
    st.sampled_from([T, KV, C]), st.sampled_from(PATTERNS), st.lists(st.sampled_from(NETWORKS), max_size=1).map(tuple),
)  # fmt: skip
RESOURCES = st.lists(st.builds(Resource, st.sampled_from(Kind), st.sampled_from(NAMES)), max_size=3)


class Model:
    """The rules as one would read them aloud: no index, no compiled pattern, standard library for the rest."""

    def __init__(self, user, anonymous_rules):
        self.user, self.anonymous_rules = user, anonymous_rules

    @staticmethod
    def within(networks, source):
        return source is not None and any(ipaddress.ip_address(source) in ipaddress.ip_network(n) for n in networks)

    def hits(self, rule, right, resource, source):
        if right not in rule.rights:
            return False
        if rule.sources:
            unknown_denies = rule.effect is Effect.DENY and source is None
            if not unknown_denies and not self.within(rule.sources, source):
                return False
        if rule.kind is None:
            return True
        pattern = "*".join(re.sub(r"([?\[\]])", r"[\1]", part) for part in rule.pattern.split("*"))
        return resource is not None and rule.kind == resource.kind and fnmatch.fnmatchcase(resource.name, pattern)

    def allows(self, right, resources, source):
        user = self.user or User(ANONYMOUS, rules=tuple(self.anonymous_rules))
        wanted = resources or [None]
        if not user.enabled or (user.sources and not self.within(user.sources, source)):
            return False
        if any(rule.effect is Effect.DENY and self.hits(rule, right, one, source)
               for rule in user.rules for one in wanted):  # fmt: skip
            return False
        if any(right in ROLES[role] for role in user.roles):
            return True
        allow = [rule for rule in user.rules if rule.effect is Effect.ALLOW and right in rule.rights]
        left = [one for one in wanted if not any(self.hits(rule, right, one, source) for rule in allow)]
        if right is Right.REGISTER and allow and T not in {rule.kind for rule in allow}:
            left = [one for one in left if one is None or one.kind is not T]
        if not left:
            return True
        return right in READING and not any(
            self.hits(rule, right, one, source) for rule in self.anonymous_rules for one in left
        )


@given(
    st.booleans(), st.lists(RULES, max_size=6), st.lists(st.sampled_from(Role), max_size=2),
    st.lists(st.sampled_from(NETWORKS), max_size=1), st.lists(READ_DENIED, max_size=3), st.sampled_from(Right),
    RESOURCES, st.sampled_from([None, *ADDRESSES]), st.booleans(),
)  # fmt: skip
@example(False, [], [], [], [], Right.REGISTER, [Resource(T, "a")], None, True)
@example(
    True, [Rule(Effect.ALLOW, (Right.REGISTER,), B, "a")], [], [], [], Right.REGISTER, [Resource(T, "a")], None, True
)
def test_decisions_are_those_of_a_plain_model(
    known, rules, roles, sources, anonymous_rules, right, resources, source, enabled
):  # fmt: skip
    user = User("u", enabled, tuple(roles), tuple(rules), sources=tuple(sources)) if known else None
    users = [User(ANONYMOUS, rules=tuple(anonymous_rules))] if anonymous_rules else []
    policy = Policy(Mode.ENFORCE, 1, [*users, *([user] if user else [])])
    decision = decide(policy, user, right, resources, parse_address(source) if source else None)
    assert decision.allowed == Model(user, anonymous_rules).allows(right, resources, source), decision.text
    assert set(decision.refused) <= set(resources)
    assert decision.allowed == (decision.reason is Reason.GRANTED)


@given(st.sampled_from(PATTERNS) | st.text("ab*", max_size=6), st.text("ab", max_size=8))
def test_patterns_fit_as_wildcards_of_the_shell(pattern, name):
    assert Pattern(pattern).fits(name) == fnmatch.fnmatchcase(name, pattern)


def test_nothing_but_the_star_is_special_in_a_pattern():
    assert Pattern("a.[b]?").fits("a.[b]?")
    assert not Pattern("a?").fits("ab")


def test_a_pattern_of_many_stars_takes_no_longer_than_the_name_is():
    assert not Pattern("*a" * 120 + "b").fits("a" * 255)


MENDS = [
    (None, Right.REGISTER, ["cluster:c1", "broker:broker-a"],
     "user add broker-a --role broker --cluster c1 --broker broker-a --network 192.0.2.1"),
    (None, Right.TOPIC_WRITE, ["topic:t"], "user add NAME --role operator"),
    (None, Right.CONFIG_WRITE, [], "user add NAME --role admin"),
    (None, Right.ROUTE, ["topic:pay-1"], "deny anonymous route 'topic:pay-*' --remove"),
    ("client", Right.TOPIC_WRITE, ["topic:t"], "allow client topic.write topic:t"),
    ("operator", Right.CONFIG_WRITE, [], "allow operator config.write '*'"),
    ("operator", Right.PERM, ["broker:pay-1"], "deny operator perm 'broker:pay-*' --remove"),
    ("broker", Right.REGISTER, ["cluster:c2", "broker:b"], "allow broker register cluster:c2 broker:b"),
    ("broker", Right.REGISTER, ["cluster:c1", "broker:b"], "allow broker register broker:b"),
    ("near", Right.PERM, ["broker:b"], "allow near perm broker:b --from 192.0.2.1"),
    ("at-home", Right.PERM, ["broker:b"], "user set at-home --from 10.0.0.0/8 --from 192.0.2.1"),
    ("off", Right.PERM, ["broker:b"], "user enable off"),
]  # fmt: skip


@pytest.mark.parametrize(("user", "right", "resources", "mend"), MENDS)
def test_what_mends_a_refusal(user, right, resources, mend):
    known = None if user is None else POLICY.users[user]
    decision = decide(POLICY, known, right, on(*resources), THERE)
    assert decision.mend == f"mqregistry auth {mend}"


def test_what_is_allowed_needs_no_mend():
    assert decide(POLICY, POLICY.users["admin"], Right.PERM, on("broker:b"), HERE).mend == ""


def test_a_name_with_a_star_is_proposed_to_nobody():
    """The operator who copies the command would allow everything."""
    assert decide(POLICY, POLICY.users["client"], Right.TOPIC_WRITE, on("topic:*"), HERE).mend == ""


@pytest.mark.parametrize("name", ["a; rm -rf ~", "$(reboot)", "'; reboot #", "a b", "`id`", "a\nreboot"])
def test_a_name_from_a_peer_is_one_word_of_the_command(name):
    decision = decide(OPEN, OPEN.users["client"], Right.TOPIC_WRITE, [Resource(T, name)], HERE)
    assert shlex.split(decision.mend)[-1] == f"topic:{name}"
    decision = decide(OPEN, None, Right.REGISTER, [Resource(B, name)], HERE)
    words = shlex.split(decision.mend)
    assert words.count(name) == 2
    assert len(words) == 11


def test_a_broker_whose_name_would_be_an_option_is_proposed_to_nobody():
    assert decide(OPEN, None, Right.REGISTER, on("broker:--role"), HERE).mend == ""


def test_a_refusal_tells_user_right_resource_address_and_what_is_missing():
    decision = decide(POLICY, POLICY.users["broker"], Right.REGISTER, on("cluster:c1", "broker:b"), THERE)
    assert decision.text == "user broker has no right register on broker:b from 192.0.2.1: no rule allows it"
    decision = decide(POLICY, None, Right.CONFIG_WRITE, [], None)
    assert decision.text == (
        "nobody known (anonymous) has no right config.write on * from an unknown address: no rule allows it"
    )
