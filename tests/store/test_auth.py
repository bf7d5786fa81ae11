"""Users, rules and secrets in Redis: change_auth, restore_auth, read_auth, note_auth_used, note_refused."""

from __future__ import annotations

import asyncio
import re

import msgspec
import pytest

from mqregistry.auth import changes
from mqregistry.auth.changes import RefusedChange
from mqregistry.auth.decide import decide
from mqregistry.auth.policy import Mode, Policy
from mqregistry.auth.refused import Last, RefusedKind
from mqregistry.auth.rights import Kind, Resource, Right, Role
from mqregistry.auth.users import BadPolicy, Effect, Rule, Secret, User
from mqregistry.errors import StoreError
from mqregistry.events.changes import AuthChanged
from mqregistry.store import keys
from mqregistry.store.auth.policies import PolicyStore, new_secret
from mqregistry.store.auth.refusals import RefusalStore, read_last_use
from mqregistry.store.store import Store

SECRET = "the-secret-of-boss"
BOSS = User("boss", roles=(Role.ADMIN,), secrets=(Secret("id-1", SECRET, 5),))
DENY = Rule(Effect.DENY, (Right.PERM,), Kind.BROKER, "pay-*")


@pytest.fixture
def policies(store):
    return PolicyStore(store)


@pytest.fixture
def refusals(store):
    return RefusalStore(store)


def add(*users):
    def change(policy):
        for user in users:
            policy = changes.add_user(policy, user)
        return policy

    return change


def mode(value):
    return lambda policy: changes.set_mode(policy, value)


READS = {
    "hash": "HGETALL KEY", "set": "SMEMBERS KEY", "string": "GET KEY", "stream": "XRANGE KEY - +",
    "zset": "ZRANGE KEY 0 -1", "list": "LRANGE KEY 0 -1",
}  # fmt: skip


async def raw(bed):
    """All that Redis holds of the namespace, but for users: every text in it."""
    client, found = bed.store.client, []
    for key in await client.keys(f"*{{{bed.store.namespace}}}*"):
        if key.decode() == keys.auth_users(bed.store.namespace):
            continue
        kind = (await client.type(key)).decode()
        found.append((key, await bed.redis(*READS[kind].replace("KEY", key.decode()).split(" "))))
    return repr(found)


async def test_a_new_namespace_observes_and_an_old_one_is_off(bed, policies):
    policy = await policies.read()
    assert (policy.mode, policy.revision, policy.users) == (Mode.OBSERVE, 1, {})
    assert (await bed.leases.renew("w1")).auth_revision == 1
    await bed.redis("DEL", keys.auth_policy(bed.store.namespace))
    await bed.redis("HDEL", bed.key("meta"), "auth_revision")
    await bed.store.init_namespace()
    policy = await policies.read()
    assert (policy.mode, policy.revision) == (Mode.OFF, 0)
    assert (await bed.leases.renew("w1")).auth_revision == 0


async def test_a_change_is_stored_told_and_has_a_higher_revision(bed, policies):
    before = await bed.now_ms()
    first = await policies.change(add(BOSS))
    second = await policies.change(lambda policy: changes.add_rules(policy, "boss", [DENY]))
    assert before <= first.revision < second.revision
    found = await policies.read()
    assert (found.mode, found.revision, dict(found.users)) == (Mode.OBSERVE, second.revision, dict(second.users))
    assert found.users["boss"].rules == (DENY,)
    assert (await bed.leases.renew("w1")).auth_revision == second.revision
    events = await bed.events()
    assert [(type(event), event.revision, event.ignorable) for event in events] == [
        (AuthChanged, first.revision, True), (AuthChanged, second.revision, True),
    ]  # fmt: skip
    assert await bed.replay() == await bed.contents()


async def test_a_change_that_changes_nothing_is_not_told(bed, policies):
    made = await policies.change(add(BOSS))
    await bed.events()
    assert (await policies.change(lambda policy: policy)).revision == made.revision
    assert (await policies.change(mode(Mode.OBSERVE))).revision == made.revision
    assert await bed.events() == []


async def test_a_refused_change_changes_nothing(bed, policies):
    await policies.change(add(BOSS))
    before = await bed.dump()
    with pytest.raises(RefusedChange, match="no admin"):
        await policies.change(lambda policy: changes.remove_user(policy, "boss"))
    assert await bed.dump() == before


