"""A script changes no row whose cluster, or whose other brokerNames, nobody decided on: it asks instead."""

from __future__ import annotations

import pytest

from mqregistry.errors import NotDecided
from mqregistry.model import QueueData
from tests.store.bed import registration

A, B = "10.0.0.1:10911", "10.0.0.2:10911"
OWN = "=mallory\ncluster:c2\nbroker:broker-a\n"
ALL = "=mallory\ncluster:c2\ncluster:c1\nbroker:broker-a\n"


@pytest.fixture(params=["5.x", "4.8"])
def compat(request):
    return request.param


@pytest.fixture
def prod(bed, run):
    """broker-a at A in cluster c1, from before anything was decided: nobody owns it."""
    assert run(bed.fe1.register(registration(A, topics=["t", "s"]))).status == "OK"


def acts(bed):
    """What somebody of cluster c2 sends that would change broker-a."""

    def registers(**fields):
        async def act(owner):
            bed.fe2.owner = owner
            return await bed.fe2.register(registration(B, cluster="c2", topics=["t", "s"], **fields))

        return act

    return {
        "103": registers(),
        "103-slave": registers(broker_id=1),
        "103-acting": registers(broker_id=1, enable_acting_master=True),
        "104": lambda owner: bed.routes.unregister_broker("c2", A, "broker-a", 0, owner=owner),
        "104-own-address": lambda owner: bed.routes.unregister_broker("c2", B, "broker-a", 5, owner=owner),
        "205": lambda owner: bed.routes.set_write_perm("broker-a", "wipe", owner=owner),
        "327": lambda owner: bed.routes.set_write_perm("broker-a", "add", owner=owner),
        "216": lambda owner: bed.routes.delete_topic("t", owner=owner),
        "217": lambda owner: bed.routes.register_topic("u", [("broker-a", QueueData(1, 1, 0))], owner=owner),
    }


NAMES = ("103", "103-slave", "103-acting", "104", "104-own-address", "205", "327", "216", "217")


@pytest.mark.parametrize("name", NAMES)
async def test_a_row_of_another_cluster_is_asked_for(bed, prod, name):
    act = acts(bed)[name]
    before, beats = await bed.dump(), await bed.beats()
    with pytest.raises(NotDecided) as caught:
        await act(OWN)
    assert caught.value.resources == ("cluster:c1",)
    assert (await bed.dump(), await bed.beats()) == (before, beats), "not even a time differs"
    await act(ALL)


async def test_a_sign_of_life_is_of_the_names_that_the_process_has(bed, prod):
    """Somebody on the same machine who may register another brokerName of the cluster."""
    before = await bed.dump()
    with pytest.raises(NotDecided) as caught:
        await bed.routes.touch_broker("c1", A, owner="=mallory\ncluster:c1\nbroker:broker-b\n")
    assert caught.value.resources == ("broker:broker-a",)
    assert await bed.dump() == before


async def test_an_owner_is_not_asked_for_his_own_names(bed):
    bed.fe1.owner = "=alice\ncluster:c1\nbroker:broker-a\n"
    assert (await bed.fe1.register(registration(A))).status == "OK"
    assert (await bed.routes.touch_broker("c1", A, owner="=alice\ncluster:c1\n")).refreshed


async def test_a_heartbeat_of_a_row_in_another_cluster_is_no_repetition(bed, prod):
    """Its sender's right on that cluster may have gone since he registered."""
    bed.fe2.owner = ALL
    evil = registration(B, cluster="c2", broker_id=1, topics=["t", "s"])
    assert (await bed.fe2.register(evil)).status == "OK"
    assert (await bed.fe2.prepare(evil)).heartbeat.same
    bed.fe2.owner = OWN
    assert not (await bed.fe2.prepare(evil)).heartbeat.same
