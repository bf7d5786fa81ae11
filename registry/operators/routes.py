"""Computes topics' routes as clients get them."""

from __future__ import annotations

from collections.abc import Iterable

from ..behaviour import behaviour_of
from ..config.in_force import in_force
from ..config.settings import Settings
from ..model import TopicRoute
from ..store.operator_reads import read_topic_tables
from ..store.store import Store
from ..tables.pick_up_route import pick_up_route
from ..tables.tables import Tables


async def read_route(store: Store, own: Settings, topic: str) -> TopicRoute | None:
    """One topic's route as clients of a front end with these settings get it; None: there is no such topic."""
    return route_of(await read_topic_tables(store, topic), own, topic, store.compat)


def route_of(tables: Tables, own: Settings, topic: str, compat: str) -> TopicRoute | None:
    """One topic's route from tables that hold this topic; None: there is no such topic."""
    return routes_of(tables, own, [topic], compat).get(topic)


def routes_of(tables: Tables, own: Settings, topics: Iterable[str], compat: str) -> dict[str, TopicRoute]:
    """The routes of many topics; a topic that has none is left out."""
    settings, live_by_cluster = in_force(own, tables.config, compat=compat), behaviour_of(compat).live_by_cluster
    routes = (
        (topic, pick_up_route(
            tables, topic, acting_master=settings.support_acting_master, order_messages=settings.has_order_in_routes,
            live_by_cluster=live_by_cluster,
        ))
        for topic in topics
    )  # fmt: skip
    return {topic: route for topic, route in routes if route is not None}
