"""Finds the routes of an application's topics, and follows their changes.

Source of the behaviour: MQClientInstance and DefaultMQProducerImpl.tryToFindTopicPublishInfo (rocketmq 5.x).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from typing import Final, Self, Unpack

from ...errors import ClientClosed, ConfigError, NoRoute, RemoteProtocolError
from ...model import MASTER_ID, TopicRoute
from ...tasks import wait_within
from ..addresses import AddressSpec, NameServerAddresses
from ..checks import MAX_QUEUES, check_callable, check_range, check_seconds, check_topic_name
from ..connection import PeerConnection
from ..name_servers import NameServers, NameServersOptions
from .push import PUSH_ANSWER_S, RoutePush
from .queues import DEFAULT_TOPIC, DEFAULT_TOPIC_QUEUE_NUMS, MessageQueue, PublishInfo
from .route_file import RouteFile
from .selection import QueueSelector
from .tables import FoundBroker
from .updates import RouteChange, RouteListener, RouteUpdater

logger = logging.getLogger(__name__)

CALL_TIMEOUT_S: Final = 3.0
_NOBODY: Final = "no name server answers"
# The cache file is written this long after a change.
_WRITE_AFTER_S: Final = 1.0
# Without changes it is written this often, with the times at which name servers last sent the routes.
_WRITE_EVERY_S: Final = 24 * 3600.0


class RouteClient:
    """Keeps the routes of topics up to date while its ``async with`` lasts.

    If a name server cannot be reached, sends an unreadable answer or no longer knows a topic, the known routes stay
    (as in Java), and the background task tries again.

    Args:
        name_servers: addresses in any form that :class:`NameServerAddresses` takes (None: ``NAMESRV_ADDR``), a
            NameServerAddresses, or a NameServers that the caller opens and closes.
        push: besides polling, ask name servers to announce changes; only our name servers can do that.
        push_answer_s: how long to wait for the first answer to a push request; a 4.x name server sends no answer.
        default_topic: the topic whose route is used for sending to a topic that does not exist yet.
        default_topic_queue_nums: the most queues of the default topic that are used at each broker.
        latency_fault_tolerance: see :class:`QueueSelector`.
        poll_first_s, poll_every_s: when the client asks for all routes: first, and then how often.
        lock_timeout_s: how long the update of one topic waits for updates of other topics.
        call_timeout_s: for the answer of one name server.
        cache_file: a file that keeps the routes for the next start (each client needs its own file). Until a name
            server has answered, topics get their route from the file: see ``stale_topics``.
        connect_timeout_s, backoff_first_s, backoff_most_s, tls, encoding, max_in_flight, on_request: see
            :class:`NameServers`; not allowed if name_servers is a NameServers.

    Raises:
        ConfigError: no address was given, here or by the environment.
        TypeError, ValueError: an argument of another type, or a duration that is not positive. Methods with topics
            raise them for a name that is no topic name, and then change nothing.
    """

    def __init__(
        self,
        name_servers: NameServers | NameServerAddresses | AddressSpec = None,
        *,
        push: bool = True,
        push_answer_s: float = PUSH_ANSWER_S,
        default_topic: str = DEFAULT_TOPIC,
        default_topic_queue_nums: int = DEFAULT_TOPIC_QUEUE_NUMS,
        latency_fault_tolerance: bool = False,
        poll_first_s: float = 0.010,
        poll_every_s: float = 30.0,
        lock_timeout_s: float = 3.0,
        call_timeout_s: float = CALL_TIMEOUT_S,
        cache_file: str | os.PathLike[str] | None = None,
        **options: Unpack[NameServersOptions],
    ) -> None:
        check_topic_name(default_topic)
        check_range(default_topic_queue_nums, 1, MAX_QUEUES, "default_topic_queue_nums")
        check_seconds(may_be_0=True, poll_first_s=poll_first_s)
        check_seconds(
            push_answer_s=push_answer_s, poll_every_s=poll_every_s,
            lock_timeout_s=lock_timeout_s, call_timeout_s=call_timeout_s,
        )  # fmt: skip
        self.owns_name_servers = not isinstance(name_servers, NameServers)
        if isinstance(name_servers, NameServers):
            if options:
                raise ConfigError(f"{', '.join(options)} is given with a NameServers: give it to the NameServers")
            self.name_servers = name_servers
        else:
            self.name_servers = NameServers(name_servers, **options)
        self._file = None if cache_file is None else RouteFile(cache_file)
        self._updater = RouteUpdater(
            self.name_servers, lock_timeout_s=lock_timeout_s, call_timeout_s=call_timeout_s,
            default_topic=default_topic, default_topic_queue_nums=default_topic_queue_nums, file=self._file,
        )  # fmt: skip
        self._updater.listeners.append(self._keep_brokers)
        self.tables = self._updater.tables
        self.selector = QueueSelector(latency_fault_tolerance=latency_fault_tolerance)
        self._default_topic = default_topic
        self._poll_first_s, self._poll_every_s = poll_first_s, poll_every_s
        self._tasks: list[asyncio.Task[None]] = []
        self._poll_soon = asyncio.Event()
        self._write_soon = asyncio.Event()
        self._in_use_changed = asyncio.Event()
        self._push = RoutePush(self._updater, self._in_use_changed, answer_s=push_answer_s) if push else None
        self._groups: dict[str, set[str]] = {}  # topic in use -> the groups that use it
        self._open = False

    async def __aenter__(self) -> Self:
        self._open = True
        self.name_servers.on_addresses.append(self._poll_soon.set)
        if self.owns_name_servers:
            await self.name_servers.__aenter__()
        if self._file is not None:
            await asyncio.to_thread(self._file.read)
        self._tasks = [asyncio.create_task(self._poll_for_ever(), name="route poll")]
        if self._file is not None:
            self._tasks.append(asyncio.create_task(self._write_for_ever(self._file), name="route file"))
        if self._push is not None:
            self._tasks.append(asyncio.create_task(self._push.run(), name="route push"))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the background tasks and connections, even if the caller is cancelled; known routes stay readable."""
        self._open = False
        with contextlib.suppress(ValueError):
            self.name_servers.on_addresses.remove(self._poll_soon.set)
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            if self._file is not None:
                self._file.write()
            if self.owns_name_servers:
                await self.name_servers.close()

    def publish(self, *topics: str, group: str = "") -> None:
        """Use topics for sending: keep their routes up to date from now on, in the background.

        Args:
            group: the part of the program that uses the topics; several parts may share a client.
        """
        self._use(self.tables.publish, topics, group)
        self._poll_soon.set()

    def subscribe(self, *topics: str, group: str = "") -> None:
        """Use topics for reading; otherwise as ``publish``."""
        self._use(self.tables.subscribe, topics, group)
        self._poll_soon.set()

    def forget(self, *topics: str, group: str = "") -> None:
        """End the use of topics by this group. Topics that no group uses are forgotten, with their brokers."""
        for topic in topics:
            groups = self._groups.get(topic, set())
            groups.discard(group)
            if not groups:
                self._groups.pop(topic, None)
                self._updater.forget(topic)
                self.selector.forget(topic)
        self._in_use_changed.set()

    def _use(self, use: Callable[[tuple[str, ...]], bool], topics: tuple[str, ...], group: str | None = None) -> None:
        """Use topics for a group; None: for the group "" if no group uses them yet."""
        if use(topics):
            self._in_use_changed.set()
        for topic in topics:
            groups = self._groups.setdefault(topic, set())
            if group is not None or not groups:
                groups.add(group or "")

    @property
    def routes(self) -> Mapping[str, TopicRoute]:
        """Topic in use -> its last known route."""
        return self.tables.routes

    @property
    def push_is_active(self) -> bool:
        """Whether the name server announces changes now; if not, the client only polls."""
        return self._push is not None and self._push.is_active

    @property
    def unknown_topics(self) -> frozenset[str]:
        """Topics in use that do not exist, by the last answer of a name server."""
        return frozenset(self._updater.unknown)

    @property
    def stale_topics(self) -> frozenset[str]:
        """Topics in use whose route comes from the ``cache_file``: no name server has sent one since the start."""
        return frozenset(self._updater.stale)

    def find_broker_addr_in_publish(self, broker_name: str) -> str | None:
        """See :meth:`RouteTables.find_broker_addr_in_publish`."""
        return self.tables.find_broker_addr_in_publish(broker_name)

    def find_broker_addr_in_subscribe(
        self, broker_name: str, broker_id: int = MASTER_ID, *, only_this_broker: bool = False
    ) -> FoundBroker | None:
        """See :meth:`RouteTables.find_broker_addr_in_subscribe`."""
        return self.tables.find_broker_addr_in_subscribe(broker_name, broker_id, only_this_broker=only_this_broker)

    async def publish_info(self, topic: str) -> PublishInfo:
        """Return the queues for sending to a topic, which is in use from now on (tryToFindTopicPublishInfo).

        It asks a name server only if no queues are known. A topic that does not exist gets the queues of the default
        ``topic``: a broker makes the topic with the first message.

        Raises:
            RemoteProtocolError: the topic has no known route, and the answer of the name server cannot be read.
        """
        info = self.tables.publish_infos.get(topic) if isinstance(topic, str) else None
        if info is not None and info.is_ok:
            return info
        self._use(self.tables.publish, (topic,))
        await self.update(topic)
        self._check_read(topic)
        if topic not in self.tables.publish_infos:
            await self.update(topic, use_default=True)
            self._check_read(topic)
        return self.tables.publish_infos.get(topic) or PublishInfo(False, ())

    def _check_read(self, topic: str) -> None:
        """Raise RemoteProtocolError if a topic's route is unknown because it cannot be read: the topic may exist."""
        unread = self._updater.unread.get(topic)
        if unread is not None and topic not in self.tables.publish_infos:
            raise RemoteProtocolError(f"the route of topic {topic!r} cannot be read: {unread}") from unread

    async def subscribe_info(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues for reading a topic, which is in use from now on; () if its route is not known."""
        if not isinstance(topic, str) or topic not in self.tables.subscribe_infos:
            self._use(self.tables.subscribe, (topic,))
            await self.update(topic)
        return self.tables.subscribe_infos.get(topic, ())

    async def select_queue(self, topic: str, last_broker_name: str | None = None) -> MessageQueue:
        """Return the next queue to send to, in turn.

        Args:
            topic: the topic, which is in use from now on.
            last_broker_name: a broker to avoid, because sending this message to it just failed.

        Raises:
            NoRoute: there is no queue.
            RemoteProtocolError: the topic has no known route, and the answer of the name server cannot be read.
        """
        queue = self.selector.select(topic, await self.publish_info(topic), last_broker_name)
        if queue is None:
            raise NoRoute(self.why_no_route(topic))
        return queue

    def why_no_route(self, topic: str) -> str:
        """Explain for an error message why there is no queue to send to."""
        if topic in self.tables.routes:
            return f"topic {topic!r} has no queue to send to: no broker that has it is writable and has a master"
        if topic in self._updater.unknown:
            return (
                f"no name server knows topic {topic!r}, nor {self._default_topic!r}: create it, or let a broker with "
                "autoCreateTopicEnable register"
            )
        why = str(self._updater.away or "").removeprefix(_NOBODY).removeprefix(": ")
        why = f"{_NOBODY}{why and ': ' + why}"
        return f"no route of topic {topic!r}: {why}; it is asked again every {self._poll_every_s:g} s"

    def on_route_change(self, listener: RouteListener) -> Callable[[], None]:
        """Call ``listener`` with each :class:`RouteChange`, on the event loop, after the tables have it.

        Returns:
            a function that ends these calls.

        Raises:
            TypeError: not a function.
        """
        check_callable(listener, "listener")
        self._updater.listeners.append(listener)

        def end() -> None:
            with contextlib.suppress(ValueError):
                self._updater.listeners.remove(listener)

        return end

    async def lookup(self, topic: str) -> TopicRoute | None:
        """Ask for a topic's route now without keeping it; None if there is no such topic.

        Raises:
            PeerUnavailable: no name server answers.
            RemoteProtocolError: the answer is no route, or an error of the name server.
        """
        check_topic_name(topic)
        return await self._updater.ask(topic)

    async def update(self, topic: str, *, use_default: bool = False, over: PeerConnection | None = None) -> bool:
        """Ask for one topic's route and put it into the tables; returns whether it changed.

        If no name server answers, this is logged, and the known routes stay.

        Args:
            use_default: use the default topic's route, if the topic has none yet.
            over: ask only the name server of this connection.

        Raises:
            ClientClosed: the client is not open.
            PeerUnavailable: only with ``over``.
        """
        check_topic_name(topic)
        if not self._open:
            raise ClientClosed("this route client is not open: use it within 'async with'")
        return await self._updater.update(topic, use_default=use_default, over=over)

    async def poll(self, *, needed_only: bool = False, over: PeerConnection | None = None) -> None:
        """Ask for the routes of all topics in use now. If no name server answers, this is logged.

        Args:
            needed_only: ask only for topics in use without known queues.
            over: see ``update``.

        Raises:
            PeerUnavailable: only with ``over``.
        """
        await self._updater.poll(needed_only=needed_only, over=over)

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
            await wait_within(self._poll_soon, due_s - loop.time())

    async def _write_for_ever(self, file: RouteFile) -> None:
        while True:
            await wait_within(self._write_soon, _WRITE_EVERY_S)
            await asyncio.sleep(_WRITE_AFTER_S)  # changes often come several at a time
            self._write_soon.clear()
            await asyncio.to_thread(file.write)

    def _keep_brokers(self, _: RouteChange) -> None:
        self._write_soon.set()
        self.selector.keep_brokers(set(self.tables.broker_addrs))
