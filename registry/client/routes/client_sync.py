"""RouteClient for programs without an event loop.

What is known is read in the caller's thread; only what has to be asked for goes through the background thread. About
threads, forks, closing and Ctrl-C see :mod:`mqregistry.client.sync_client`.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping

from ...errors import NoRoute
from ...model import MASTER_ID, TopicRoute
from ...protocol.codes import Encoding
from ..addresses import AddressSpec, NameServerAddresses
from ..connection import MAX_IN_FLIGHT, REQUEST_TIMEOUT_S, OnRequest
from ..name_servers import BACKOFF_FIRST_S, BACKOFF_MOST_S
from ..sync_client import SyncClient
from .client import (
    CALL_TIMEOUT_S,
    LOCK_TIMEOUT_S,
    POLL_EVERY_S,
    POLL_FIRST_S,
    RouteClient,
)
from .push import PUSH_ANSWER_S
from .queues import DEFAULT_TOPIC, DEFAULT_TOPIC_QUEUE_NUMS, MessageQueue, PublishInfo
from .tables import FoundBroker
from .updates import RouteListener


class RouteClientSync(SyncClient[RouteClient]):
    """``with RouteClientSync("host:9876;host:9876") as client: queue = client.select_queue("orders")``.

    Arguments, results and errors are those of :class:`RouteClient`; in addition every method raises ClientClosed
    before it is opened, after it was closed, and in a forked child, where what is known would only grow old. It takes
    no NameServers, which belongs to the caller's event loop.
    """

    def __init__(
        self,
        name_servers: NameServerAddresses | AddressSpec = None,
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
        cache_file: str | os.PathLike[str] | None = None,
        connect_timeout_s: float = REQUEST_TIMEOUT_S,
        backoff_first_s: float = BACKOFF_FIRST_S,
        backoff_most_s: float = BACKOFF_MOST_S,
        tls: ssl.SSLContext | None = None,
        encoding: Encoding = Encoding.JSON,
        max_in_flight: int = MAX_IN_FLIGHT,
        on_request: OnRequest | None = None,
    ) -> None:
        super().__init__(
            RouteClient(
                name_servers, push=push, push_answer_s=push_answer_s, default_topic=default_topic,
                default_topic_queue_nums=default_topic_queue_nums, latency_fault_tolerance=latency_fault_tolerance,
                poll_first_s=poll_first_s, poll_every_s=poll_every_s, lock_timeout_s=lock_timeout_s,
                call_timeout_s=call_timeout_s, cache_file=cache_file, connect_timeout_s=connect_timeout_s,
                backoff_first_s=backoff_first_s, backoff_most_s=backoff_most_s, tls=tls, encoding=encoding,
                max_in_flight=max_in_flight, on_request=on_request,
            )
        )  # fmt: skip

    def publish(self, *topics: str, group: str = "") -> None:
        """See :meth:`RouteClient.publish`."""
        self._on_loop(lambda: self._client.publish(*topics, group=group))

    def subscribe(self, *topics: str, group: str = "") -> None:
        """See :meth:`RouteClient.subscribe`."""
        self._on_loop(lambda: self._client.subscribe(*topics, group=group))

    def forget(self, *topics: str, group: str = "") -> None:
        """See :meth:`RouteClient.forget`."""
        self._on_loop(lambda: self._client.forget(*topics, group=group))

    def publish_info(self, topic: str) -> PublishInfo:
        """See :meth:`RouteClient.publish_info`."""
        info = self._known.tables.publish_infos.get(topic) if isinstance(topic, str) else None
        return info if info is not None and info.is_ok else self._call(self._client.publish_info, topic)

    def subscribe_info(self, topic: str) -> tuple[MessageQueue, ...]:
        """See :meth:`RouteClient.subscribe_info`."""
        queues = self._known.tables.subscribe_infos.get(topic) if isinstance(topic, str) else None
        return queues if queues is not None else self._call(self._client.subscribe_info, topic)

    def select_queue(self, topic: str, last_broker_name: str | None = None) -> MessageQueue:
        """See :meth:`RouteClient.select_queue`."""
        queue = self._client.selector.select(topic, self.publish_info(topic), last_broker_name)
        if queue is None:
            raise NoRoute(self._client.why_no_route(topic))
        return queue

    def report(self, broker_name: str, latency_ms: float = 0.0, *, failed: bool = False) -> None:
        """See :meth:`QueueSelector.report`."""
        self._known.selector.report(broker_name, latency_ms, failed=failed)

    def lookup(self, topic: str) -> TopicRoute | None:
        """See :meth:`RouteClient.lookup`."""
        return self._call(self._client.lookup, topic)

    def update(self, topic: str) -> bool:
        """See :meth:`RouteClient.update`."""
        return self._call(self._client.update, topic)

    @property
    def routes(self) -> Mapping[str, TopicRoute]:
        """See :attr:`RouteClient.routes`; a copy."""
        return dict(self._known.routes)

    @property
    def stale_topics(self) -> frozenset[str]:
        """See :attr:`RouteClient.stale_topics`."""
        return self._known.stale_topics

    def find_broker_addr_in_publish(self, broker_name: str) -> str | None:
        """See :meth:`RouteTables.find_broker_addr_in_publish`."""
        return self._known.find_broker_addr_in_publish(broker_name)

    def find_broker_addr_in_subscribe(
        self, broker_name: str, broker_id: int = MASTER_ID, *, only_this_broker: bool = False
    ) -> FoundBroker | None:
        """See :meth:`RouteTables.find_broker_addr_in_subscribe`."""
        return self._known.find_broker_addr_in_subscribe(broker_name, broker_id, only_this_broker=only_this_broker)

    def on_route_change(self, listener: RouteListener) -> Callable[[], None]:
        """As :meth:`RouteClient.on_route_change`; the listener is called in the background thread.

        It may read what is known; a call that would have to ask a name server raises RuntimeError there.
        """
        return self._known.on_route_change(listener)  # changing a list is safe from any thread

    @property
    def _known(self) -> RouteClient:
        self._background.check_open()
        return self._client
