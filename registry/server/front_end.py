"""What the handlers of one worker share."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol

from registry.behaviour import behaviour_of
from registry.config import Settings, with_shared, without
from registry.errors import StoreUnavailable
from registry.protocol.codes import Encoding
from registry.server.alike import AlikeBodies
from registry.server.channels import ChannelOwner, Closable
from registry.server.cluster_test import ProductEnvironment
from registry.server.counters import Counters
from registry.server.last_bodies import LastBodies
from registry.server.lookup_counts import LookupCounts
from registry.server.replies import Replies
from registry.server.view import View
from registry.store.kvconfig import KvStore
from registry.store.routes import RouteStore

# One is decoded while Redis works on another's.
LARGE_AT_ONCE: Final = 2


class Health(Protocol):
    """What the handlers need to know of the follower."""

    away: bool

    def look_again(self) -> None:
        """Read the tables anew: Redis contradicts the view."""


class Peer(Closable, Protocol):
    """The connection a request came over."""


class FrontEnd:
    """Settings, behaviour, view, stores and counters of one worker."""

    def __init__(
        self,
        settings: Settings,
        view: View,
        routes: RouteStore,
        kv: KvStore,
        channels: ChannelOwner,
        counters: Counters,
        health: Health,
    ) -> None:
        self.behaviour = behaviour = behaviour_of(settings.compat)
        self.replies = Replies(behaviour.reply_version, behaviour.faq, Encoding[settings.serialize_type])
        self._own_settings = self.settings = settings = without(settings, behaviour.ignored_settings)
        self.shared: Mapping[str, str] = {}
        self.product = ProductEnvironment(
            settings.product_env_namesrv_addr, settings.product_env_namesrv_domain, settings.product_env_name
        )
        self.view = view
        self.routes = routes
        self.kv = kv
        self.channels = channels
        self.counters = counters
        self.lookup_counts = LookupCounts(view.quoted, view.bare)
        view.on_gone = self.lookup_counts.found
        self.health = health
        self.last_bodies = LastBodies()
        self.alike_bodies = AlikeBodies(lambda topics: self.routes.encode(topics))
        self.large_registrations = asyncio.Semaphore(LARGE_AT_ONCE)
        self.draining = False
        self.in_flight = 0
        self._opaque = 0

    def use_shared(self, shared: Mapping[str, str]) -> None:
        """Take over the shared run-time configuration; encoded answers are made anew where it matters."""
        self.shared = dict(shared)
        settings = with_shared(self._own_settings, shared)
        self.settings = settings = without(settings, self.behaviour.ignored_settings)
        view = self.view
        # in cluster-test mode the order configuration always comes along (Java: ClusterTestRequestProcessor)
        wanted = settings.support_acting_master, settings.order_message_enable or settings.cluster_test
        if (view.acting_master, view.order_messages) != wanted:
            view.acting_master, view.order_messages = wanted
            view.forget_answers()

    async def effect(self, seq: int) -> None:
        """Wait until this worker's view shows the change: answers come after their effect."""
        await self.view.wait_for(seq, self.settings.redis_timeout_ms / 1000)

    def check_store(self) -> None:
        """Fail at once while Redis is known to be away.

        Raises:
            StoreUnavailable: it is.
        """
        if self.health.away:
            raise StoreUnavailable("the registry's Redis is away; nothing was changed, try again")

    def next_opaque(self) -> int:
        """For requests that carry none: Java answers with a number of its own."""
        self._opaque += 1
        return self._opaque
