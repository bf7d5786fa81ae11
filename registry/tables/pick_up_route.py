"""Computes one topic's route from the tables. Source: RouteInfoManager.pickupTopicRouteData (RocketMQ 5.x)."""

from __future__ import annotations

from ..model import MASTER_ID, ORDER_TOPIC_CONFIG, PERM_WRITE, BrokerRow, QueueData, TopicRoute, who
from .tables import Tables

# A 5.x broker asks for its own brokerName by a topic with this prefix; the answer always has the true ids.
SYNC_BROKER_MEMBER_GROUP_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"


def pick_up_route(
    tables: Tables,
    topic: str,
    *,
    acting_master: bool = False,
    order_messages: bool = False,
    live_by_cluster: bool = True,
) -> TopicRoute | None:
    """One topic's route.

    Args:
        acting_master: a brokerName without a master shows its lowest id as master (setting supportActingMaster).
        order_messages: the route has the topic's ORDER_TOPIC_CONFIG (setting orderMessageEnable).
        live_by_cluster: filter servers are stored by (cluster, address); else by the address alone (4.8).

    Returns:
        None when the topic has no queue data, or none of its brokerNames has a row.
    Cost: O(brokerNames of the topic).
    """
    queue_datas = tables.topics.get(topic)
    if not queue_datas:
        return None
    rows = {name: row for name in queue_datas if (row := tables.brokers.get(name)) is not None}
    if not rows:
        return None
    filter_servers: dict[str, list[str]] = {}
    if tables.filter_servers:
        for row in rows.values():
            for addr in row.broker_addrs.values():
                servers = tables.filter_servers.get(who(row.cluster if live_by_cluster else "", addr))
                if servers:
                    filter_servers[addr] = servers
    if acting_master and not topic.startswith(SYNC_BROKER_MEMBER_GROUP_PREFIX):
        for name in [name for name, row in rows.items() if MASTER_ID not in row.broker_addrs]:
            rows[name] = _with_acting_master(rows[name], queue_datas[name])
    return TopicRoute(
        queue_datas=queue_datas,
        broker_rows=rows,
        filter_servers=filter_servers,
        mappings=tables.mappings.get(topic),
        order_topic_conf=tables.kv.get(ORDER_TOPIC_CONFIG, {}).get(topic) if order_messages else None,
    )


def _with_acting_master(row: BrokerRow, queue_data: QueueData) -> BrokerRow:
    """The row of a brokerName without a master; if the topic may only be read there, the lowest id becomes 0."""
    addrs = row.broker_addrs
    if not addrs or not row.enable_acting_master or queue_data.perm & PERM_WRITE:
        return row
    lowest = min(addrs)
    shown = {broker_id: addr for broker_id, addr in addrs.items() if broker_id != lowest}
    shown[MASTER_ID] = addrs[lowest]
    return BrokerRow(row.cluster, shown, row.zone_name, row.enable_acting_master, row.rev)
