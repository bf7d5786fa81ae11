"""Defines the normal form in which sides are compared. A side is a name server, a Redis, or a past moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from ..model import BrokerRow, TopicRoute
from ..operators.words import perm

OWN_KEYS: Final = frozenset({"listenPort", "bindAddress", "rocketmqHome", "kvConfigPath", "configStorePath"})
"""Keys of request 319 whose values differ even between name servers of one machine."""

FIVE_ALONE: Final = frozenset({"zoneName", "enableActingMaster", "static queues"})
"""Parts of a row or a route that a NameServer of 4.x does not have (docs/semantics.md, version rows 12 and 15)."""


Parts = dict[tuple[str, str], str]
"""Parts of a cell: (name of the part, its brokerName or address, "" = none) -> its value, as people read it."""


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What one reading of a side found."""

    clusters: Mapping[str, frozenset[str]] = {}  # cluster -> its brokerNames
    brokers: Mapping[str, BrokerRow] = {}
    routes: Mapping[str, TopicRoute] = {}  # topic -> the route that a client gets
    kv: Mapping[str, Mapping[str, str]] = {}  # KV namespaces that have keys
    config: Mapping[str, str] = {}  # key of request 319 -> value
    answers: Mapping[str, Parts] = {}  # request -> the parts of its answer that no table has
    is_java: bool = False  # the side is a Java NameServer; false: a front end, a Redis or the lake
    is_five: bool = True  # the side has the parts that only 5.x has
    untold: Mapping[str, str] = {}  # cluster, broker, topic, kv or config -> why it could not be read here


def normal_row(row: BrokerRow) -> BrokerRow:
    """A broker row without the parts that only Redis has; an empty zone name counts as no zone."""
    return BrokerRow(row.cluster, row.broker_addrs, row.zone_name or None, row.enable_acting_master)


def normal_route(route: TopicRoute) -> TopicRoute:
    """A route with its lists and JSON texts sorted."""
    encode = msgspec.json.Encoder(order="sorted").encode
    return TopicRoute(
        route.queue_datas,
        {name: normal_row(row) for name, row in route.broker_rows.items()},
        {addr: sorted(servers) for addr, servers in route.filter_servers.items() if servers},
        {name: encode(msgspec.json.decode(one)).decode() for name, one in (route.mappings or {}).items()} or None,
        route.order_topic_conf,
    )


def normal_clusters(clusters: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """Cluster -> its brokerNames."""
    return {cluster: frozenset(names) for cluster, names in clusters.items()}


def normal_kv(kv: Mapping[str, Mapping[str, str]]) -> dict[str, Mapping[str, str]]:
    """The KV namespaces that have keys."""
    return {name: table for name, table in kv.items() if table}


def row_parts(row: BrokerRow, at: str = "") -> Parts:
    """The parts of a broker row."""
    addrs = ", ".join(f"{broker_id} {addr}" for broker_id, addr in sorted(row.broker_addrs.items()))
    parts = {
        ("cluster", at): row.cluster,
        ("addresses", at): addrs or "none",
        ("enableActingMaster", at): str(row.enable_acting_master).lower(),
    }
    if row.zone_name is not None:
        parts["zoneName", at] = row.zone_name
    return parts


def route_parts(route: TopicRoute) -> Parts:
    """The parts of a route that are compared one by one."""
    parts: Parts = {}
    for name, data in route.queue_datas.items():
        parts["queues", name] = f"{data.read_queue_nums} read, {data.write_queue_nums} write"
        parts["perm", name] = perm(data.perm)
        parts["topicSysFlag", name] = str(data.topic_sys_flag)
    for name, row in route.broker_rows.items():
        parts |= row_parts(row, name)
    for addr, servers in route.filter_servers.items():
        parts["filter servers", addr] = ", ".join(servers)
    for name, mapping in (route.mappings or {}).items():
        parts["static queues", name] = mapping
    if route.order_topic_conf is not None:
        parts["orderTopicConf", ""] = route.order_topic_conf
    return parts
