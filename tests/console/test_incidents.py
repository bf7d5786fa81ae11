"""Who went and is not back, who was wiped, who shares an address: the first lines of the page Now."""

from __future__ import annotations

import re
import time
from html import unescape

from mqregistry.events.by import CLI, By
from mqregistry.operators.maintenance import begin_maintenance, end_maintenance

from .conftest import unlinked
from .test_findings import says, working
from .test_lanes import until_read


def first_line(page):
    """The first line under the heading."""
    return unescape(re.sub(r"<[^>]+>", "", re.search(r'<ul class="findings">\s*<li.*?</li>', page, re.DOTALL)[0]))


async def shown(site, bed, text):
    """The page, once the change is in the lanes and it says so."""
    await until_read(site, (await bed.head()).seq)
    return await says(site, bed, text)


async def test_brokers_that_left_together_are_one_line_until_they_are_back(site, bed):
    await working(bed)
    for number in range(40):
        await bed.register(f"10.0.{3 + number % 2}.{number}:10911", f"b{number:02}", topics=["t", "u"])
    for number in range(30):
        addr = f"10.0.{3 + number % 2}.{number}:10911"
        await bed.routes.unregister_broker("c1", addr, f"b{number:02}", 0, by=By("anonymous", peer=addr))
    page = await shown(site, bed, "30 brokers went")
    assert re.search(r"30 brokers went (at|from) [\d:]+.* are not back: they unregistered themselves", page)
    assert "10.0.3.x (15), 10.0.4.x (15)" in page
    assert "b00 10.0.3.0:10911" in unlinked(page)
    assert "and 25 more" in page
    assert re.search(r"<title>\(\d+\) Now", page)
    for number in range(29):  # 28 at their old addresses, one as a pod that was made again
        await bed.register(f"10.0.{3 + number % 2}.{number if number else 99}:10911", f"b{number:02}", counter=2)
    page = await shown(site, bed, "1 broker went at")
    assert "is not back: it unregistered itself" in first_line(page)
    assert "b29 10.0.4.29:10911" in first_line(page)
    await bed.register("10.0.4.29:10911", "b29", counter=2)
    await shown(site, bed, "Nothing is wrong")


async def test_a_departure_is_dismissed_with_a_name_and_stays_readable(site, bed):
    await working(bed)
    await bed.register("10.0.0.7:10911", "broker-x")
    await bed.routes.unregister_broker("c1", "10.0.0.7:10911", "broker-x", 0, by=By(CLI, "ops", "laptop/7"))
    page = await shown(site, bed, "1 broker went at")
    assert "ops (cli) on laptop/7 had it removed" in page
    asked = unescape(re.search(r'href="(/dismiss[^"]+)"', page)[1])
    form = await site.get(asked)
    fields = {name: unescape(value) for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)}
    origin = {"origin": site.base}
    refused = await site.http.post("/dismiss", data={**fields, "name": ""}, headers=origin)
    assert refused.status_code == 400
    assert "a name of 1 to 64 characters" in refused.text
    refused = await site.http.post("/dismiss", data={**fields, "token": "x", "name": "ann"}, headers=origin)
    assert refused.status_code == 403
    done = await site.http.post("/dismiss", data={**fields, "name": "ann"}, headers=origin)
    assert (done.status_code, done.headers["location"]) == (303, "/")
    page = await says(site, bed, "Nothing is wrong")
    assert "ann dismissed this at" in page
    assert "broker-x 10.0.0.7:10911" in unlinked(page)
    # It comes back and leaves again: that is a new line.
    await bed.register("10.0.0.7:10911", "broker-x", counter=2)
    await bed.let_pass(1000)
    await bed.routes.unregister_broker("c1", "10.0.0.7:10911", "broker-x", 0)
    await shown(site, bed, "1 broker went at")


async def test_a_wiped_broker_is_named_with_its_author(site, bed):
    await working(bed)
    await bed.routes.set_write_perm("broker-a", "wipe")
    page = await shown(site, bed, "No topic of broker-a can be written to since")
    assert f"mqregistry broker restore --namespace {bed.store.namespace} broker-a" in page
    await bed.routes.set_write_perm("broker-a", "add")
    await shown(site, bed, "Nothing is wrong")


async def test_a_broker_in_maintenance_may_be_away_and_is_named_when_it_should_be_back(site, bed):
    await working(bed)
    await bed.register("10.0.0.7:10911", "broker-x")
    await begin_maintenance(bed.store, "broker-x", "new disk", round(time.time() * 1000) + 3_600_000)
    await bed.routes.unregister_broker("c1", "10.0.0.7:10911", "broker-x", 0)
    page = await shown(site, bed, "1 broker went at")
    assert 'class="finding bad"' not in page
    assert 'class="finding warn"' not in page
    assert ": new disk." in page
    await begin_maintenance(bed.store, "broker-x", "new disk", round(time.time() * 1000) - 1)
    page = await shown(site, bed, "It should be over")
    assert "broker-x is in maintenance since" in first_line(page)
    await end_maintenance(bed.store, "broker-x")
    page = await shown(site, bed, "1 broker went at")
    assert "maintenance" not in page


async def test_two_broker_names_at_one_address(site, bed):
    await working(bed)
    await bed.register("10.0.0.1:10911", "broker-copy")
    page = await shown(site, bed, "2 broker names have registered one address, 10.0.0.1:10911: broker-a, broker-copy")
    assert "copied" in first_line(page)


async def test_a_healthy_5x_broker_is_no_incident(site, bed):
    await working(bed)
    own = {"rmq_sys_SYNC_BROKER_MEMBER_broker-5": (1, 1, 1)}
    await bed.register("10.0.0.2:10911", "broker-5", topics={"t": (4, 4, 6), **own})
    await until_read(site, (await bed.head()).seq)
    page = await says(site, bed, "Nothing is wrong")
    assert "nowhere to write to" not in page
