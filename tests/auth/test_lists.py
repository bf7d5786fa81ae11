"""RocketMQ's words and lists of users."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from mqregistry.auth.changes import RefusedChange, add_user, rule_text
from mqregistry.auth.plain_acl import BadFile, read_list
from mqregistry.auth.policy import Policy
from mqregistry.auth.rights import KINDS, Kind, Right, Role
from mqregistry.auth.users import User
from mqregistry.auth.words import parse_resource, parse_rights


def load(text: str) -> Any:
    return yaml.load(text, yaml.BaseLoader)  # every scalar as its text, as `auth import` does


@pytest.mark.parametrize(
    ("words", "resource", "rights"),
    [
        ("route", "topic:t", "route"), ("ROUTE, topic.write", "Topic:t*", "route topic.write"),
        ("Pub,Sub", "Topic:t", "route"), ("Pub", "*", "route"), ("Create", "topic:t", "topic.write"),
        ("all", "broker:b", "register perm"), ("all", "*", " ".join(Right)), ("All", "Topic:t", "route topic.write"),
        ("Get", "Cluster:c", "list"), ("Update", "Cluster:c", "register topic.write"),
        ("Get", "*", "route list kv.read config.read"),
    ],
)  # fmt: skip
def test_words_for_rights(words, resource, rights):
    kind, _ = parse_resource(resource)
    found = parse_rights(words.split(","), kind)
    assert " ".join(found) == rights
    assert kind is None or all(kind in KINDS[right] for right in found)


@pytest.mark.parametrize(("words", "resource"), [("fly", "*"), ("Pub", "broker:b"), ("", "*"), ("Get", "broker:b")])
def test_words_that_are_none(words, resource):
    with pytest.raises(ValueError, match=r"is no right on .*: expected route, list"):
        parse_rights(words.split(","), parse_resource(resource)[0])


@pytest.mark.parametrize("text", ["", "t", "topic:", "group:g", "topic", ":t", "**"])
def test_resources_that_are_none(text):
    with pytest.raises(ValueError, match="expected topic:NAME"):
        parse_resource(text)


PLAIN = """
globalWhiteRemoteAddresses:
  - 10.10.103.*
accounts:
  - accessKey: rocketmq2
    secretKey: 12345678
    admin: true
  - accessKey: RocketMQ
    secretKey: 00123456
    whiteRemoteAddress: 192.168.0.*
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - orders*=SUB
    groupPerms:
      # the group should convert to retry topic
      - groupA=DENY
      - groupB=PUB | SUB
  - accessKey: shop-app
    secretKey: abcdefgh
    whiteRemoteAddress:
    defaultTopicPerm: PUB|SUB
"""


def texts(account):
    return [rule_text(rule) for rule in account.rules]


def test_plain_acl_of_acl_1():
    found = read_list(load(PLAIN))
    admin, some, client = found.accounts
    assert (admin.name, admin.secret, admin.roles) == ("rocketmq2", "12345678", (Role.ADMIN,))
    assert (some.name, some.secret, some.roles) == ("RocketMQ", "00123456", ()), "a secret is a text, also of digits"
    assert texts(some) == [
        "deny route topic:topicA", "allow route topic:topicB", "allow route topic:orders*",
        "deny route topic:%RETRY%groupA", "allow route topic:%RETRY%groupB",
    ]  # fmt: skip
    assert (client.roles, client.rules) == ((Role.CLIENT,), ())
    assert [note.partition(" ")[0] for note in found.notes] == ["globalWhiteRemoteAddresses", "RocketMQ:"]
    assert "12345678" not in repr(found)


WORDS = """
users:
  - {username: boss, password: the-secret, userType: Super}
  - {username: alice, password: another-secret, userType: Normal, userStatus: disable}
  - {username: bob}
acls:
  - subject: User:alice
    policies:
      - policyType: Custom
        entries:
          - {resource: "Topic:order*", actions: [Pub, Sub], sourceIps: [192.168.0.0/24, 10.0.0.1], decision: Allow}
          - {resource: "Topic:order*", actions: [List], decision: Allow}
          - {resource: "Topic:secret", actions: [All], decision: Deny}
          - {resource: "Group:g", actions: [Sub], decision: Allow}
          - {resource: "Namespace:n", actions: [All], decision: Allow}
      - policyType: Default
        entries:
          - {resource: "Topic:*", actions: [All], decision: Deny}
  - subject: User:bob
    policies:
      - entries:
          - {resource: "Cluster:c1", actions: [Update], decision: Allow}
          - {resource: "Cluster:*", actions: [All], decision: Allow}