async def test_two_admins_cannot_remove_each_other_at_once(bed, policies):
    """Each is checked against what the other has done."""
    await policies.change(add(BOSS, User("second", roles=(Role.ADMIN,), certificates=("CN:x",))))
    both_have_read, waiting = asyncio.Event(), 0

    async def remove(name):
        async with Store(bed.store.url, bed.store.namespace) as store:
            own = PolicyStore(store)
            read = own.read

            async def read_together():
                nonlocal waiting
                policy = await read()
                waiting += 1
                if waiting == 2:
                    both_have_read.set()
                await both_have_read.wait()
                return policy

            own.read = read_together
            await own.change(lambda policy: changes.remove_user(policy, name))

    done = await asyncio.gather(remove("boss"), remove("second"), return_exceptions=True)
    assert sorted(type(one).__name__ for one in done) == ["NoneType", "RefusedChange"]
    assert len((await policies.read()).able_admins()) == 1


async def test_many_changes_at_once_are_all_made(bed, policies):
    async def one(name):
        async with Store(bed.store.url, bed.store.namespace) as store:
            await PolicyStore(store).change(add(User(name)))

    await asyncio.gather(*(one(f"u{i}") for i in range(8)))
    assert {*(await policies.read()).users} == {f"u{i}" for i in range(8)}
    revisions = [event.revision for event in await bed.events()]
    assert revisions == sorted(set(revisions))
    assert len(revisions) == 8


async def test_who_may_not_read_the_rules_sees_whether_they_are_enforced(bed, policies):
    assert not await PolicyStore(bed.store).is_enforced()
    await policies.change(add(BOSS))
    await policies.change(mode(Mode.ENFORCE))
    assert await PolicyStore(bed.store).is_enforced()
    await policies.change(mode(Mode.OBSERVE))
    assert not await PolicyStore(bed.store).is_enforced()


async def test_the_minor_of_a_later_release_is_noted_also_in_enforce(bed, policies, monkeypatch):
    await policies.change(add(BOSS))
    await policies.change(mode(Mode.ENFORCE))
    monkeypatch.setattr("mqregistry.store.store.SCHEMA_MINOR", 9)
    assert (await bed.store.init_namespace()).schema_minor == 9


# losses


async def test_a_lost_policy_is_given_back_once(bed, policies):
    await policies.change(add(BOSS))
    known = await policies.change(mode(Mode.ENFORCE))
    await bed.redis("DEL", keys.auth_policy(bed.store.namespace), keys.auth_users(bed.store.namespace), bed.key("meta"))
    await bed.redis("DEL", bed.key("changes"))
    empty = await policies.read()  # which makes the namespace anew
    assert (empty.mode, empty.revision) == (Mode.OBSERVE, 1), "so a front end that knows a higher revision keeps it"
    assert await policies.restore(known) == known.revision
    found = await policies.read()
    assert (found.mode, found.revision, dict(found.users)) == (Mode.ENFORCE, known.revision, dict(known.users))
    assert await PolicyStore(bed.store).is_enforced()
    assert (await bed.leases.renew("w1")).auth_revision == known.revision
    before = await bed.dump()
    assert await policies.restore(known) == known.revision, "another front end does the same"
    assert await bed.dump() == before


async def test_an_older_policy_does_not_undo_a_newer_one(bed, policies):
    old = await policies.change(add(BOSS, User("gone")))
    new = await policies.change(lambda policy: changes.remove_user(policy, "gone"))
    assert await policies.restore(old) == new.revision
    assert {*(await policies.read()).users} == {"boss"}


ONE = User("one", roles=(Role.OPERATOR,), secrets=(Secret("id-one", "the-secret-of-one"),))
TWO = User("two", roles=(Role.CLIENT,))


def edit(name, **fields):
    return lambda policy: changes.edit_user(policy, name, lambda user: msgspec.structs.replace(user, **fields))


def remove(name):
    return lambda policy: changes.remove_user(policy, name)


class Fallen:
    """Redis as it was, and what front ends know that was lost with the old one."""

    def __init__(self, bed, policies, kept, known):
        self.bed, self.policies, self.kept, self.known = bed, policies, kept, known

    @classmethod
    async def after(cls, bed, policies, *lost):
        """A replica took over that had missed these changes, of a policy with three users in observe."""
        await policies.change(add(BOSS, ONE, TWO))
        kept = {key: await bed.store.client.dump(key) for key in (keys.auth_policy(bed.store.namespace),
                                                                  keys.auth_users(bed.store.namespace))}  # fmt: skip
        for change in lost:
            await policies.change(change)
        return cls(bed, policies, kept, await policies.read())

    async def fall_back(self):
        for key, value in self.kept.items():
            await self.bed.store.client.restore(key, 0, value, replace=True)
        await self.bed.let_pass(1000)  # no replica takes over within a millisecond


