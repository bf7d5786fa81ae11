"""Decodes and encodes the route of a topic (105) and the cluster table (106); encodes a broker member group (901).

A body that cannot be decoded raises RemoteProtocolError, whose ``closes`` is false.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from ...model import BrokerRow, Int32, QueueData, TopicRoute
from . import wire_json
from .route_lists import broker_json, brokers_json, queue_datas_json
from .wire_json import Int64, TolerantDecoder, WireMapping, integer_map, members, text


class _WireQueueData(msgspec.Struct, rename="camel"):
    broker_name: str | None = None
    read_queue_nums: Int32 = 0
    write_queue_nums: Int32 = 0
    perm: Int32 = 0
    topic_sys_flag: Int32 | None = None
    topic_syn_flag: Int32 = 0  # the name of the same field in 4.8


class _WireBroker(msgspec.Struct, rename="camel"):
    cluster: str | None = None
    broker_name: str | None = None
    broker_addrs: dict[Int64, str] | None = None
    zone_name: str | None = None
    enable_acting_master: bool = False

    def row(self) -> BrokerRow:
        return BrokerRow(self.cluster or "", self.broker_addrs or {}, self.zone_name, self.enable_acting_master)


class _WireRoute(msgspec.Struct, rename="camel"):
    order_topic_conf: str | None = None
    queue_datas: list[_WireQueueData] | None = None
    broker_datas: list[_WireBroker] | None = None
    filter_server_table: dict[str, list[str]] | None = None
    topic_queue_mapping_by_broker: dict[str, WireMapping] | None = None


class _WireClusterInfo(msgspec.Struct, rename="camel"):
    broker_addr_table: dict[str, _WireBroker] | None = None
    cluster_addr_table: dict[str, list[str]] | None = None


_route: Final = TolerantDecoder(_WireRoute, "route")
_cluster_info: Final = TolerantDecoder(_WireClusterInfo, "cluster table")


def encode_route(route: TopicRoute, *, quoted_keys: bool, topic_syn_flag: bool = False) -> bytes:
    """Write a route as the NameServer answers 105.

    Args:
        quoted_keys: quote broker and queue ids, which makes standard JSON: for clients from version 401 on, and clients
            that ask for it.
        topic_syn_flag: the form of 4.8: topicSynFlag instead of topicSysFlag, and no enableActingMaster, zoneName or
            mappings.

    Returns:
        compact JSON; brokers in the order of their names (in Java the order is arbitrary).
    """
    five = not topic_syn_flag
    brokers = brokers_json(route.broker_rows, quoted_keys, acting_master=five)
    queues = queue_datas_json(route.queue_datas, topic_syn_flag=topic_syn_flag)
    mappings = None
    if five and route.mappings:
        mappings = members(
            (name, _mapping_json(mapping, quoted_keys)) for name, mapping in sorted(route.mappings.items())
        )
    filters = b"{}" if not route.filter_servers else text(dict(sorted(route.filter_servers.items())))
    if mappings is None and route.order_topic_conf is None:
        return b'{"brokerDatas":%b,"filterServerTable":%b,"queueDatas":%b}' % (brokers, filters, queues)
    return members(
        (
            ("brokerDatas", brokers),
            ("filterServerTable", filters),
            ("orderTopicConf", None if route.order_topic_conf is None else text(route.order_topic_conf)),
            ("queueDatas", queues),
            ("topicQueueMappingByBroker", mappings),
        )
    )


def _mapping_json(mapping: str, quoted_keys: bool) -> bytes:
    return wire_json.encode_mapping(wire_json.decode_mapping(mapping.encode()), quoted_keys=quoted_keys)


def decode_route(body: bytes) -> TopicRoute:
    """Read a route in any of its forms.

    Entries without a broker name are dropped; ``mappings`` come as standard JSON text.
    """
    wire = _route.decode(body)
    mappings = wire.topic_queue_mapping_by_broker
    return TopicRoute(
        queue_datas=_queue_datas(wire),
        broker_rows={
            broker.broker_name: broker.row() for broker in wire.broker_datas or () if broker.broker_name is not None
        },
        filter_servers=wire.filter_server_table or {},
        mappings={name: wire_json.encode_mapping(mapping.value()).decode() for name, mapping in mappings.items()}
        if mappings
        else None,
        order_topic_conf=wire.order_topic_conf,
    )


@lru_cache(1)
def decode_queue_datas(body: bytes) -> Mapping[str, QueueData]:
    """Read the body of 217, a route; only its queueDatas count.

    The last result is kept, because both the check of the sender's rights and the handler read the body.
    """
    return {} if not body or wire_json.is_null(body) else _queue_datas(_route.decode(body))


def _queue_datas(wire: _WireRoute) -> dict[str, QueueData]:
    return {
        data.broker_name: QueueData(
            data.read_queue_nums,
            data.write_queue_nums,
            data.perm,
            data.topic_syn_flag if data.topic_sys_flag is None else data.topic_sys_flag,
        )
        for data in wire.queue_datas or ()
        if data.broker_name is not None
    }


def encode_cluster_info(
    rows: Mapping[str, BrokerRow], clusters: Mapping[str, Iterable[str]], *, acting_master: bool = True
) -> bytes:
    """Write the cluster table (106); broker ids have no quotes in any version, names are sorted.

    ``acting_master``: write enableActingMaster and zoneName, as in 5.x.
    """
    brokers = ((name, broker_json(name, row, False, acting_master=acting_master)) for name, row in rows.items())
    names = {cluster: sorted(of_cluster) for cluster, of_cluster in sorted(clusters.items())}
    return b'{"brokerAddrTable":{%b},"clusterAddrTable":%b}' % (
        b",".join(b"%b:%b" % (text(name), row) for name, row in sorted(brokers)),
        text(names),
    )


def decode_cluster_info(body: bytes) -> tuple[dict[str, BrokerRow], dict[str, list[str]]]:
    """Read the cluster table: broker_name -> row, and cluster -> its broker_names."""
    wire = _cluster_info.decode(body)
    rows = {name: broker.row() for name, broker in (wire.broker_addr_table or {}).items()}
    return rows, wire.cluster_addr_table or {}


def encode_broker_member_group(cluster: str | None, broker_name: str | None, broker_addrs: Mapping[int, str]) -> bytes:
    """Write the reply of 901; broker ids have no quotes, names that are None are left out."""
    inner = members(
        (
            ("brokerAddrs", integer_map(broker_addrs, quoted_keys=False)),
            ("brokerName", None if broker_name is None else text(broker_name)),
            ("cluster", None if cluster is None else text(cluster)),
        )
    )
    return b'{"brokerMemberGroup":%b}' % inner
