"""A front end in the test's own process, without sockets, on a real Redis."""

from __future__ import annotations

import asyncio
import secrets

from mqregistry.config.settings import Settings
from mqregistry.protocol.command import Command, decode_command
from mqregistry.server.counting.counters import Counters
from mqregistry.server.requests import registration as register
from mqregistry.server.requests.context import RequestContext
from mqregistry.server.view.channels import ChannelOwner
from mqregistry.server.view.follower import Follower
from mqregistry.server.view.lease_loop import LeaseLoop
from mqregistry.server.view.view import View
from mqregistry.store.config_writes import KvStore
from mqregistry.store.leases import LeaseStore
from mqregistry.store.route_writes import NO_CHANNEL, RouteStore
from mqregistry.store.store import Store


class Peer:
    channel = NO_CHANNEL
    address = host = "test"
    via = ""
    caller = last_caller = None
    said_ago_s = heard_s = 0.0
    hung_up = False

    def has_hung_up(self):
        return False

    def close(self, closed_as, reason):
        raise AssertionError(reason)


class Here:
    """A front end in this process, without sockets."""

    def __init__(self, redis_url, namespace=None, *, store_class=Store, **options):
        namespace = namespace or f"t-{secrets.token_hex(6)}"
        self.store = store_class(redis_url, namespace, **options)
        self.view = View()
        self.store.history = lambda: self.view.known
        routes = RouteStore(self.store)
        self.channels = channels = ChannelOwner(routes, "here", "worker")
        self.follower = Follower(self.store, self.store, self.view)
        self.lease_loop = LeaseLoop(
            LeaseStore(self.store),
            self.view,
            self.follower,
            channels,
            own_store=self.store,
        )
        self.front_end = RequestContext(
            Settings(redis=redis_url, namespace=namespace, redis_timeout_ms=self.store.timeout_ms),
            self.view, routes, KvStore(self.store), channels, Counters(), self.follower,
        )  # fmt: skip

    async def __aenter__(self):
        await self.store.connect()
        await self.follower.start()
        await self.lease_loop.renew()
        self._tail = asyncio.create_task(self.follower.tail())
        return self

    async def __aexit__(self, *_):
        self._tail.cancel()
        await asyncio.gather(self._tail, return_exceptions=True)
        await self.store.close()

    async def register(self, broker, **changes):
        ext, body = broker.registration(**changes)
        command = Command(code=103, opaque=1, version=479, ext_fields=ext, body=body)
        return decode_command((await register.register_broker(self.front_end, command, 1, Peer()))[4:])

    def scripts_run(self):
        return {name: one.times for name, one in self.store.times.scripts.items() if name != "snapshot"}
