"""Each page as JSON: it fits the description, has what the page has, and needs the rights of the page."""

from __future__ import annotations

import jsonschema
import pytest

from mqregistry.console.app import PAGES, TWINS
from mqregistry.console.twins import twin_path

from .test_lanes import until_read

ADDRESSES = (
    "/now.json", "/now.json?at=-1s", "/brokers.json", "/brokers.json?at=-1s", "/brokers.json?sort=left&state=read-only",
    "/broker.json?name=broker-a", "/broker.json?name=broker-a&at=-1s", "/search.json?q=orders", "/search.json?q=b",
    "/cluster.json?name=c1", "/cluster.json?name=c1&at=-1s",
    "/topics.json", "/topic.json?name=orders", "/topic.json?name=orders&at=-1s", "/missing.json", "/changes.json",
    "/changes/1.json", "/compare.json?at=-1s", "/kv.json", "/users.json", "/front-ends.json", "/front-ends.json?at=-1s",
    "/streams.json", "/report.json", "/actions.json", "/action.json?do=wipe&name=broker-a",
)  # fmt: skip
NO_TWIN = {"/events", "/changes/{seq}/undo", "/report/page", "/dismiss", "/changes/export"}
"""A stream, what leads to an action, the report itself, a form, and a file."""


async def filled(site, bed):
    await bed.register(topics=["orders", "pay"])
    await bed.register("10.0.0.2:10911", "broker-b", topics={"orders": (4, 4, 6), "log": (1, 1, 4)})
    await bed.routes.set_write_perm("broker-b", "wipe")
    await bed.routes.unregister_broker("c1", "10.0.0.2:10911", "broker-b", 0)
    await bed.kv.put("ns", "key", "value")
    await bed.routes.delete_topic("pay")
    await until_read(site, (await bed.head()).seq)
    return (await bed.events())[-1].ms


def test_each_page_has_a_twin():
    assert TWINS.keys() == PAGES.keys() - NO_TWIN
    asked = {address.partition("?")[0].replace("/1.", "/{seq}.") for address in ADDRESSES}
    assert {twin_path(path) for path in TWINS} == asked


@pytest.mark.parametrize("address", ADDRESSES)
async def test_fits_the_description(acting, bed, address):
    address = address.replace("at=-1s", f"at={await filled(acting, bed)}")
    described = (await acting.http.get("/openapi.json")).json()
    answer = await acting.http.get(address)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    path = address.partition("?")[0].replace("/1.", "/{seq}.")
    content = described["paths"][path]["get"]["responses"]["200"]["content"]
    schema = {**content["application/json"]["schema"], "components": described["components"]}
    jsonschema.Draft202012Validator(schema).validate(answer.json())
    assert answer.json()["version"] == 1
    broken = {**answer.json(), "data": {}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate(broken)


async def test_a_page_is_json_for_whom_only_takes_json(site, bed):
    await filled(site, bed)
    for path, twin in (
        ("/", "/now.json"),
        ("/brokers", "/brokers.json"),
        ("/topic?name=orders", "/topic.json?name=orders"),
    ):
        accepted = (await site.http.get(path, headers={"accept": "application/json"})).json()
        assert accepted["data"].keys() == (await site.http.get(twin)).json()["data"].keys()
        browser = {"accept": "text/html,application/json;q=0.9"}
        assert "<!doctype html>" in (await site.http.get(path, headers=browser)).text.lower()


async def test_what_is_there(site, bed):
    await filled(site, bed)
    (row,) = (await site.http.get("/brokers.json")).json()["data"]["rows"]
    assert (row["broker_name"], row["addr"], row["broker_id"], row["topics"]) == ("broker-a", "10.0.0.1:10911", 0, 1)
    now = (await site.http.get("/now.json")).json()
    assert now["namespace"] == bed.store.namespace
    assert any("broker-b 10.0.0.2:10911" in one["text"] for one in now["data"]["findings"])
    changes = (await site.http.get("/changes.json?kind=write_perm_set")).json()["data"]["changes"]
    assert [(one["type"], one["broker_name"]) for one in changes] == [("write_perm_set", "broker-b")]
    ((name, row, data),) = (await site.http.get("/topic.json?name=orders")).json()["data"]["queues"]
    assert (name, row["broker_addrs"], data["p"]) == ("broker-a", {"0": "10.0.0.1:10911"}, 6)
    found = (await site.http.get("/search.json?q=orders")).json()["data"]["found"]
    assert [(one["kind"], one["name"]) for one in found] == [("topic", "orders")]


@pytest.mark.parametrize(
    ("address", "status", "text"),
    [("/topic.json?name=none", 404, "No broker has a topic 'none'"), ("/brokers.json?sort=x", 400, "expected one of"),
     ("/changes/99.json", 404, "is not in the stream"), ("/actions.json", 403, "this console only reads")],
)  # fmt: skip
async def test_why_there_is_none(site, bed, address, status, text):
    await bed.register()
    await site.until_seen((await bed.head()).seq)
    answer = await site.http.get(address)
    assert answer.status_code == status
    failure = answer.json()["error"]
    assert failure["status"] == status
    assert text in failure["text"]
