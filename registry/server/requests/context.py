"""Holds what the request handlers of one worker share: settings, view, stores, counters."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, TypeVar

from ...auth.rights import Kind, Resource
from ...behaviour import behaviour_of
from ...config.in_force import in_force
from ...config.settings import Settings
from ...errors import NotDecided, RegistryError, StoreUnavailable
from ...events.by import By
from ...events.changes import ConfigSet
from ...model import DataVersion, Registration
from ...protocol.bodies.crc32 import BodyCrcs
from ...protocol.codes import Encoding
from ...protocol.command import Command
from ...store.config_writes import KvStore
from ...store.route_writes import RouteStore, Touched
from ..auth.authorization import Authorization
from ..auth.caller import Signer
from ..auth.peer import Peer
from ..counting.counters import Counters
from ..limits.rates import Rates
from ..view.channels import ChannelOwner
from ..view.effects import Effects
from ..view.follower import Follower
from ..view.lookup_counts import LookupCounts
from ..view.route_answers import RouteAnswers
from ..view.route_watches import RouteWatches
from ..view.view import Applied, View
from .chunk_cache import ChunkCache
from .decoding_turns import DecodingTurns
from .deleted_topics import DeletedTopics
from .product_environment import ProductEnvironment
from .replies import Replies

T = TypeVar("T")

# The most calls of a script for one request: each call may return resources for which the right was not checked.
_MOST_DECISIONS: Final = 10
# The front ends give a Redis back the changes that it lost in less than this time, even if the first of them ends
# meanwhile: another front end continues after RESTORER_TIMEOUT_MS (lua/restore_changes).
_GIVEN_BACK_S: Final = 6.0
# The most topics of a registration that are checked before other requests get a turn.
_CHECKED_AT_ONCE: Final = 500


class NotAllowed(RegistryError):
    """The rules refuse a request; nothing was changed. The request is answered with code 16 (NO_PERMISSION)."""


class SenderGone(RegistryError):
    """The sender of a request has closed the connection; nothing was changed."""


def log_write(logger: logging.Logger, by: By, text: str, *arguments: object) -> None:
    """Log what a request changed, and its author."""
    logger.info(f"{text}, by %s", *arguments, by)


class RequestContext:
    """What the request handlers of one worker share."""

    def __init__(
        self,
        settings: Settings,
        view: View,
        routes: RouteStore,
        kv: KvStore,
        channels: ChannelOwner,
        counters: Counters,
        health: Follower,
    ) -> None:
        self.behaviour = behaviour = behaviour_of(settings.compat)
        self.replies = Replies(behaviour.reply_version, behaviour.faq, Encoding[settings.serialize_type])
        self._own_settings = settings
        self.settings = settings = in_force(settings, {})
        self.rates = Rates(settings)
        self.shared: Mapping[str, str] = {}
        self.product = ProductEnvironment(
            settings.product_env_namesrv_addr, settings.product_env_namesrv_domain, settings.product_env_name
        )
        self.view = view
        self.routes = routes
        self.kv = kv
        self.channels = channels
        self.counters = counters
        self.answers = RouteAnswers(view, behaviour)
        self.lookup_counts = LookupCounts(self.answers.quoted, self.answers.bare)
        self.answers.on_gone = self.lookup_counts.found
        self.watches = RouteWatches()
        self.effects = Effects(view)
        self.deleted_topics = DeletedTopics(are_restored=behaviour.restores_deleted_topics)
        for listener in (self.answers, self.watches, self.deleted_topics, self.effects):
            view.subscribe(listener.applied, listener.replaced)
        view.subscribe(self._applied, lambda epoch, seq: self.use_shared(view.tables.config))
        self.health = health
        self.chunks = ChunkCache(lambda topics: self.routes.encode(topics))
        self.body_crcs = BodyCrcs()
        self.decoding_turns = DecodingTurns()
        self.draining = False
        self.in_flight = 0
        self.authorization: Authorization | None = None
        """Decides on every request; None: every request is allowed (auth mode off)."""
        self.on_policy: Callable[[], object] = lambda: None
        self.signed_again: Callable[[], Collection[Signer]] = lambda: ()
        """Returns the signers of the lookups that the cache answered since the last call."""
        self._opaque = 0

    def _applied(self, applied: Applied) -> None:
        if isinstance(applied.change, ConfigSet):
            self.use_shared(self.view.tables.config)

    def use_shared(self, shared: Mapping[str, str]) -> None:
        """Apply the shared run-time configuration. Routes are encoded again if it changes them."""
        self.shared = dict(shared)
        self.settings = settings = in_force(self._own_settings, shared)
        self.rates.configure(settings)
        if self.answers.configure(
            acting_master=settings.support_acting_master, order_messages=settings.has_order_in_routes
        ):
            self.watches.all_changed()

    def authorize(self, authorization: Authorization | None) -> None:
        """Use this authorization for every request that has not started yet."""
        self.authorization = authorization
        self.on_policy()

    async def decided(self, command: Command, peer: Peer, write: Callable[[str], Awaitable[T]]) -> T:
        """Run a script; while it returns resources that the rules were not asked about, ask, and run it again.

        Args:
            write: calls the script, given its argument for lua/include/owner; "" = authentication is off.

        Raises:
            NotAllowed: the request is refused, and no call changed anything.
        """
        for _ in range(_MOST_DECISIONS):
            authorization = self.authorization
            try:
                return await write("" if authorization is None else authorization.owner(peer))
            except NotDecided as error:
                refusal = authorization and authorization.of_rows(command, peer, error.resources)
                if refusal:
                    raise NotAllowed(refusal.text) from None
        raise StoreUnavailable("others keep changing the same rows; try again")

    def check_owner(self, command: Command, peer: Peer, owner: str) -> None:
        """Check that the broker of a request has no owner: another user who registered it.

        Raises:
            NotAllowed: it has an owner (not ""), and the mode is enforce; nothing was changed.
        """
        if owner and self.authorization is not None:
            refusal = self.authorization.not_owner(command, peer, owner)
            if refusal is not None:
                raise NotAllowed(refusal.text)

    async def touch(
        self, command: Command, peer: Peer, cluster: str, broker_addr: str, only_version: DataVersion | None = None
    ) -> Touched:
        """Note a broker's sign of life, and that it came over this connection.

        Args:
            only_version: refresh only if this is the broker's data version; None: always.

        Raises:
            NotAllowed: another user registered the broker, or no rule permits the refresh; nothing was refreshed.
            StoreUnavailable: Redis is away.
        """
        self.begin_write()
        size = len(command.body)
        touched = await self.decided(
            command, peer,
            lambda owner: self.routes.touch_broker(
                cluster, broker_addr, peer.channel, size, only_version=only_version, owner=owner
            ),
        )  # fmt: skip
        self.check_owner(command, peer, touched.owner)
        if touched.refreshed:
            self.channels.touched(self.behaviour.who(cluster, broker_addr), peer)
        return touched

    def binds_topics(self, peer: Peer) -> bool:
        """Whether a rule says which topics the sender of a registration may bring."""
        return self.authorization is not None and self.authorization.binds_topics(peer)

    async def check_content(self, peer: Peer, registration: Registration) -> None:
        """Check that the sender may register the topics of a registration, and the brokerNames of its static topics.

        Raises:
            NotAllowed: he may not, and the mode is enforce; nothing was changed.
        """
        authorization = self.authorization
        if authorization is None:
            return
        names = {name for name, _ in registration.mappings.values()} - {registration.broker_name}
        found = [Resource(Kind.BROKER, name) for name in sorted(names)]
        if authorization.binds_topics(peer):
            found += [Resource(Kind.TOPIC, name) for name in (*registration.topics, *registration.mappings)]
        for first in range(0, len(found), _CHECKED_AT_ONCE):
            refusal = authorization.of_content(peer, found[first : first + _CHECKED_AT_ONCE])
            if refusal is not None:
                raise NotAllowed(refusal.text)
            await asyncio.sleep(0)

    def cluster_of(self, broker_name: str) -> str | None:
        """The cluster of a brokerName's row, as far as the view knows it."""
        row = self.view.tables.brokers.get(broker_name)
        return None if row is None else row.cluster

    def clusters_with(self, topic: str, cluster: str) -> set[str]:
        """The clusters that lose this topic when it is deleted in ``cluster``, as far as the view knows."""
        tables = self.view.tables
        names = set(tables.topics.get(topic, ()))
        if cluster and self.behaviour.deletes_in_one_cluster:
            names &= tables.clusters.get(cluster, set())
        return {tables.brokers[name].cluster for name in names if name in tables.brokers}

    def by(self, peer: Peer) -> By:
        """The author of the events that a request over this connection causes."""
        return self.channels.by(peer, peer.caller)

    async def effect(self, seq: int) -> None:
        """Wait until this worker's view shows the change with this seq, so that an answer comes after its effect.

        Raises:
            StoreUnavailable: the view does not show the change within the Redis timeout.
            ChangesLost: Redis has lost the change meanwhile.
        """
        await self.effects.wait_for(seq, self.settings.redis_timeout_ms / 1000)

    async def given_back(self) -> None:
        """Wait until Redis has all changes that the view has (usually at once), so that a write sees them.

        Raises:
            StoreUnavailable: Redis does not have them in time.
        """
        if self.view.has_lost and self.view.freshness.redis_answers:
            await self.effects.wait_for_other_tables(_GIVEN_BACK_S)

    def begin_write(self) -> None:
        """Refuse a write (StoreUnavailable) while Redis is known to be away."""
        if not self.view.freshness.redis_answers:
            raise StoreUnavailable("the registry's Redis is away; nothing was changed, try again")

    def next_opaque(self) -> int:
        """A new opaque, for the answer to a request that has none; as in Java."""
        self._opaque += 1
        return self._opaque
