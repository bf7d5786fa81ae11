"""Is anything wrong? Each sentence appears when it is so, and not before."""

from __future__ import annotations

from mqregistry.auth.policy import Mode
from mqregistry.auth.refused import Last, RefusedKind
from mqregistry.store.auth.refusals import RefusalStore
from tests.store.test_processes import SWEEPER, worker
from tests.waiting import until

from .conftest import unlinked


async def says(site, bed, text):
    """The page, once it has what was changed; facts are kept for a second."""
    await site.until_seen((await bed.head()).seq)

    async def page():
        shown = await site.get("/")
        return shown if text in unlinked(shown) else None

    return await until(page, text)


async def working(bed):
    await bed.leases.renew("w1", process=worker())
    await bed.leases.reap(10, sweeper="s1", process=SWEEPER)
    await bed.register()


async def test_no_front_end(site, bed):
    await bed.register()
    await says(site, bed, "No front end hears brokers")
    await working(bed)
    await says(site, bed, "Nothing is wrong")


async def test_a_broker_that_is_overdue_and_no_sweeper(site, bed):
    await working(bed)
    await says(site, bed, "Nothing is wrong")
    await bed.let_pass(121_000)
    await bed.leases.renew("w1", process=worker())
    await bed.leases.reap(10, sweeper="s1", process=SWEEPER)
    page = await says(site, bed, "1 broker is overdue and about to be removed: broker-a 10.0.0.1:10911")
    assert "no sweeper removes" not in page
    await bed.let_pass(20_000)
    await bed.leases.renew("w1", process=worker())
    page = await says(site, bed, "and no sweeper removes them")
    assert "No sweeper is there since" in page


async def test_who_is_kept_and_until_when_after_an_outage(site, bed):
    await working(bed)
    await bed.move_clock(40_000)  # nobody renewed a lease meanwhile
    await bed.leases.renew("w1", process=worker(seq=1))
    await bed.leases.reap(10, sweeper="s1", process=SWEEPER)
    page = await says(site, bed, "No broker is removed until")
    assert "because Redis, or every front end, was away until" in page
    assert "Nothing is wrong" in page, page[page.index("<main") :]  # a note
    await bed.register(counter=2)

    async def page_without_note():
        page = await site.get("/")
        return "Nothing is wrong" in page and "No broker is removed" not in page

    await until(page_without_note, "the note is gone")


async def test_front_ends_that_are_behind_not_ready_or_gone(site, bed):
    await working(bed)
    await bed.leases.renew("w1", process=worker(view="stale"))
    await says(site, bed, "The front end ns1:9876 answers with tables that may be old (stale)")
    await bed.leases.renew("w1", process=worker(ready=False))
    await says(site, bed, "The front end ns1:9876 is not ready")
    await bed.let_pass(4000)
    await bed.leases.renew("w1", process=worker(seq=0))
    await says(site, bed, "The front end ns1:9876 is behind: it lacks 1 change of more than 3 s ago")
    await bed.let_pass(10_000)
    await bed.leases.renew("w2")
    await says(site, bed, "The front end ns1:9876 is gone since")


async def test_refused_requests_count_when_rules_are_enforced(site, bed):
    await working(bed)
    refused = [(RefusedKind.unproved("mallory", "BadSignature"), 3, Last("10.0.0.66:1", "signature"))]
    await RefusalStore(bed.store).note("fe1", Mode.OBSERVE, refused)
    await says(site, bed, "Nothing is wrong")
    await RefusalStore(bed.store).note("fe1", Mode.ENFORCE, refused)
    page = await says(site, bed, "Requests of 1 user were refused within the last hour")
    assert "mallory from 10.0.0.66:1" in page


async def test_an_empty_registry_says_how_brokers_find_it(site, bed):
    await bed.leases.renew("w1", process=worker())
    await bed.leases.reap(10, sweeper="s1", process=SWEEPER)
    page = await says(site, bed, "No broker is registered. Brokers and clients find this registry by namesrvAddr=")
    assert "Nothing is wrong" in page
    await bed.register()
    assert "namesrvAddr" not in await says(site, bed, "Nothing is wrong")


async def test_a_name_without_a_master(site, bed):
    await working(bed)
    await bed.register("10.0.0.4:10911", "broker-b", topics=["only-read", "other"])
    await bed.register("10.0.0.5:10911", "broker-b", 1, topics=["only-read", "other"])
    await bed.routes.unregister_broker("c1", "10.0.0.4:10911", "broker-b", 0)
    page = await says(site, bed, "1 broker name has no master, so nobody can write there: broker-b")
    assert "2 topics have nowhere to write to" in page


async def test_a_broker_that_clients_will_not_reach(site, bed):
    await working(bed)
    told = "a broker registers as 127.0.0.1:10911, where each machine reaches only itself, over x:1"
    await bed.leases.renew("w1", process=worker(unreachable=[told]))
    page = await says(site, bed, "clients will not reach it. Set brokerIP1 in its broker.conf.")
    assert page.count("A broker registers as 127.0.0.1:10911, where") == 1
    await bed.leases.renew("w1", process=worker())
    await says(site, bed, "Nothing is wrong")
