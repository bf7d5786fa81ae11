"""``backup`` and ``restore`` on a Redis Cluster, and by way of Sentinels."""

from __future__ import annotations

import asyncio
import secrets

import pytest

from bench.servers.redis_servers import cluster_setup
from mqregistry.store.backup import back_up, restore
from mqregistry.store.store import Store

from ..store.bed import Bed
from .everything import use_everything
from .servers import sentinel_setup
from .service import contents


@pytest.fixture(params=["cluster", "sentinel"])
def url(request, folder):
    with (cluster_setup if request.param == "cluster" else sentinel_setup)(folder) as setup:
        yield setup.url


async def test_a_namespace_is_copied_and_put_back(url, folder):
    namespace = f"t-{secrets.token_hex(6)}"
    async with Store(url, namespace) as store:
        await store.connect()
        await use_everything(Bed(store))
        before = await asyncio.to_thread(contents, url, namespace)
        assert back_up(url, namespace, folder / "b").keys > 10
        meta = await store.client.hgetall(f"mq:{{{namespace}}}:meta")
        await store.client.delete(f"mq:{{{namespace}}}:meta", f"mq:{{{namespace}}}:brokers", f"mq:{{{namespace}}}:kv")
        leases = await store.client.smembers(f"mq:{{{namespace}}}:leases")
        for one in leases:
            await store.client.delete(f"mq:{{{namespace}}}:lease:{one.decode()}")
        restore(url, namespace, folder / "b")
        assert await asyncio.to_thread(contents, url, namespace) == before
        assert await store.client.hgetall(f"mq:{{{namespace}}}:meta") == meta
