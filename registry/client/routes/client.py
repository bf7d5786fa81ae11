"""Routes for an application: asked for when they are first needed, and kept as the cluster changes.

Source of the behaviour: MQClientInstance and DefaultMQProducerImpl.tryToFindTopicPublishInfo (rocketmq 5.x).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Self

from registry.client.addresses import Addresses, Given
from registry.client.connection import Connection
from registry.client.name_servers import NameServers
from registry.client.routes.info import (
    DEFAULT_TOPIC,
    DEFAULT_TOPIC_QUEUE_NUMS,
    MessageQueue,
    PublishInfo,
    default_topic_route,
    parse_route,
)
from registry.client.routes.push import PUSH_ANSWER_S, RoutePush
from registry.client.routes.selection import QueueSelector
from registry.client.routes.tables import FoundBroker, RouteTables
from registry.errors import ClientClosed, NoRoute, PeerUnavailable, RemoteProtocolError
from registry.model import MASTER_ID, TopicRoute
from registry.protocol.codes import RequestCode, ResponseCode

logger = logging.getLogger(__name__)

POLL_FIRST_S: Final = 0.010
POLL_EVERY_S: Final = 30.0
LOCK_TIMEOUT_S: Final = 3.0
CALL_TIMEOUT_S: Final = 3.0


class RouteChange(NamedTuple):
    """What a listener is told. before: None when the topic's route was not known."""

    topic: str
    before: TopicRoute | None
    route: TopicRoute


Listener = Callable[[RouteChange], object]


