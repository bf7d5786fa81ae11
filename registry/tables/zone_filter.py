"""Limits a route to one zone. Source: ZoneRouteRPCHook (RocketMQ 5.x)."""

from __future__ import annotations

import msgspec

from ..model import MASTER_ID, TopicRoute


def in_zone(route: TopicRoute, zone_name: str) -> TopicRoute:
    """The route with only the brokerNames of this zone (in any case), and brokerNames without a master.

    If no brokerName is left, the route has empty lists (``docs/semantics.md 39``).
    """
    rows = {
        name: row
        for name, row in route.broker_rows.items()
        if MASTER_ID not in row.broker_addrs or (row.zone_name or "").lower() == zone_name.lower()
    }
    gone = {addr for name, row in route.broker_rows.items() if name not in rows for addr in row.broker_addrs.values()}
    return msgspec.structs.replace(
        route,
        queue_datas={name: data for name, data in route.queue_datas.items() if name in rows},
        broker_rows=rows,
        filter_servers={addr: servers for addr, servers in route.filter_servers.items() if addr not in gone},
    )
