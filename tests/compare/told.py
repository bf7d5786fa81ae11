"""Contents of sides, made from routes."""

from __future__ import annotations

import msgspec

from mqregistry.compare.content import Content, normal_clusters, normal_route, normal_row
from mqregistry.model import BrokerRow, QueueData, TopicRoute


def content(topics=("orders",), names=("broker-a",), *, java=False, **changes):
    """A side with these topics at each of these brokerNames."""
    rows = {name: BrokerRow("c1", {0: f"10.0.0.{number}:10911"}) for number, name in enumerate(names, 1)}
    routes = {
        topic: TopicRoute({name: QueueData(8, 8, 6) for name in names}, rows, {}) for topic in topics if names
    }  # fmt: skip
    told = Content(
        clusters=normal_clusters({"c1": names}), brokers={name: normal_row(row) for name, row in rows.items()},
        routes={topic: normal_route(route) for topic, route in routes.items()}, is_java=java,
    )  # fmt: skip
    return msgspec.structs.replace(told, **changes)