async def test_of_each_user_and_of_the_mode_the_last_change_counts(bed, policies):
    """What was lost is given back, and what was changed after the loss, before it was, stays."""
    fallen = await Fallen.after(
        bed, policies, edit("one", enabled=False), add(User("late")), remove("two"), mode(Mode.ENFORCE)
    )
    await fallen.fall_back()
    assert (await policies.read()).users.keys() == {"boss", "one", "two"}
    after = await policies.change(add(User("after")))
    assert sorted(fallen.known.lost_by(after)) == ["", "late", "one", "two"]
    revision = await policies.restore(fallen.known)
    assert revision > after.revision > fallen.known.revision, "so every front end reads again"
    found = await policies.read()
    assert (found.revision, found.mode, {*found.users}) == (revision, Mode.ENFORCE, {"boss", "one", "late", "after"})
    assert not found.users["one"].enabled
    assert found.users["one"].secrets == ONE.secrets
    assert await PolicyStore(bed.store).is_enforced()
    assert not fallen.known.lost_by(found)
    before = await bed.dump()
    assert await policies.restore(fallen.known) == await policies.restore(after) == revision, "others do the same"
    assert await bed.dump() == before


CHANGED_AGAIN = {
    "a user": (edit("one", enabled=False), edit("one", roles=(Role.CLIENT,)), lambda p: p.users["one"].enabled),
    "a removed one": (remove("one"), edit("one", roles=(Role.CLIENT,)), lambda p: p.users["one"].roles),
    "one is removed": (edit("one", enabled=False), remove("one"), lambda p: "one" not in p.users),
    "the mode": (mode(Mode.ENFORCE), mode(Mode.OFF), lambda p: p.mode is Mode.OFF),
}


@pytest.mark.parametrize("what", CHANGED_AGAIN)
async def test_what_is_changed_after_a_loss_is_newer_than_what_was_lost_of_it(bed, policies, what):
    lost, again, holds = CHANGED_AGAIN[what]
    fallen = await Fallen.after(bed, policies, lost)
    await fallen.fall_back()
    after = await policies.change(again)
    assert after.revision > fallen.known.revision
    assert fallen.known.lost_by(after) == []
    assert await policies.restore(fallen.known) == after.revision
    assert holds(await policies.read())


@pytest.mark.parametrize("first", [0, 1])
async def test_front_ends_that_know_more_and_less_give_back_the_same(bed, policies, first):
    fallen = await Fallen.after(bed, policies, edit("one", enabled=False))
    less = fallen.known
    more = await policies.change(remove("two"))
    await fallen.fall_back()
    for known in ((less, more), (more, less))[first]:
        await policies.restore(known)
    found = await policies.read()
    assert {name: user.enabled for name, user in found.users.items()} == {"boss": True, "one": False}
    assert found.revision >= more.revision


async def test_of_many_removed_users_the_last_revision_is_kept(bed, policies):
    """A user that was removed long ago does not come back with a front end that missed that."""
    await policies.change(add(BOSS, *(User(f"u{i}") for i in range(1010))))
    stale = await policies.read()
    await policies.change(lambda policy: Policy(policy.mode, policy.revision, [BOSS]))
    found = await policies.read()
    assert {*found.changed} == {"", "boss"}
    assert found.forgotten == found.revision
    assert stale.lost_by(found) == []
    await policies.restore(stale)
    assert {*(await policies.read()).users} == {"boss"}


# what cannot be read


async def test_off_is_the_way_back_in_even_if_the_rules_cannot_be_read(bed, policies):
    await policies.change(add(BOSS))
    await policies.change(mode(Mode.ENFORCE))
    await bed.redis("HSET", keys.auth_users(bed.store.namespace), "boss", '{"name":"boss","later":1}')
    with pytest.raises(BadPolicy, match="unknown field `later`"):
        await policies.read()
    with pytest.raises(BadPolicy):
        await policies.change(mode(Mode.OFF))
    revision = await policies.switch_off()
    found = await bed.redis("HMGET", keys.auth_policy(bed.store.namespace), "mode", "revision", "changed:")
    assert found == [b"off", str(revision).encode(), str(revision).encode()]
    assert await policies.switch_off() == revision
    assert (await bed.events())[-1].revision == revision


