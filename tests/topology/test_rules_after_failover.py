"""Sentinel makes a replica master that has missed the last rule changes: nobody gets in, and nobody is locked out."""

from __future__ import annotations

import msgspec
import pytest

from mqregistry.auth import changes
from mqregistry.auth.policy import Mode
from mqregistry.auth.rights import Role

from ..server.auth_bed import Caller, Rules, in_force, user
from ..server.harness import Client, wait_until
from ..server.test_rules_in_force import Asking, SignedBeating, brokers_of, evict, going_on, users_of
from .servers import REPLICATOR, sentinel_setup

# What front ends log in as. It is switched off on the replica, so that an operator is there before they are.
LOGIN = "user front_end on >pass ~* &* +@all"
LIFE_MS = 10_000


@pytest.fixture
def sentinel(folder):
    with sentinel_setup(folder, node_options=[*REPLICATOR, LOGIN]) as setup:
        yield setup


def put_kv(client: Client):
    return client.request(100, {"namespace": "N", "key": "k", "value": "v"})


def disabled(one):
    return msgspec.structs.replace(one, enabled=False)


def add_user(name):
    return lambda policy: changes.add_user(policy, user(name, Role.OPERATOR))


def test_changes_of_rules_that_a_failover_lost_are_in_force_all_the_time(sentinel, front_end_with, own_namespace):
    """Lost are 'enforce', that mallory is disabled, and a new user; an operator adds another before anybody notices."""
    url = sentinel.url.replace("://", "://front_end:pass@")
    brokers = brokers_of(2)
    rules = Rules(sentinel.url, own_namespace)
    rules.begin("observe", *users_of(brokers), user("mallory", Role.OPERATOR))
    settings = {"broker_channel_expired_time_ms": LIFE_MS, "redis_timeout_ms": 2000}
    front_ends = [front_end_with(url, **settings) for _ in range(2)]
    fleet = [SignedBeating(f"user-{b.name}", b, [f.port for f in front_ends], period_s=0.2) for b in brokers]
    old, new = sentinel.master, sentinel.replica
    for member in fleet:
        wait_until(lambda m=member: m.welcome, "every broker is registered")
    wait_until(sentinel.caught_up, "the replica has it all")
    new.call("ACL", "SETUSER", "front_end", "off")
    sentinel.part()
    known = rules.change(
        add_user("late"),
        lambda policy: changes.edit_user(policy, "mallory", disabled),
        lambda policy: changes.set_mode(policy, Mode.ENFORCE),
    )
    for front_end in front_ends:
        in_force(front_end, known)
    wrong = [
        Asking(front_ends, evict(brokers[0])),
        Asking(front_ends, put_kv, access_key="mallory"),
        Asking(front_ends, evict(brokers[0]), access_key="user-broker-1"),
    ]
    right = Asking(front_ends, put_kv, access_key="late")
    with going_on(*fleet, *wrong, right):
        wait_until(lambda: right.codes[0] > 4, "the new user works")
        old.kill()
        sentinel.wait_for_failover(new)
        operator = Rules(new.url, own_namespace)
        lost = operator.read()
        assert (lost.mode, "late" in lost.users, lost.users["mallory"].enabled) == (Mode.OBSERVE, False, True)
        after = operator.change(add_user("after"))
        assert after.revision > known.revision, "front ends hear of a higher revision than theirs"
        new.call("ACL", "SETUSER", "front_end", "on")
        wait_until(lambda: operator.read().mode is Mode.ENFORCE, "what was lost is given back")
        found = operator.read()
        for front_end in front_ends:
            in_force(front_end, found)
            with Caller(front_end.port, "after") as client:
                codes = []  # 1: the view still reads what the new master has
                wait_until(lambda c=client, codes=codes: codes.append(put_kv(c).code) or codes[-1] == 0, "it may write")
                assert set(codes) <= {0, 1}
        for one in (*wrong, right):
            tries = one.codes.total()
            wait_until(lambda o=one, tries=tries: o.codes.total() > tries + 20, "it goes on trying")
        for member in fleet:
            beats = member.answers[0]
            wait_until(lambda m=member, beats=beats: m.answers[0] > beats + 4, "brokers go on")
        taken = right.codes[0]
        wait_until(lambda: right.codes[0] > taken + 4, "the new user works again")
    assert found.users == known.users | {"after": after.users["after"]}
    said = "lost the last changes of the rules"
    assert any(f"{said} (revision {after.revision}, was {known.revision})" in one.log for one in front_ends)
    assert any("gets them back: users late, mallory, the mode" in one.log for one in front_ends)
    closed = "AssertionError"  # no answer: with each new policy the connections of disabled users are closed
    for one in wrong:
        assert set(one.codes) <= {16, closed}, one.remarks[:3]
    assert set(right.codes) <= {0, 1}, right.remarks[-3:]
    for member in fleet:
        assert member.answers[16] == 0, member.answers
