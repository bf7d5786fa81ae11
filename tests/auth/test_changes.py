"""Changes of a policy: what each gives, and what is refused."""

from __future__ import annotations

import msgspec
import pytest

from mqregistry.auth import changes
from mqregistry.auth.changes import RefusedChange
from mqregistry.auth.policy import Mode, Policy
from mqregistry.auth.rights import Kind, Right, Role
from mqregistry.auth.users import ANONYMOUS, Effect, Rule, Secret, User

BOSS = User("boss", roles=(Role.ADMIN,), secrets=(Secret("s1", "secret-of-boss"),))
OTHER = User("other", roles=(Role.CLIENT,), secrets=(Secret("s2", "secret-of-other"),), networks=("10.0.0.1/32",))
MODES = [Mode.OBSERVE, Mode.ENFORCE]


def policy(mode=Mode.OBSERVE, *users):
    return Policy(mode, 3, users or (BOSS, OTHER))


def replaced(**fields):
    return lambda user: msgspec.structs.replace(user, **fields)


LOCK_OUTS = {
    "remove": lambda before: changes.remove_user(before, "boss"),
    "disable": lambda before: changes.edit_user(before, "boss", replaced(enabled=False)),
    "demote": lambda before: changes.edit_user(before, "boss", replaced(roles=(Role.OPERATOR,))),
    "drop": lambda before: changes.drop_secret(before, "boss", "s1"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("change", LOCK_OUTS)
def test_the_last_admin_stays(mode, change):
    with pytest.raises(RefusedChange, match=r"would leave no admin.*auth mode off"):
        LOCK_OUTS[change](policy(mode))


@pytest.mark.parametrize("change", LOCK_OUTS)
def test_the_last_but_one_may_go_and_all_while_authentication_is_off(change):
    second = User("second", roles=(Role.ADMIN,), certificates=("CN:second",))
    assert LOCK_OUTS[change](policy(Mode.ENFORCE, BOSS, second)).able_admins() == ["second"]
    assert LOCK_OUTS[change](policy(Mode.OFF)).able_admins() == []


@pytest.mark.parametrize(
    "boss", [User("boss"), User("boss", roles=(Role.ADMIN,)), msgspec.structs.replace(BOSS, enabled=False)]
)
@pytest.mark.parametrize("mode", [Mode.OFF, Mode.OBSERVE])
def test_enforce_needs_an_admin_first(boss, mode):
    with pytest.raises(RefusedChange, match=r"needs an admin first.*user add NAME --role admin"):
        changes.set_mode(policy(mode, boss, OTHER), Mode.ENFORCE)
    assert changes.set_mode(policy(mode), Mode.ENFORCE).mode is Mode.ENFORCE


def test_a_change_leaves_the_policy_that_it_was_made_from():
    before = policy()
    after = changes.add_user(before, User("new"))
    assert "new" not in before.users
    assert {*after.users} == {"boss", "other", "new"}
    assert (after.mode, after.revision) == (Mode.OBSERVE, 3)


@pytest.mark.parametrize(
    ("user", "why"),
    [
        (User("boss"), "there is a user 'boss' already"),
        (User(ANONYMOUS), "can only be denied"),
        (User(""), "is empty"),
        (User("a b"), "has a blank"),
        (User("-x"), "begins with -"),
        (User("a\n"), "control character"),
        (User("x" * 300), "300 bytes"),
        (User("n", networks=("10.0.0.1/32",)), "network 10.0.0.1/32 belongs to user 'other'"),
        (User("n", networks=("10.0.0.1",)), "not in the form"),
        (User("n", sources=("10.0.0.1/8",)), "host bits"),
        (User("n", certificates=("broker-a",)), "expected URI"),
        (User("n", certificates=("DNS:Broker",)), "not in the form"),
        (User("n", secrets=(Secret("a", "short"),)), "7 to 256 printable"),
        (User("n", secrets=(Secret("a", "with blanks"),)), "no blank"),
        (User("n", secrets=(Secret("s2", "longenough"),)), "secret s2 belongs to user 'other'"),
        (User("n", secrets=tuple(Secret(f"x{i}", f"longenough{i}") for i in range(3))), "3 secrets, at most 2"),
        (User("n", rules=(Rule(Effect.ALLOW, (Right.ROUTE,)),) * 501), "501 rules, at most 500"),
        (User("n", rules=(Rule(Effect.ALLOW, ()),)), "names no right"),
        (User("n", rules=(Rule(Effect.ALLOW, (Right.PERM,), Kind.TOPIC, "t"),)),
         r"perm can be on broker:NAME or cluster:NAME or '\*', not on topic"),
        (User("n", rules=(Rule(Effect.ALLOW, (Right.CONFIG_WRITE,), Kind.TOPIC, "t"),)), r"can be on '\*', not on"),
        (User("n", rules=(Rule(Effect.ALLOW, (Right.ROUTE,), None, "t"),)), "no kind"),
        (User("n", rules=(Rule(Effect.ALLOW, (Right.ROUTE,), Kind.TOPIC, ""),)), "is empty"),
    ],
)  # fmt: skip
def test_a_user_that_is_refused(user, why):
    with pytest.raises(RefusedChange, match=why) as caught:
        changes.add_user(policy(), user)
    assert not any(secret.key in str(caught.value) for secret in user.secrets)


def test_two_secrets_at_a_time_and_no_third():
    both = changes.add_secret(policy(), "boss", Secret("s9", "another-secret"))
    assert [secret.id for secret in both.users["boss"].secrets] == ["s1", "s9"]
    with pytest.raises(RefusedChange, match=r"two secrets already \(s1, s9\)"):
        changes.add_secret(both, "boss", Secret("s10", "a-third-secret"))
    with pytest.raises(RefusedChange, match="has this secret already"):
        changes.add_secret(policy(), "boss", Secret("s9", "secret-of-boss"))
    assert [one.id for one in changes.drop_secret(both, "boss", "s1").users["boss"].secrets] == ["s9"]
    with pytest.raises(RefusedChange, match="no secret 's7'; its secrets: s1"):
        changes.drop_secret(policy(), "boss", "s7")


def test_who_is_not_there_cannot_be_changed_and_the_closest_is_named():
    for change in (
        lambda: changes.remove_user(policy(), "bos"),
        lambda: changes.add_secret(policy(), "bos", Secret("x", "longenough")),
        lambda: changes.add_rules(policy(), "bos", []),
        lambda: changes.edit_user(policy(), "bos", lambda user: user),
    ):
        with pytest.raises(RefusedChange, match="no user 'bos'; did you mean 'boss'"):
            change()


ROUTE = Rule(Effect.ALLOW, (Right.ROUTE,), Kind.TOPIC, "t*")


def rules(of, name="other"):
    return [changes.rule_text(rule) for rule in of.users[name].rules]


def test_rights_on_one_resource_are_one_rule():
    after = changes.add_rules(policy(), "other", [ROUTE, msgspec.structs.replace(ROUTE, rights=(Right.TOPIC_WRITE,))])
    after = changes.add_rules(after, "other", [msgspec.structs.replace(ROUTE, sources=("10.0.0.0/8",))])
    after = changes.add_rules(after, "other", [ROUTE, msgspec.structs.replace(ROUTE, effect=Effect.DENY)])
    assert rules(after) == [
        "allow route,topic.write topic:t*", "allow route topic:t* --from 10.0.0.0/8", "deny route topic:t*",
    ]  # fmt: skip
    after = changes.remove_rules(after, "other", [ROUTE])
    assert rules(after)[0] == "allow topic.write topic:t*"
    with pytest.raises(RefusedChange, match=r"no rule 'allow route topic:t\*'; its rules: allow topic.write"):
        changes.remove_rules(after, "other", [ROUTE])
    after = changes.remove_rules(after, "other", after.users["other"].rules)
    assert rules(after) == []


def test_everybody_can_be_denied_a_read_and_nothing_else():
    deny = msgspec.structs.replace(ROUTE, effect=Effect.DENY)
    after = changes.add_rules(policy(), ANONYMOUS, [deny])
    assert rules(after, ANONYMOUS) == ["deny route topic:t*"]
    assert ANONYMOUS not in changes.remove_rules(after, ANONYMOUS, [deny]).users
    with pytest.raises(RefusedChange, match="can only be denied something"):
        changes.add_rules(policy(), ANONYMOUS, [ROUTE])
    with pytest.raises(RefusedChange, match="may not write anyway"):
        changes.add_rules(policy(), ANONYMOUS, [Rule(Effect.DENY, (Right.PERM,))])
    with pytest.raises(RefusedChange, match="can only be denied"):
        changes.edit_user(after, ANONYMOUS, replaced(roles=(Role.ADMIN,)))


@pytest.mark.parametrize(
    ("text", "stored"),
    [("DNS:Broker-A.Example", "DNS:broker-a.example"), ("URI:spiffe://X/y", "URI:spiffe://X/y"), ("CN:A b", "CN:A b")],
)
def test_names_of_certificates(text, stored):
    assert changes.canonical_certificate(text) == stored


@pytest.mark.parametrize("text", ["", "CN:", "cn:x", "EMAIL:x", "CN:a\nb"])
def test_names_that_no_certificate_has(text):
    with pytest.raises(ValueError, match="expected URI"):
        changes.canonical_certificate(text)
