"""A front end in the test's own process, without sockets, on a real Redis."""

from __future__ import annotations

import asyncio
import secrets

from registry.config import Settings
from registry.protocol.command import Command, decode_command
from registry.server import register
from registry.server.channels import ChannelOwner
from registry.server.counters import Counters
from registry.server.follower import Follower
from registry.server.front_end import FrontEnd
from registry.server.view import View
from registry.store.kvconfig import KvStore
from registry.store.routes import NO_CHANNEL, RouteStore
from registry.store.store import Store


class Peer:
    channel = NO_CHANNEL
    address = "test"

    def close(self, reason):
        raise AssertionError(reason)


class Here:
    """A front end in this process, without sockets."""

    def __init__(self, redis_url, namespace=None):
        namespace = namespace or f"t-{secrets.token_hex(6)}"
        self.store = Store(redis_url, namespace)
        self.view = View()
        routes = RouteStore(self.store)
        channels = ChannelOwner(routes, "here", "worker")
        self.follower = Follower(
            self.store,
            self.store,
            self.view,
            channels,
            grace_ms=lambda: 1000,
            on_config=lambda _: None,
            sent=routes.sent,
        )
        self.front_end = FrontEnd(
            Settings(redis=redis_url, namespace=namespace),
            self.view, routes, KvStore(self.store), channels, Counters(), self.follower,
        )  # fmt: skip

    async def __aenter__(self):
        await self.store.connect()
        await self.follower.load()
        await self.follower.renew()
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
        return {name: n for name, n in self.store.times.count.items() if name != "snapshot"}
