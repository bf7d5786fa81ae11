"""A policy: who somebody is, how users are stored, and that no secret is shown."""

from __future__ import annotations

import msgspec
import pytest

from mqregistry.auth.policy import Mode, Policy
from mqregistry.auth.rights import Kind, Right, Role
from mqregistry.auth.users import ANONYMOUS, BadPolicy, Effect, Rule, Secret, User, decode_user, encode_user
from mqregistry.networks import parse_address

WHOLE = User(
    "broker-a", True, (Role.BROKER,),
    (Rule(Effect.ALLOW, (Right.REGISTER,), Kind.BROKER, "broker-a", ("10.0.0.0/8",)),),
    (Secret("id1", "key-of-one", 5), Secret("id2", "key-of-two", 6)), ("DNS:broker-a.example", "CN:broker-a"),
    ("10.1.2.3/32",), ("10.0.0.0/8",),
)  # fmt: skip


def decoded(*users, mode="enforce"):
    return Policy.decode(mode, 7, {user.name: encode_user(user) for user in users}, {}, -1)


@pytest.mark.parametrize("user", [WHOLE, User("plain"), User(ANONYMOUS, rules=(Rule(Effect.DENY, (Right.LIST,)),))])
def test_a_user_is_read_as_it_was_stored(user):
    policy = decoded(user)
    assert (policy.mode, policy.revision, dict(policy.users)) == (Mode.ENFORCE, 7, {user.name: user})


def test_what_redis_holds_of_a_user():
    assert msgspec.json.decode(encode_user(WHOLE)) == {
        "name": "broker-a",
        "roles": ["broker"],
        "rules": [{"effect": "allow", "rights": ["register"], "kind": "broker", "pattern": "broker-a",
                   "from": ["10.0.0.0/8"]}],
        "secrets": [{"id": "id1", "key": "key-of-one", "created_ms": 5},
                    {"id": "id2", "key": "key-of-two", "created_ms": 6}],
        "certificates": ["DNS:broker-a.example", "CN:broker-a"],
        "networks": ["10.1.2.3/32"],
        "from": ["10.0.0.0/8"],
    }  # fmt: skip


def test_an_access_key_is_the_name_of_one_user():
    policy = decoded(WHOLE, User(ANONYMOUS, rules=(Rule(Effect.DENY, (Right.LIST,)),)))
    assert policy.by_access_key("broker-a") == WHOLE
    assert policy.by_access_key("broker-") is None
    assert policy.by_access_key("") is None
    assert policy.by_access_key(ANONYMOUS) is None, "nobody can sign as everybody"


def test_the_first_name_of_a_certificate_that_anybody_has_counts():
    other = User("other", certificates=("CN:other", "URI:spiffe://x/other"))
    policy = decoded(WHOLE, other)
    assert policy.by_certificate(["URI:spiffe://x/none", "DNS:broker-a.example", "CN:other"]) == WHOLE
    assert policy.by_certificate(["URI:spiffe://x/other", "DNS:broker-a.example"]) == other
    assert policy.by_certificate(["broker-a", "DNS:broker-a"]) is None, "a name counts as the kind that it is"
    assert policy.by_certificate([]) is None


@pytest.mark.parametrize(
    ("address", "name"),
    [("10.1.2.3", "one"), ("10.1.9.9", "some"), ("10.9.9.9", "many"), ("::ffff:10.1.2.3", "one"), ("11.0.0.1", None),
     ("2001:db8::1", "six"), ("2001:db9::1", None), ("nonsense", None)],
)  # fmt: skip
def test_the_smallest_network_says_who_somebody_is(address, name):
    policy = decoded(
        User("many", networks=("10.0.0.0/8",)), User("one", networks=("10.1.2.3/32",)),
        User("some", networks=("10.1.0.0/16", "192.0.2.0/24")), User("six", networks=("2001:db8::/32",)),
    )  # fmt: skip
    found = policy.by_source(parse_address(address))
    assert (None if found is None else found.name) == name


def test_no_text_of_a_policy_contains_a_secret():
    policy = decoded(WHOLE)
    for value in (WHOLE, WHOLE.secrets, policy.users, [WHOLE], {"user": WHOLE}):
        for text in (repr(value), str(value), f"{value}"):
            assert "key-of" not in text
            assert "id1" in text
    assert "key-of" not in repr(policy)


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        (b'{"name":"a","until":5}', "unknown field `until`"),
        (b'{"name":"a","rules":[{"effect":"allow","rights":["register"],"at_night":true}]}', "at_night"),
        (b'{"name":"a","rules":[{"effect":"allow","rights":["fly"]}]}', "fly"),
        (b'{"name":"b"}', "under another name"),
        (b'{"name":"a","rules":[{"effect":"allow","rights":["route"],"pattern":"x"}]}', "no kind of resource"),
        (b'{"name":"a","rules":[{"effect":"allow","rights":["route"],"from":["10.0.0.1/8"]}]}', "host bits"),
        (b'{"name":"a","networks":["x"]}', "x"),
        (b"rubbish", "malformed"),
        (b'{"name":"\xff"}', "can't decode byte 0xff"),
        (b'{"name":"a","secrets":[{"id":"1","key":"key-of-one","x":1}]}', "unknown field `x`"),
    ],
)
def test_what_cannot_be_read_is_an_error_and_not_guessed(stored, why):
    with pytest.raises(BadPolicy, match=why) as caught:
        Policy.decode("enforce", 1, {"a": stored}, {}, -1)
    assert "key-of" not in str(caught.value)


@pytest.mark.parametrize(
    "user",
    [User(ANONYMOUS, roles=(Role.ADMIN,)), User(ANONYMOUS, rules=(Rule(Effect.ALLOW, (Right.PERM,)),)),
     User(ANONYMOUS, secrets=(Secret("i", "kkkkkkkk"),)), User(ANONYMOUS, networks=("0.0.0.0/0",))],
)  # fmt: skip
def test_nobody_can_be_given_a_right_under_the_name_of_everybody(user):
    with pytest.raises(BadPolicy, match="nobody can be given a right"):
        decoded(user)


def test_a_mode_of_a_later_release_is_an_error():
    with pytest.raises(BadPolicy, match="mode 'strict'"):
        Policy.decode("strict", 1, {}, {}, -1)


@pytest.mark.parametrize(
    ("user", "able"),
    [
        (User("a", roles=(Role.ADMIN,), secrets=(Secret("i", "k"),)), True),
        (User("a", roles=(Role.ADMIN,), certificates=("CN:a",)), True),
        (User("a", roles=(Role.ADMIN,), networks=("10.0.0.1/32",)), True),
        (User("a", roles=(Role.ADMIN,)), False),
        (User("a", False, (Role.ADMIN,), secrets=(Secret("i", "k"),)), False),
        (User("a", roles=(Role.OPERATOR,), secrets=(Secret("i", "k"),)), False),
    ],
)
def test_an_admin_must_be_able_to_show_who_he_is(user, able):
    assert Policy(users=[user]).able_admins() == (["a"] if able else [])


def test_a_decoder_by_itself_refuses_another_name():
    assert decode_user("broker-a", encode_user(WHOLE)) == WHOLE


def test_a_user_of_the_policy_before_gives_no_rights_to_his_namesake():
    """A request that began under the policy before may be decided by this one, and still holds the user of then."""
    before, now = User("a", roles=(Role.ADMIN,)), User("a", roles=(Role.CLIENT,))
    policy = Policy(users=[now])
    assert policy.rules_of(before).everywhere > policy.rules_of(now).everywhere
    assert policy.rules_of(now).everywhere == Policy(users=[now]).rules_of(now).everywhere
