"""Whose broker a process is: the user who registered it. Nobody else speaks for it while it lives."""

from __future__ import annotations

import pytest

from tests.store.bed import registration

A, B = "10.0.0.1:10911", "10.0.0.2:10911"
# Each of them may register everything.
ALICE, STRANGER, WATCHED = "=alice\n*\n", "=mallory\n*\n", "~mallory\n*\n"


@pytest.fixture(params=["5.x", "4.8"])
def compat(request):
    return request.param


@pytest.fixture
def who(bed):
    return bed.routes.behaviour.who("c1", A)


@pytest.fixture
def owned(bed, run):
    """broker-a at A, registered by alice."""
    bed.fe1.owner = ALICE
    r = registration(A)
    assert run(bed.fe1.register(r)).status == "OK"
    return r


async def live_of(bed, who):
    return await bed.hash(f"live:{who}")


async def nothing_changes(bed, act):
    """Run it; not even a time, a channel or an entry of a stream may differ afterwards."""
    before, beats = await bed.dump(), await bed.beats()
    result = await act()
    assert await bed.dump() == before
    assert await bed.beats() == beats
    return result


async def test_a_registration_says_whose_it_is_and_a_beat_of_the_owner_is_known(bed, who, owned):
    live = await live_of(bed, who)
    assert live["user"] == f"{live['n']} alice"
    assert (await bed.fe1.prepare(owned)).heartbeat.same
    assert (await bed.routes.touch_broker("c1", A, owner=ALICE)).refreshed


async def test_who_is_no_user_owns_nothing(bed, who):
    bed.fe1.owner = "~\n*\n"
    assert (await bed.fe1.register(registration(A))).owner == ""
    assert "user" not in await live_of(bed, who)
    assert (await bed.fe1.prepare(registration(A))).heartbeat.same
    bed.fe2.owner = ALICE
    assert (await bed.fe2.register(registration(A))).status == "OK"
    live = await live_of(bed, who)
    assert live["user"] == f"{live['n']} alice"


@pytest.mark.parametrize("state_version", [0, 9 * 10**18])
@pytest.mark.parametrize("addr", [A, B])
async def test_nobody_else_takes_an_id_or_an_address_whatever_the_state_version(bed, owned, addr, state_version):
    bed.fe2.owner = STRANGER
    for counter in (1, 2):
        r = registration(addr, counter=counter, state_version=state_version)
        result = await nothing_changes(bed, lambda r=r: bed.fe2.register(r))
        assert (result.status, result.owner) == ("FOREIGN", "alice")


async def test_the_same_registration_by_another_user_is_no_heartbeat(bed, owned):
    bed.fe2.owner = STRANGER
    prepared = await nothing_changes(bed, lambda: bed.fe2.prepare(owned))
    assert not prepared.heartbeat.same


async def test_another_cluster_is_no_way_around(bed, owned):
    bed.fe2.owner = STRANGER
    result = await bed.fe2.register(registration(A, "broker-x", cluster="c2"))
    assert (result.status, result.owner) == ("FOREIGN", "alice")
    result = await bed.fe2.register(registration(B, cluster="c2"))
    assert (result.status, result.owner) == ("FOREIGN", "alice")


async def test_nobody_else_touches_it(bed, owned):
    touched = await nothing_changes(
        bed, lambda: bed.routes.touch_broker("c1", A, bed.fe2.channel("mallory"), owner=STRANGER)
    )
    assert (touched.foreign, touched.owner, touched.refreshed) == (True, "alice", False)


@pytest.mark.parametrize(("cluster", "addr"), [("c1", A), ("c2", A), ("", A), ("c1", "")])
async def test_nobody_else_removes_it(bed, owned, cluster, addr):
    broker_id = 0 if bed.routes.behaviour.unregisters_by_id else None
    if not addr and broker_id is None:
        pytest.skip("5.x removes by address")
    done = await nothing_changes(
        bed, lambda: bed.routes.unregister_broker(cluster, addr, "broker-a", broker_id, owner=STRANGER)
    )
    assert (done.foreign, done.owner) == (True, "alice")
    done = await bed.routes.unregister_broker(cluster, addr, "broker-a", broker_id, owner=ALICE)
    assert not done.foreign
    assert (await bed.tables()).brokers == {}


async def test_a_connection_that_was_refused_ends_and_the_broker_stays(bed, owned):
    bed.fe2.owner = STRANGER
    await bed.fe2.register(owned, connection="evil")
    await bed.routes.touch_broker("c1", A, bed.fe2.channel("evil"), owner=STRANGER)
    assert await bed.fe2.close(owned, connection="evil") == "STALE"
    assert (await bed.tables()).brokers["broker-a"].broker_addrs == {0: A}


async def test_when_it_is_only_observed_all_works_and_the_owner_is_told(bed, owned):
    bed.fe2.owner = WATCHED
    result = await bed.fe2.register(registration(A, counter=2))
    assert (result.status, result.owner) == ("OK", "alice")
    bed.fe1.owner = "~alice\n*\n"
    assert (await bed.fe1.register(registration(A, counter=3))).owner == "mallory"
    assert (await bed.routes.touch_broker("c1", A, owner=WATCHED)).owner == "alice"
    done = await bed.routes.unregister_broker("c1", A, "broker-a", 0, owner=WATCHED)
    assert (done.foreign, done.owner) == (False, "alice")
    assert (await bed.tables()).brokers == {}


async def test_the_owner_may_move_it(bed, owned):
    moved = registration(B, counter=2)
    assert (await bed.fe1.register(moved)).status == "OK"
    assert (await bed.tables()).brokers["broker-a"].broker_addrs == {0: B}


async def test_once_it_is_gone_its_id_is_anybodys(bed, owned):
    await bed.fe1.close(owned, connection=1)
    bed.fe2.owner = STRANGER
    assert (await bed.fe2.register(registration(B))).status == "OK"


async def test_without_authentication_the_owner_is_forgotten(bed, who, owned):
    """So that who comes meanwhile is no stranger when it is enforced again."""
    assert (await bed.fe2.prepare(owned)).heartbeat.same
    assert (await bed.fe2.register(registration(A, counter=2))).status == "OK"
    assert "user" not in await live_of(bed, who)
    bed.fe2.owner = STRANGER
    assert (await bed.fe2.register(registration(A, counter=3))).status == "OK"


async def test_an_owner_that_an_older_release_left_behind_does_not_count(bed, who, owned):
    """It registers, raises n and leaves the field that it does not know."""
    await bed.redis("HINCRBY", bed.key(f"live:{who}"), "n", 5)
    bed.fe2.owner = STRANGER
    assert (await bed.fe2.register(registration(A, counter=2))).status == "OK"
