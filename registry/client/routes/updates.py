"""Asks name servers for the routes of topics and puts the answers into the tables, one topic at a time.

Source of the behaviour: MQClientInstance.updateTopicRouteInfoFromNameServer (rocketmq 5.x).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple

from ...errors import ClientClosed, PeerUnavailable, RemoteProtocolError
from ...model import TopicRoute
from ...names import printable
from ...protocol.bodies.route import decode_route
from ...protocol.codes import RequestCode, ResponseCode, with_name
from ..connection import PeerConnection
from ..name_servers import NameServers
from .queues import default_topic_route
from .route_file import RouteFile
from .tables import RouteTables

logger = logging.getLogger(__name__)

_RETRY: Final = "%RETRY%"


class RouteChange(NamedTuple):
    """A changed route, for a listener.

    Attributes:
        before: the topic's route before; None if it was not known.
        is_stale: the route comes from the cache file, because no name server answers. The first answer of a name
            server then makes another RouteChange, even if the route is the same.
    """

    topic: str
    before: TopicRoute | None
    route: TopicRoute
    is_stale: bool = False


RouteListener = Callable[[RouteChange], object]


class RouteUpdater:
    """Puts the routes of name servers into the tables; it has no background task.

    Args: see :class:`RouteClient`; file is its cache_file.

    Attributes:
        listeners: called with each change after the tables have it; their errors are logged.
        unknown, stale: unknown_topics and stale_topics of :class:`RouteClient`.
        unread: topic in use whose last answer could not be used -> why.
        away: why no name server answered the last request; None: a name server answered.
    """

    def __init__(
        self,
        name_servers: NameServers,
        *,
        lock_timeout_s: float,
        call_timeout_s: float,
        default_topic: str,
        default_topic_queue_nums: int,
        file: RouteFile | None = None,
    ) -> None:
        self.tables = RouteTables()
        self.listeners: list[RouteListener] = []
        self.unknown: set[str] = set()
        self.stale: set[str] = set()
        self.unread: dict[str, Exception] = {}
        self.away: Exception | None = None
        self.name_servers = name_servers
        self._lock_timeout_s, self._call_timeout_s = lock_timeout_s, call_timeout_s
        self._default_topic, self._default_topic_queue_nums = default_topic, default_topic_queue_nums
        self._lock = asyncio.Lock()
        self._denied: set[str] = set()  # topics that do not exist, while the default topic does not exist either
        self._file = file

    def forget(self, topic: str) -> None:
        """Forget a topic that is no longer in use."""
        self.tables.forget(topic)
        self.unknown.discard(topic)
        self.stale.discard(topic)
        self.unread.pop(topic, None)
        self._denied.discard(topic)
        if self._file is not None:
            self._file.drop(topic)

    async def ask(self, topic: str, *, now: bool = False, over: PeerConnection | None = None) -> TopicRoute | None:
        """Ask for a topic's route without keeping it, see :meth:`RouteClient.lookup`.

        Args:
            now: ask also name servers that failed just before.
            over: ask only the name server of this connection.
        """
        code, ext_fields = RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}
        if over is not None:
            reply = await over.request(code, ext_fields, timeout_s=self._call_timeout_s)
        else:
            reply = await self.name_servers.request(code, ext_fields, timeout_s=self._call_timeout_s, now=now)
        if reply.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if reply.code != ResponseCode.SUCCESS:
            answered = with_name(reply.code, ResponseCode)
            raise RemoteProtocolError(f"the name server answers code {answered}: {reply.remark}")
        return decode_route(reply.body)

    async def update(self, topic: str, *, use_default: bool = False, over: PeerConnection | None = None) -> bool:
        """Ask for one topic's route and put it into the tables, see :meth:`RouteClient.update`."""
        try:
            return await self._update(topic, use_default=use_default, over=over)
        except PeerUnavailable as error:
            if over is not None:
                raise
            self._away(error)
            return False

    async def poll(self, *, needed_only: bool = False, over: PeerConnection | None = None) -> None:
        """Ask for the routes of all topics in use, see :meth:`RouteClient.poll`."""
        topics = sorted(topic for topic in self.tables.topics if not needed_only or self.tables.needs_update(topic))
        try:
            for number, topic in enumerate(topics):
                # The first request also goes to name servers that failed just before.
                await self._poll_topic(topic, now=number == 0, over=over)
        except PeerUnavailable as error:  # other topics would get the same error
            if over is not None:
                raise
            self._away(error)

    async def _poll_topic(self, topic: str, *, now: bool, over: PeerConnection | None) -> None:
        try:
            await self._update(topic, now=now, over=over)
        except (PeerUnavailable, ClientClosed):
            raise
        except Exception as error:  # a defect with one topic must not stop the updates of other topics
            if topic not in self.unread:
                logger.exception("route of %s; what is known is kept", topic)
            self.unread[topic] = error

    async def _update(
        self, topic: str, *, use_default: bool = False, now: bool = False, over: PeerConnection | None = None
    ) -> bool:
        """As ``update``; raises PeerUnavailable also without ``over``."""
        try:
            async with asyncio.timeout(self._lock_timeout_s):
                await self._lock.acquire()
        except TimeoutError:
            logger.warning("route of %s: others are being updated for %g s, not asked", topic, self._lock_timeout_s)
            if over is not None:  # an announced change must not be lost
                raise PeerUnavailable(f"the route of {topic} could not be asked for in time") from None
            return False
        try:
            route = await self.ask(self._default_topic if use_default else topic, now=now, over=over)
            if self.away is not None:
                logger.warning("a name server answers again")
            self.away = None
            if route is None:
                self.unread.pop(topic, None)
                self._is_unknown(topic, use_default)
                return False
            if use_default:
                if topic in self.tables.routes:
                    return False
                route = default_topic_route(route, self._default_topic_queue_nums)
            else:
                self.unknown.discard(topic)
            changed = self._take_in(topic, route, is_default=use_default)
            self.unread.pop(topic, None)
            return changed
        except RemoteProtocolError as error:
            if topic not in self.unread:
                logger.log(self._level(topic), "route of %s: %s; what is known is kept", topic, error)
            self.unread[topic] = error
            return False
        finally:
            self._lock.release()

    def _level(self, topic: str) -> int:
        """The log level of a topic's fault; as in Java, a missing retry topic or default topic is no fault."""
        return logging.INFO if topic.startswith(_RETRY) or topic == self._default_topic else logging.WARNING

    def _is_unknown(self, topic: str, is_default: bool) -> None:
        if topic not in self.tables.topics:  # it was forgotten while its route was asked for
            return
        if is_default and topic not in self._denied:
            self._denied.add(topic)
            logger.warning("the name server knows neither the topic %s nor %s", topic, self._default_topic)
        elif not is_default and topic not in self.unknown:
            is_known = topic in self.tables.routes
            # For a topic to send to, the default topic is asked for next; if it is also unknown, a warning follows.
            level = logging.INFO if topic in self.tables.published and not is_known else self._level(topic)
            kept = "; what is known is kept" if is_known else ""
            logger.log(level, "the name server does not know the topic %s%s", topic, kept)
        self.unknown.add(topic)
        if self._file is not None:
            self._file.drop(topic)

    def _take_in(self, topic: str, route: TopicRoute, *, is_default: bool = False, is_stale: bool = False) -> bool:
        if topic not in self.tables.topics:  # it was forgotten while its route was asked for
            return False
        before = self.tables.routes.get(topic)
        was_stale = topic in self.stale
        changed = self.tables.update(topic, route)
        if is_stale:
            self.stale.add(topic)
        else:
            self.stale.discard(topic)
            if self._file is not None and not is_default:
                self._file.keep(topic, route)
        if not changed and (is_stale or not was_stale):
            return False
        self._denied.discard(topic)
        if before is None:
            logger.info("the route of %s is known: %s", topic, _in_words(route))
        elif changed:
            logger.info("the route of %s changed: it was %s; it is %s", topic, _in_words(before), _in_words(route))
        else:
            logger.info("the route of %s is still that of the file", topic)
        for listener in list(self.listeners):
            try:
                listener(RouteChange(topic, before, route, is_stale))
            except Exception:  # a defect of the application's function; the other listeners are called
                logger.exception("a listener failed with the change of %s", topic)
        return True

    def _away(self, error: Exception) -> None:
        if self.away is None:
            logger.warning("%s; what is known is kept", error)
        self.away = error
        if self._file is not None:
            for topic in sorted(self.tables.topics & self._file.kept.keys()):
                if topic in self.stale or topic not in self.tables.routes:
                    self._recall(self._file, topic)

    def _recall(self, file: RouteFile, topic: str) -> None:
        """Use the route in the file, because no name server answers."""
        if not self.tables.needs_update(topic):
            return
        kept = file.kept[topic]
        if topic not in self.stale:
            at = datetime.fromtimestamp(kept.at_ms / 1000).strftime("%Y-%m-%d %H:%M:%S")
            logger.warning(
                "the route of %s is that of the file, which a name server told at %s: it may be stale", topic, at
            )
        try:
            self._take_in(topic, kept.route, is_stale=True)
        except RemoteProtocolError as error:
            logger.warning("the route of %s in the file cannot be used: %s", topic, error)
            file.drop(topic)


def _in_words(route: TopicRoute) -> str:
    """A route in words, for one line of a log."""
    found = []
    for name, data in sorted(route.queue_datas.items()):
        row = route.broker_rows.get(name)
        where = ", ".join(f"{addr} id {id}" for id, addr in sorted(row.broker_addrs.items())) if row else ""
        found.append(
            f"{name} {data.read_queue_nums} read, {data.write_queue_nums} write, perm {data.perm}, at {where or 'none'}"
        )
    return printable("; ".join(found) or "no broker")