"""


def test_users_and_acls_in_the_words_of_acl_2():
    found = read_list(load(WORDS))
    boss, alice, bob = found.accounts
    assert (boss.name, boss.secret, boss.enabled, boss.roles) == ("boss", "the-secret", True, (Role.ADMIN,))
    assert (alice.enabled, alice.roles) == (False, ())
    assert texts(alice) == [
        "allow route topic:order* --from 192.168.0.0/24 --from 10.0.0.1/32",
        "deny route,topic.write topic:secret", "allow route topic:%RETRY%g",
    ]  # fmt: skip
    assert bob.secret is None
    assert texts(bob) == [
        "allow register,topic.write cluster:c1", "allow register broker:*",
        "allow route,list,kv.read,kv.write,config.read,register,perm,topic.write *",
    ]  # fmt: skip
    assert [note.split(" ")[1] for note in found.notes] == ["Namespace:n", "Topic:*"]


@pytest.mark.parametrize("text", [PLAIN, WORDS])
def test_what_a_list_says_can_be_stored(text):
    policy = Policy()
    for account in read_list(load(text)).accounts:
        policy = add_user(policy, User(account.name, account.enabled, account.roles, account.rules))
    assert len(policy.users) == 3


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: 1", "neither 'accounts'"), ("- x", "expected a table"), ("accounts: x", "accounts: expected a list"),
        ("accounts: [x]", r"accounts\[0\]: expected a table"), ("", "expected a table"),
        ("{accounts: [], more: 1}", "more: expected only"),
        ("accounts: [{accessKey: a}]", r"accounts\[0\] \(a\): secretKey is missing"),
        ("accounts: [{secretKey: top-secret}]", r"accounts\[0\]: accessKey is missing"),
        ("accounts: [{accessKey: a, secretKey: top-secret, admin: yes!}]", "admin is 'yes!'"),
        ("accounts: [{accessKey: a, secretKey: top-secret, topicPerms: [x]}]", r"topicPerms: 'x', expected NAME="),
        ("accounts: [{accessKey: a, secretKey: top-secret, topicPerms: [x=FLY]}]", "topicPerms.x is 'FLY'"),
        ("accounts: [{accessKey: a, secretKey: top-secret, defaultTopicPerm: FLY}]", "defaultTopicPerm is 'FLY'"),
        ("accounts: [{accessKey: a, secretKey: top-secret, topicPerm: [x=PUB]}]", "unknown topicPerm"),
        ("accounts: [{accessKey: a, secretKey: top-secret}, {accessKey: a, secretKey: top-secret}]", "two users"),
        ("users: [{username: a, userType: God}]", "userType is Super or Normal"),
        ("{users: [], acls: [{subject: 'User:a'}]}", "no user 'a'"),
        ("{users: [], acls: [{subject: 'Role:a'}]}", "expected User:NAME"),
        ("{users: [{username: a}], acls: [{subject: 'User:a', policies: [{entries: [{resource: 'Topic:t', "
         "actions: [Pub], decision: Allow, sourceIp: [10.0.0.1]}]}]}]}", "unknown sourceIp"),
        ("{users: [{username: a}], acls: [{subject: 'User:a', policies: [{entries: [{resource: 'Topic:t', "
         "actions: [Pub], decision: Maybe}]}]}]}", "expected Allow or Deny"),
        ("{users: [{username: a}], acls: [{subject: 'User:a', policies: [{entries: [{resource: 'Topic:t', "
         "actions: [Fly], decision: Allow}]}]}]}", "'Fly' is no right on topic"),
        ("{users: [{username: a}], acls: [{subject: 'User:a', policies: [{entries: [{resource: 'Topic:t', "
         "decision: Allow}]}]}]}", "actions are missing"),
        ("{users: [{username: a}], acls: [{subject: 'User:a', policies: [{entries: [{resource: 'Topic:t', "
         "actions: [Pub], sourceIps: ['10.*'], decision: Allow}]}]}]}", "10"),
    ],
)  # fmt: skip
def test_a_list_that_cannot_be_read_names_the_place(text, why):
    with pytest.raises(BadFile, match=why) as caught:
        read_list(load(text))
    assert "top-secret" not in str(caught.value)


def test_a_name_that_no_user_may_have_is_refused_when_it_is_stored():
    (account,) = read_list(load("accounts: [{accessKey: 'a b', secretKey: top-secret}]")).accounts
    with pytest.raises(RefusedChange, match="has a blank"):
        add_user(Policy(), User(account.name))


def test_kinds_of_acl_2_are_ours():
    assert parse_resource("Cluster:c") == (Kind.CLUSTER, "c")