# half done

CHANGES = {
    "add": lambda p: p.change(add(User("new"))),
    "remove": lambda p: p.change(lambda policy: changes.remove_user(policy, "second")),
    "drop": lambda p: p.change(lambda policy: changes.drop_secret(policy, "second", "id-2")),
    "enforce": lambda p: p.change(mode(Mode.ENFORCE)),
    "off": lambda p: p.switch_off(),
    "restore": lambda p: p.restore(Policy(Mode.OBSERVE, 99_999_999_999_999, [User("only")])),
}
SECOND = User("second", roles=(Role.ADMIN,), secrets=(Secret("id-2", "another-secret"),), certificates=("CN:2",))


@pytest.mark.parametrize("name", ["policy", "users", "used"])
@pytest.mark.parametrize("change", CHANGES)
async def test_a_key_of_the_wrong_type_stops_a_change_before_it_begins(bed, policies, change, name):
    await policies.change(add(BOSS, SECOND))
    before, revision = await policies._read(), (await policies.read()).revision
    key = keys.auth_prefix(bed.store.namespace) + name
    await bed.redis("DEL", key)
    await bed.redis("SET", key, "no type of ours")
    dumped = await bed.dump()

    async def known():
        return before

    policies._read = known
    with pytest.raises(StoreError, match="WRONGTYPE"):
        await CHANGES[change](policies)
    assert await bed.dump() == dumped
    assert revision == before[1]


@pytest.mark.parametrize("change", CHANGES)
async def test_a_stream_of_the_wrong_type_stops_a_change_before_it_begins(bed, policies, change):
    await policies.change(add(BOSS, SECOND))
    await bed.redis("DEL", bed.key("changes"))
    await bed.redis("SET", bed.key("changes"), "no type of ours")
    before = await bed.dump()
    with pytest.raises(StoreError, match="WRONGTYPE"):
        await CHANGES[change](policies)
    assert await bed.dump() == before


# secrets


async def test_a_secret_stands_with_its_user_and_nowhere_else(bed, policies, refusals):
    await bed.register()
    await bed.leases.renew("w1")
    await policies.change(add(BOSS))
    made = new_secret(7)
    await policies.change(lambda policy: changes.add_secret(policy, "boss", made))
    await policies.note_used([("boss", made.id)])
    policy = await policies.change(mode(Mode.ENFORCE))
    refused = decide(policy, BOSS, Right.PERM, (), None)
    await refusals.note("fe", Mode.ENFORCE, [(RefusedKind.of(refused), 1, Last())])
    await policies.change(lambda policy: changes.drop_secret(policy, "boss", "id-1"))
    text = await raw(bed)
    assert "auth_changed" in text
    assert made.id in text, "its id is no secret"
    assert made.key not in text
    assert SECRET not in text
    users = await bed.redis("HGETALL", keys.auth_users(bed.store.namespace))
    assert made.key in repr(users)
    assert SECRET not in repr(users), "a dropped one is gone"


async def test_no_key_of_authentication_is_among_those_that_operators_may_read(bed, policies):
    await policies.change(add(BOSS))
    assert keys.auth_prefix("n") == "mqauth:{n}:"
    found = await bed.store.client.keys(f"mq:{{{bed.store.namespace}}}:*")
    assert [key for key in found if b"auth" in key] == []


def test_a_made_secret_is_random_and_fits():
    made = [new_secret(1) for _ in range(50)]
    assert len({one.key for one in made}) == len({one.id for one in made}) == 50
    assert all(re.fullmatch(r"[A-Za-z0-9]{32}", one.key) for one in made)
    for one in made:
        changes.check_secret_key(one.key)
    assert new_secret(1, "one-of-mine").key == "one-of-mine"


async def test_the_last_use_is_noted_for_secrets_that_there_are(bed, policies):
    await policies.change(add(BOSS, SECOND))
    revision = (await policies.read()).revision
    await policies.note_used([("boss", "id-1"), ("second", "id-1"), ("nobody", "id-2")])
    found = await read_last_use(bed.store)
    assert found == {"id-1": pytest.approx(await bed.now_ms(), abs=5000)}
    await bed.let_pass(120_000)
    await policies.note_used([("boss", "id-1"), ("second", "id-2")])
    later = await read_last_use(bed.store)
    assert later["id-1"] >= found["id-1"] + 120_000
    assert (await policies.read()).revision == revision, "that is no change of the policy"
    await policies.change(lambda policy: changes.drop_secret(policy, "second", "id-2"))
    assert {*await read_last_use(bed.store)} == {"id-1"}
    await policies.note_used([("boss", f"no-such-{i}") for i in range(1200)])
    assert {*await read_last_use(bed.store)} == {"id-1"}