class RouteClient:
    """An async context manager.

    Name servers that cannot be reached, or answer nonsense, or no longer know a topic, change nothing in what is
    known (as in Java); the background task goes on trying and never ends by itself.

    Args:
        name_servers: addresses in any form that :class:`Addresses` takes (None: ``NAMESRV_ADDR``), an Addresses, or a
            NameServers that somebody else opens and closes.
        push: be told of changes by name servers that can (ours), beside polling; others are polled only.
        push_answer_s: who does not answer the first such request within this time does not know it (4.x).
        default_topic: its route is that of a topic to send to which does not exist yet.
        latency_fault_tolerance: see :class:`QueueSelector`.
        poll_first_s, poll_every_s, lock_timeout_s, call_timeout_s, default_topic_queue_nums: Java's numbers.
        options: for NameServers: ``tls``, ``encoding``, ``connect_timeout_s``, ...

    Raises:
        ConfigError: no address was given, here or by the environment.
    """

    def __init__(
        self,
        name_servers: NameServers | Addresses | Given = None,
        *,
        push: bool = True,
        push_answer_s: float = PUSH_ANSWER_S,
        default_topic: str = DEFAULT_TOPIC,
        default_topic_queue_nums: int = DEFAULT_TOPIC_QUEUE_NUMS,
        latency_fault_tolerance: bool = False,
        poll_first_s: float = POLL_FIRST_S,
        poll_every_s: float = POLL_EVERY_S,
        lock_timeout_s: float = LOCK_TIMEOUT_S,
        call_timeout_s: float = CALL_TIMEOUT_S,
        **options: Any,
    ) -> None:
        self._own_name_servers = not isinstance(name_servers, NameServers)
        self.name_servers = (
            name_servers if isinstance(name_servers, NameServers) else NameServers(name_servers, **options)
        )
        self.tables = RouteTables()
        self.selector = QueueSelector(latency_fault_tolerance=latency_fault_tolerance)
        self._push = RoutePush(self, answer_s=push_answer_s) if push else None
        self._default_topic, self._default_topic_queue_nums = default_topic, default_topic_queue_nums
        self._poll_first_s, self._poll_every_s = poll_first_s, poll_every_s
        self._lock_timeout_s, self._call_timeout_s = lock_timeout_s, call_timeout_s
        self._lock = asyncio.Lock()
        self._listeners: list[Listener] = []
        self._unknown: set[str] = set()
        self._failed: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._poll_soon = asyncio.Event()
        self.in_use_changed = asyncio.Event()
        """Set when other topics are in use."""
        self._away = False
        self._open = False

    async def __aenter__(self) -> Self:
        self._open = True
        self.name_servers.on_addresses.append(self._addresses_changed)
        if self._own_name_servers:
            await self.name_servers.__aenter__()
        self._tasks = [asyncio.create_task(self._poll_for_ever(), name="route poll")]
        if self._push is not None:
            self._tasks.append(asyncio.create_task(self._push.run(), name="route push"))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the background tasks and hang up; what is known stays readable. Cancelled, it does so all the same."""
        self._open = False
        with contextlib.suppress(ValueError):
            self.name_servers.on_addresses.remove(self._addresses_changed)
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            if self._own_name_servers:
                await self.name_servers.close()

    # topics in use

    def publish(self, *topics: str) -> None:
        """From now on these are kept up to date for sending; their routes are asked for in the background."""
        self._use(self.tables.published, topics)
        self._poll_soon.set()

    def subscribe(self, *topics: str) -> None:
        """From now on these are kept up to date for reading; their routes are asked for in the background."""
        self._use(self.tables.subscribed, topics)
        self._poll_soon.set()

    def forget(self, *topics: str) -> None:
        """These are not used any more; brokers that are in no other route are forgotten, too."""
        for topic in topics:
            self.tables.forget(topic)
            self.selector.forget(topic)
            self._unknown.discard(topic)
            self._failed.discard(topic)
        self.in_use_changed.set()

    def _use(self, used: set[str], topics: tuple[str, ...]) -> None:
        if not used.issuperset(topics):
            used.update(topics)
            self.in_use_changed.set()

    # what is known

    @property
    def routes(self) -> Mapping[str, TopicRoute]:
        """Topic -> the last route known, of the topics in use."""
        return self.tables.routes

    @property
    def push_is_active(self) -> bool:
        """Whether changes are announced at this moment; else they are found by polling."""
        return self._push is not None and self._push.is_active

    @property
    def unknown_topics(self) -> frozenset[str]:
        """Topics in use that the name server, when last asked, said it does not know."""
        return frozenset(self._unknown)

    def find_broker_addr_in_publish(self, broker_name: str) -> str | None:
        """See :meth:`RouteTables.find_broker_addr_in_publish`."""
        return self.tables.find_broker_addr_in_publish(broker_name)

    def find_broker_addr_in_subscribe(
        self, broker_name: str, broker_id: int = MASTER_ID, *, only_this_broker: bool = False
    ) -> FoundBroker | None:
        """See :meth:`RouteTables.find_broker_addr_in_subscribe`."""
        return self.tables.find_broker_addr_in_subscribe(broker_name, broker_id, only_this_broker=only_this_broker)

    async def publish_info(self, topic: str) -> PublishInfo:
        """Where to send messages of a topic, which is in use from now on (tryToFindTopicPublishInfo).

        A topic that does not exist gets the queues of the default topic, where a broker makes it with the first
        message.

        Returns:
            what is known, without asking anybody; else what was found; without queues when nothing was.
        """
        info = self.tables.publish_infos.get(topic)
        if info is not None and info.is_ok:
            return info
        self._use(self.tables.published, (topic,))
        await self.update(topic)
        if topic not in self.tables.publish_infos:
            await self.update(topic, use_default=True)
        return self.tables.publish_infos.get(topic) or PublishInfo(False, ())

    async def subscribe_info(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues to read of a topic, which is in use from now on; none when its route cannot be had."""
        if topic not in self.tables.subscribe_infos:
            self._use(self.tables.subscribed, (topic,))
            await self.update(topic)
        return self.tables.subscribe_infos.get(topic, ())

    async def select_queue(self, topic: str, last_broker_name: str | None = None) -> MessageQueue:
        """The next queue to send to, in turn.

        Args:
            last_broker_name: the broker that failed with this message just before; it is avoided.

        Raises:
            NoRoute: there is none.
        """
        queue = self.selector.select(topic, await self.publish_info(topic), last_broker_name)
        if queue is None:
            raise NoRoute(self.why_no_route(topic))
        return queue

    def why_no_route(self, topic: str) -> str:
        """For an error message."""
        if topic in self.tables.routes:
            return f"topic {topic!r} has no queue to send to: no broker that has it is writable and has a master"
        if topic in self._unknown:
            return (
                f"no name server knows topic {topic!r}, nor {self._default_topic!r}: create it, or let a broker with "
                "autoCreateTopicEnable register"
            )
        return f"no route of topic {topic!r}: no name server answers; it is asked again every {self._poll_every_s:g} s"

    def on_route_change(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with each :class:`RouteChange`, on the event loop, after the tables have it.

        Returns:
            a function that ends it.
        """
        self._listeners.append(listener)

        def end() -> None:
            with contextlib.suppress(ValueError):
                self._listeners.remove(listener)

        return end

    # asking

    async def lookup(self, topic: str) -> TopicRoute | None:
        """Ask now, and keep nothing; None when there is no such topic.

        Raises:
            PeerUnavailable: no name server answers.
            RemoteProtocolError: an answer that is no route, or an error of the name server.
        """
        return await self._ask(topic, now=False)

    async def update(self, topic: str, *, use_default: bool = False, over: Connection | None = None) -> bool:
        """Ask for one topic's route and take it in; whether it changed. Never raises for want of a name server.

        Args:
            use_default: take the default topic's route, if the topic has none yet.
            over: ask this connection's name server and no other.

        Raises:
            ClientClosed: not open.
            PeerUnavailable: only with ``over``.
        """
        if not self._open:
            raise ClientClosed("this route client is not open: use it within 'async with'")
        try:
            return await self._update(topic, use_default=use_default, over=over)
        except PeerUnavailable as error:
            if over is not None:
                raise
            self._is_away(error)
            return False

    async def poll(self, *, needed_only: bool = False, over: Connection | None = None) -> None:
        """Ask for every topic in use, now. Never raises for want of a name server.

        Args:
            needed_only: only for topics that somebody uses and whose queues are not known.
            over: as for update.

        Raises:
            PeerUnavailable: only with ``over``.
        """
        topics = sorted(topic for topic in self.tables.topics if not needed_only or self.tables.needs_update(topic))
        try:
            for number, topic in enumerate(topics):
                # the first asks also those name servers that are left alone because they failed just before
                await self._update(topic, now=number == 0, over=over)
        except PeerUnavailable as error:  # it would be the same with the others
            if over is not None:
                raise
            self._is_away(error)

    async def _update(
        self, topic: str, *, use_default: bool = False, now: bool = False, over: Connection | None = None
    ) -> bool:
        """Raises PeerUnavailable only."""
        try:
            async with asyncio.timeout(self._lock_timeout_s):
                await self._lock.acquire()
        except TimeoutError:
            logger.warning("route of %s: others are being updated for %g s, not asked", topic, self._lock_timeout_s)
            if over is not None:  # an announced change must not be lost
                raise PeerUnavailable(f"the route of {topic} could not be asked for in time") from None
            return False
        try:
            route = await self._ask(self._default_topic if use_default else topic, now=now, over=over)
            self._is_back()
            if route is None:
                self._unknown.add(topic)
                return False
            if use_default:
                if topic in self.tables.routes:
                    return False
                route = default_topic_route(route, self._default_topic_queue_nums)
            else:
                self._unknown.discard(topic)
            changed = self._take_in(topic, route)
            self._failed.discard(topic)
            return changed
        except RemoteProtocolError as error:
            if topic not in self._failed:
                logger.warning("route of %s: %s; what is known is kept", topic, error)
            self._failed.add(topic)
            return False
        finally:
            self._lock.release()

    async def _ask(self, topic: str, *, now: bool, over: Connection | None = None) -> TopicRoute | None:
        code, ext_fields = RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}
        if over is not None:
            reply = await over.request(code, ext_fields, timeout_s=self._call_timeout_s)
        else:
            reply = await self.name_servers.request(code, ext_fields, timeout_s=self._call_timeout_s, now=now)
        if reply.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if reply.code != ResponseCode.SUCCESS:
            raise RemoteProtocolError(f"the name server answers code {reply.code}: {reply.remark}")
        return parse_route(reply.body)

    def _take_in(self, topic: str, route: TopicRoute) -> bool:
        if topic not in self.tables.topics:  # forgotten meanwhile
            return False
        before = self.tables.routes.get(topic)
        if not self.tables.update(topic, route):
            return False
        self.selector.keep_brokers(set(self.tables.broker_addrs))
        logger.info("the route of %s %s", topic, "is known" if before is None else "changed")
        for listener in list(self._listeners):
            try:
                listener(RouteChange(topic, before, route))
            except Exception:
                logger.exception("a listener failed with the change of %s", topic)
        return True

    # the background

    async def _poll_for_ever(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._poll_first_s)
        due_s = 0.0
        while True:
            now_s = loop.time()
            whole = now_s >= due_s
            if whole:
                due_s = now_s + self._poll_every_s
            self._poll_soon.clear()
            try:
                await self.poll(needed_only=not whole)
            except Exception:  # a defect must not end the polling
                logger.exception("polling routes")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(due_s):
                    await self._poll_soon.wait()

    def _addresses_changed(self) -> None:
        self._poll_soon.set()

    def _is_away(self, error: Exception) -> None:
        if not self._away:
            logger.warning("%s; what is known is kept", error)
        self._away = True

    def _is_back(self) -> None:
        if self._away:
            logger.warning("a name server answers again")
        self._away = False
