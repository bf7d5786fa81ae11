"""One search over everything with a name, also what is gone, was never known, or may not be seen."""

from __future__ import annotations

from html import unescape

from .test_lanes import until_read


async def test_one_search_finds_all_kinds_of_names(site, bed):
    await bed.register(topics=["orders", "orders-late"])
    await bed.register("10.0.0.9:10911", "order-broker", cluster="order-cluster", topics=["t", "u"])
    await bed.kv.put("ORDER_TOPIC_CONFIG", "orders-key", "broker-a:8")
    await bed.register("10.0.0.7:10911", "orders-left", topics=["t", "u"])
    await bed.routes.unregister_broker("c1", "10.0.0.7:10911", "orders-left", 0)
    await until_read(site, (await bed.head()).seq)
    text = await site.get("/search", q="order")
    for kind in ("topic", "broker name", "cluster", "KV key", "broker name that left"):
        assert f'data-label="What it is">{kind}<' in text, kind
    exact = await site.http.get("/search", params={"q": "orders"})
    assert (exact.status_code, exact.headers["location"]) == (303, "/topic?name=orders")
    address = await site.http.get("/search", params={"q": "10.0.0.9:10911"})
    assert address.headers["location"] == "/broker?name=order-broker"
    nothing = unescape(await site.get("/search", q="ordres"))
    assert "Did you mean" in nothing
    assert '/topic?name=ordres">Was it deleted?' in nothing
    assert "<script>" not in await site.get("/search", q="<script>alert(1)</script>")
    assert "Topics, broker names, addresses" in await site.get("/search")
