"""RouteClient for programs without an event loop.

Known routes are read in the caller's thread; only requests to name servers run in the background thread.
:mod:`mqregistry.client.sync_client` has the rules for threads, forks, closing and Ctrl-C.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...errors import ConfigError, NoRoute
from ...model import MASTER_ID, TopicRoute
from ..sync_client import SyncClient, made_like, on_loop, waits_for
from .client import RouteClient
from .queues import MessageQueue, PublishInfo
from .tables import FoundBroker
from .updates import RouteListener


class RouteClientSync(SyncClient[RouteClient]):
    """``with RouteClientSync("host:9876;host:9876") as client: queue = client.select_queue("orders")``.

    Arguments, results and errors are those of :class:`RouteClient`. Every method also raises ClientClosed before the
    client is opened, after it was closed, and in a forked child, which has no thread that updates the routes. A
    NameServers as argument raises ConfigError: it belongs to the caller's event loop.
    """

    @made_like(RouteClient)
    def __init__(self) -> None:
        if not self._client.owns_name_servers:
            raise ConfigError("a NameServers belongs to an event loop: give its addresses instead")

    publish = on_loop(RouteClient.publish)
    subscribe = on_loop(RouteClient.subscribe)
    forget = on_loop(RouteClient.forget)
    lookup = waits_for(RouteClient.lookup)

    def update(self, topic: str) -> bool:
        """See :meth:`RouteClient.update`."""
        return self._call(self._client.update, topic)

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
        """As :meth:`RouteClient.on_route_change`, but the background thread calls the listener.

        The listener may read known routes; a call that asks a name server raises RuntimeError there.
        """
        return self._known.on_route_change(listener)  # changing a list is safe from any thread

    @property
    def _known(self) -> RouteClient:
        self._background.check_open()
        return self._client
