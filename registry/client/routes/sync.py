"""RouteClient for programs without an event loop.

What is known is read in the caller's thread, without a detour; only what has to be asked for goes through the
background thread. About threads, forks, closing and Ctrl-C see :mod:`registry.client.sync`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from registry.client.addresses import Addresses, Given
from registry.client.routes.client import Listener, RouteClient
from registry.client.routes.info import MessageQueue, PublishInfo
from registry.client.routes.tables import FoundBroker
from registry.client.sync import SyncFace
from registry.errors import NoRoute
from registry.model import MASTER_ID, TopicRoute


class RouteClientSync(SyncFace[RouteClient]):
    """``with RouteClientSync("host:9876;host:9876") as client: queue = client.select_queue("orders")``.

    Arguments, results and errors are those of :class:`RouteClient`; in addition every method raises ClientClosed
    before it is opened, after it was closed, and in a forked child, where what is known would only grow old.
    """

    def __init__(self, name_servers: Addresses | Given = None, **options: Any) -> None:
        super().__init__(RouteClient(name_servers, **options))

    def publish(self, *topics: str) -> None:
        """See :meth:`RouteClient.publish`."""
        self._on_loop(lambda: self._client.publish(*topics))

    def subscribe(self, *topics: str) -> None:
        """See :meth:`RouteClient.subscribe`."""
        self._on_loop(lambda: self._client.subscribe(*topics))

    def forget(self, *topics: str) -> None:
        """See :meth:`RouteClient.forget`."""
        self._on_loop(lambda: self._client.forget(*topics))

    def publish_info(self, topic: str) -> PublishInfo:
        """See :meth:`RouteClient.publish_info`."""
        info = self._known.tables.publish_infos.get(topic)
        return info if info is not None and info.is_ok else self._call(self._client.publish_info, topic)

    def subscribe_info(self, topic: str) -> tuple[MessageQueue, ...]:
        """See :meth:`RouteClient.subscribe_info`."""
        queues = self._known.tables.subscribe_infos.get(topic)
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

    def find_broker_addr_in_publish(self, broker_name: str) -> str | None:
        """See :meth:`RouteTables.find_broker_addr_in_publish`."""
        return self._known.find_broker_addr_in_publish(broker_name)

    def find_broker_addr_in_subscribe(
        self, broker_name: str, broker_id: int = MASTER_ID, *, only_this_broker: bool = False
    ) -> FoundBroker | None:
        """See :meth:`RouteTables.find_broker_addr_in_subscribe`."""
        return self._known.find_broker_addr_in_subscribe(broker_name, broker_id, only_this_broker=only_this_broker)

    def on_route_change(self, listener: Listener) -> Callable[[], None]:
        """As :meth:`RouteClient.on_route_change`; the listener is called in the background thread.

        It may read what is known, but not wait: what would have to be asked for raises RuntimeError there.
        """
        return self._known.on_route_change(listener)  # changing a list is safe from any thread

    @property
    def _known(self) -> RouteClient:
        self._background.check_open()
        return self._client