async def test_a_removed_user_takes_the_last_use_of_its_secrets_along(bed, policies):
    await policies.change(add(BOSS, SECOND))
    await policies.note_used([("boss", "id-1"), ("second", "id-2")])
    await policies.change(lambda policy: changes.remove_user(policy, "second"))
    assert {*await read_last_use(bed.store)} == {"id-1"}


# what was refused

KIND = RefusedKind("anonymous", Right.REGISTER, ("cluster:c1", "broker:b ü\"'"), "no_rule")


async def test_refusals_of_a_kind_are_counted_together(bed, refusals):
    await refusals.note("fe1", Mode.OBSERVE, [(KIND, 1, Last("10.0.0.1", ""))])
    first = (await bed.head()).now_ms
    await bed.let_pass(60_000)
    await refusals.note("fe2", Mode.ENFORCE, [(KIND, 41, Last("10.0.0.2", "network"))])
    (row,) = await refusals.summary()
    assert (row.kind, row.count, row.mode, row.last) == (KIND, 42, Mode.ENFORCE, Last("10.0.0.2", "network"))
    assert row.first_ms == pytest.approx(first, abs=5000)
    assert row.last_ms - row.first_ms >= 60_000
    assert [(one.front_end, one.count, one.kind) for one in await refusals.entries()] == [
        ("fe1", 1, KIND), ("fe2", 41, KIND),
    ]  # fmt: skip
    assert await bed.events() == []


async def test_the_kinds_and_the_entries_that_are_kept_are_bounded_and_the_oldest_go(bed, refusals):
    await refusals.note("fe", Mode.OBSERVE, [(RefusedKind.unproved("first", "unknown_user"), 1, Last())])
    await bed.let_pass(60_000)
    await refusals.note("fe", Mode.OBSERVE, [(KIND, 1, Last())])
    await bed.let_pass(60_000)
    many = [(RefusedKind.unproved(f"u{i}", "unknown_user"), 1, Last()) for i in range(1998)]
    await refusals.note("fe", Mode.OBSERVE, many)
    assert len(await refusals.summary()) == 2000
    await bed.let_pass(60_000)
    await refusals.note("fe", Mode.OBSERVE, [(KIND, 1, Last()), (RefusedKind.unproved("x", "unknown_user"), 1, Last())])
    rows = await refusals.summary()
    assert len(rows) == 2000
    assert {row.kind.user for row in rows[:2]} == {"x", "anonymous"}
    assert "first" not in {row.kind.user for row in rows}
    for _ in range(5):
        await refusals.note("fe", Mode.OBSERVE, many)
    assert 10_000 <= await bed.redis("XLEN", keys.auth_refusals(bed.store.namespace)) < 10_300
    assert len(await refusals.entries()) >= 10_000, "more than a page of them"


async def test_names_that_nobody_has_proved_are_cut(refusals):
    await refusals.note("fe", Mode.OBSERVE, [(RefusedKind.unproved("x" * 100_000, "bad_signature"), 1, Last())])
    (row,) = await refusals.summary()
    assert (row.kind.user, row.kind.right) == ("x" * 255, None)


def test_the_kind_of_a_decision_can_be_decided_again():
    resources = (Resource(Kind.CLUSTER, "c1"), Resource(Kind.BROKER, "a:b"))
    kind = RefusedKind.of(decide(Policy(), None, Right.REGISTER, resources, None))
    assert msgspec.json.decode(msgspec.json.encode(kind), type=RefusedKind).parsed_resources() == resources


@pytest.mark.parametrize("name", ["refused", "refusals"])
async def test_a_key_of_the_wrong_type_stops_a_note_before_it_begins(bed, refusals, name):
    await bed.redis("SET", keys.auth_prefix(bed.store.namespace) + name, "no type of ours")
    before = await bed.dump()
    with pytest.raises(StoreError, match="WRONGTYPE"):
        await refusals.note("fe", Mode.OBSERVE, [(KIND, 1, Last())])
    assert await bed.dump() == before
