"""Random changes of users through two stores at once, one of which may know an older policy, against a plain dict."""

from __future__ import annotations

import asyncio
import secrets

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from mqregistry.auth import changes
from mqregistry.auth.changes import RefusedChange
from mqregistry.auth.policy import Mode
from mqregistry.auth.rights import Kind, Right, Role
from mqregistry.auth.users import Effect, Rule, Secret, User
from mqregistry.store import keys
from mqregistry.store.auth.policies import PolicyStore
from mqregistry.store.auth.refusals import read_last_use
from mqregistry.store.store import Store

NAMES = st.sampled_from(["a", "b", "c"])
IDS = st.sampled_from([f"id-{i}" for i in range(5)])
CERTIFICATES = st.sampled_from(["CN:1", "CN:2"])
RULES = st.builds(
    Rule, st.sampled_from(Effect), st.lists(st.sampled_from([Right.PERM, Right.REGISTER]), min_size=1, unique=True).map(
        lambda rights: tuple(right for right in Right if right in rights)
    ), st.just(Kind.BROKER), st.sampled_from(["x", "y*"]),
)  # fmt: skip


class PolicyMachine(RuleBasedStateMachine):
    """The model: name -> what a user has, and the mode. Whether a change may be made is said once more, plainly."""

    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.store = Store(self.url, f"t{secrets.token_hex(6)}")
        self.policies = PolicyStore(self.store)
        self.run(self.store.connect())
        self.users: dict[str, dict] = {}
        self.mode = "observe"
        self.used: set[str] = set()
        self.revision = 1
        self.kept = None

    def run(self, work):
        return self.runner.run(work)

    def teardown(self) -> None:
        self.run(self.store.close())
        self.runner.close()

    def able(self, users):
        return [u for u in users.values() if u["enabled"] and u["admin"] and (u["secrets"] or u["certificates"])]

    def change(self, make, users=None, mode=None, *, possible=True) -> None:
        """Make a change here and there; it succeeds exactly if it may."""
        users = self.users if users is None else users
        mode = mode or self.mode
        owners = [one for u in users.values() for one in (*u["certificates"], *u["secrets"])]
        may = possible and len(owners) == len(set(owners)) and all(len(u["secrets"]) <= 2 for u in users.values())
        may = may and not (mode == "enforce" and not self.able(users))
        may = may and not (mode == self.mode == "observe" and self.able(self.users) and not self.able(users))
        if not may:
            with pytest.raises(RefusedChange):
                self.run(self.policies.change(make))
            return
        differs = (users, mode) != (self.users, self.mode)
        revision = self.run(self.policies.change(make)).revision
        assert (revision > self.revision) == differs
        self.users, self.mode, self.revision = users, mode, revision
        self.used &= {one for u in users.values() for one in u["secrets"]}

    def with_user(self, name, **fields):
        return self.users | {name: self.users[name] | fields} if name in self.users else self.users

    @rule(name=NAMES, admin=st.booleans(), certificates=st.sets(CERTIFICATES, max_size=1))
    def add(self, name, admin, certificates):
        user = User(name, roles=(Role.ADMIN,) if admin else (), certificates=tuple(sorted(certificates)))
        made = {"enabled": True, "admin": admin, "certificates": certificates, "secrets": (), "rules": {}}
        self.change(lambda policy: changes.add_user(policy, user), self.users | {name: made},
                    possible=name not in self.users)  # fmt: skip

    @rule(name=NAMES)
    def remove(self, name):
        left = {other: user for other, user in self.users.items() if other != name}
        self.change(lambda policy: changes.remove_user(policy, name), left, possible=name in self.users)

    @rule(name=NAMES, enabled=st.booleans())
    def enable(self, name, enabled):
        self.change(
            lambda policy: changes.edit_user(policy, name, lambda user: msgspec.structs.replace(user, enabled=enabled)),
            self.with_user(name, enabled=enabled), possible=name in self.users,
        )  # fmt: skip

    @rule(name=NAMES, secret_id=IDS)
    def add_secret(self, name, secret_id):
        before = self.users[name]["secrets"] if name in self.users else ()
        self.change(
            lambda policy: changes.add_secret(policy, name, Secret(secret_id, f"key-of-{secret_id}")),
            self.with_user(name, secrets=(*before, secret_id)), possible=name in self.users,
        )  # fmt: skip

    @rule(name=NAMES, secret_id=IDS)
    def drop_secret(self, name, secret_id):
        before = self.users[name]["secrets"] if name in self.users else ()
        self.change(
            lambda policy: changes.drop_secret(policy, name, secret_id),
            self.with_user(name, secrets=tuple(one for one in before if one != secret_id)),
            possible=secret_id in before,
        )

    @rule(name=NAMES, one=RULES)
    def add_rule(self, name, one):
        place = (one.effect, one.pattern)
        rules = self.users[name]["rules"] if name in self.users else {}
        self.change(
            lambda policy: changes.add_rules(policy, name, [one]),
            self.with_user(name, rules=rules | {place: rules.get(place, frozenset()) | {*one.rights}}),
            possible=name in self.users,
        )

    @rule(name=NAMES, one=RULES)
    def remove_rule(self, name, one):
        place = (one.effect, one.pattern)
        rules = self.users[name]["rules"] if name in self.users else {}
        there = rules.get(place, frozenset()) & {*one.rights}
        left = {at: rights - there if at == place else rights for at, rights in rules.items()}
        self.change(
            lambda policy: changes.remove_rules(policy, name, [one]),
            self.with_user(name, rules={at: rights for at, rights in left.items() if rights}), possible=bool(there),
        )  # fmt: skip

    @rule(mode=st.sampled_from(["off", "observe", "enforce"]))
    def set_mode(self, mode):
        self.change(lambda policy: changes.set_mode(policy, Mode(mode)), mode=mode)

    @rule(name=NAMES, secret_id=IDS)
    def use(self, name, secret_id):
        self.run(self.policies.note_used([(name, secret_id)]))
        if name in self.users and secret_id in self.users[name]["secrets"]:
            self.used.add(secret_id)

    @rule()
    def remember(self):
        """As a front end does."""
        self.kept = self.run(self.policies.read()), self.users, self.mode, self.revision

    @precondition(lambda self: self.kept)
    @rule(lose=st.booleans())
    def give_back(self, lose):
        """A front end gives its policy back, and Redis has lost its own or has a newer one."""
        policy, users, mode, revision = self.kept
        if lose:
            namespace = self.store.namespace
            self.run(self.store.client.delete(
                keys.auth_policy(namespace), keys.auth_users(namespace), keys.auth_used(namespace)))  # fmt: skip
        assert self.run(self.policies.restore(policy)) == (revision if lose else self.revision)
        if lose:
            self.users, self.mode, self.revision, self.used = users, mode, revision, set()

    @invariant()
    def redis_holds_what_the_model_says(self):
        policy = self.run(self.policies.read())
        assert (policy.mode, policy.revision) == (self.mode, self.revision)
        assert {name: self.of(user) for name, user in policy.users.items()} == self.users
        assert {*self.run(read_last_use(self.store))} == self.used
        meta = self.run(self.store.client.hgetall(keys.meta(self.store.namespace)))
        assert int(meta[b"auth_revision"]) == self.revision
        assert meta[b"auth_mode"].decode() == self.mode

    @staticmethod
    def of(user):
        return {
            "enabled": user.enabled, "admin": user.roles == (Role.ADMIN,), "certificates": {*user.certificates},
            "secrets": tuple(secret.id for secret in user.secrets),
            "rules": {(rule.effect, rule.pattern): frozenset(rule.rights) for rule in user.rules},
        }  # fmt: skip


@pytest.mark.timeout(0)
def test_policies_behave_as_the_model(redis_url):
    run_state_machine_as_test(type("PolicyMachine", (PolicyMachine,), {"url": redis_url}))
