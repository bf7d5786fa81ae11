"""Requests that are answered from the view: no Redis call, no task, no future.

Each handler takes the front end, the command and the opaque, and returns the reply; None when the view cannot tell
and the handler of the same code in ``writes`` must ask elsewhere. Source of the behaviour:
DefaultRequestProcessor and ClientRequestProcessor (rocketmq 5.x), golden/FACTS section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from registry.behaviour import Behaviour
from registry.model import MASTER_ID
from registry.protocol import headers
from registry.protocol.bodies import (
    BrokerMemberGroup,
    encode_broker_member_group,
    encode_kv_table,
    encode_topic_list,
)
from registry.protocol.codes import VERSION_V4_9_4, RequestCode, ResponseCode
from registry.protocol.command import Command
from registry.protocol.numbers import parse_boolean
from registry.server.configuration import get_namesrv_config
from registry.server.front_end import FrontEnd
from registry.tables import Tables

Read = Callable[[FrontEnd, Command, int], bytes | None]

UNIT_FLAG = 1
UNIT_SUB_FLAG = 2
# Versions are int32.
_NO_VERSION = 2**31


def quoted_wanted(behaviour: Behaviour) -> Callable[[Command], bool]:
    """Whether a 105 is to be answered in standard JSON."""
    quoted_from = VERSION_V4_9_4 if behaviour.standard_json else _NO_VERSION

    def wanted(command: Command) -> bool:
        if command.version >= quoted_from:
            return True
        ext = command.ext_fields
        return behaviour.standard_json and ext is not None and parse_boolean(ext.get("acceptStandardJsonOnly", ""))

    return wanted


def get_routeinfo_by_topic(behaviour: Behaviour) -> Read:
    """105: the request that clients send all the time. Kept answers need two dict lookups."""
    wants_quoted = quoted_wanted(behaviour)

    def handler(front_end: FrontEnd, command: Command, opaque: int) -> bytes | None:
        ext, view = command.ext_fields, front_end.view
        topic = ext.get("topic") if ext else None
        if ext and topic is not None:
            body = zone_filter = None
            if len(ext) > 1 and behaviour.zones:
                zone_filter = headers.GetRouteInfo.from_ext_fields(ext).zone_filter
            if zone_filter is None:
                kept = view.kept_route(topic, quoted_keys=wants_quoted(command))
                if kept is not None:
                    kept.asked += 1
                    body = kept.body
            else:
                body = view.zone_route_body(topic, zone_filter)
                if body is not None:
                    front_end.lookup_counts.found(topic)
            if body is not None:
                front_end.counters.lookups_found += 1
                if not view.fresh:
                    front_end.counters.stale_answers += 1
                return front_end.replies.success.reply(opaque, body)
        if not view.fresh:
            # Clients that get 17 drop a good route; on any other error they keep what they have.
            front_end.counters.lookups_error += 1
            return front_end.replies.unknown_for_now.reply(opaque)
        if front_end.settings.cluster_test:
            return None
        front_end.counters.lookups_not_found += 1
        front_end.lookup_counts.missing(topic)
        return front_end.replies.topic_not_exist(opaque, topic)

    return handler


def get_broker_cluster_info(front_end: FrontEnd, command: Command, opaque: int) -> bytes:
    """106."""
    return front_end.replies.success.reply(opaque, front_end.view.cluster_info_body())


def get_kv_config(front_end: FrontEnd, command: Command, opaque: int) -> bytes:
    """101."""
    header = headers.GetKVConfig.from_ext_fields(command.ext_fields)
    value = front_end.view.served.kv.get(header.namespace or "", {}).get(header.key or "")
    if value is not None:
        return front_end.replies.reply(opaque, ext_fields={"value": value})
    return front_end.replies.reply(
        opaque,
        ResponseCode.QUERY_NOT_FOUND,
        f"No config item, Namespace: {_shown(header.namespace)} Key: {_shown(header.key)}",
        {},
    )


def get_kvlist_by_namespace(front_end: FrontEnd, command: Command, opaque: int) -> bytes:
    """219."""
    namespace = headers.GetKVListByNamespace.from_ext_fields(command.ext_fields).namespace
    table = front_end.view.served.kv.get(namespace or "")
    if table is not None:
        return front_end.replies.success.reply(opaque, encode_kv_table(table))
    return front_end.replies.reply(
        opaque, ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {_shown(namespace)}"
    )


def get_broker_member_group(front_end: FrontEnd, command: Command, opaque: int) -> bytes:
    """901: code 0 with a remark that Java never clears (semantics 3)."""
    header = headers.GetBrokerMemberGroup.from_ext_fields(command.ext_fields)
    row = front_end.view.served.brokers.get(header.broker_name or "")
    group = BrokerMemberGroup(
        cluster=header.cluster_name,
        broker_name=header.broker_name,
        broker_addrs=dict(row.broker_addrs) if row else {},
    )
    return front_end.replies.reply(opaque, remark="not set any response code", body=encode_broker_member_group(group))


def get_all_topic_list(front_end: FrontEnd, command: Command, opaque: int) -> bytes:
    """206."""
    if not front_end.settings.enable_all_topic_list:
        return front_end.replies.disabled.reply(opaque)
    return front_end.replies.success.reply(opaque, encode_topic_list(front_end.view.served.topics))


def get_topics_by_cluster(front_end: FrontEnd, command: Command, opaque: int) -> bytes:
    """224."""
    if not front_end.settings.enable_topic_list:
        return front_end.replies.disabled.reply(opaque)
    cluster = headers.TopicsByCluster.from_ext_fields(command.ext_fields).cluster
    tables = front_end.view.served
    topics: dict[str, None] = {}
    for name in sorted(tables.clusters.get(cluster or "", ())):
        topics.update(dict.fromkeys(tables.broker_topics.get(name, ())))
    return front_end.replies.success.reply(opaque, encode_topic_list(topics))


def get_system_topic_list(front_end: FrontEnd, command: Command, opaque: int) -> bytes:
    """304: names of clusters and brokers; the smallest address of a master, else of anybody (semantics D7)."""
    tables = front_end.view.served
    names: dict[str, None] = {}
    for cluster, broker_names in sorted(tables.clusters.items()):
        names[cluster] = None
        names.update(dict.fromkeys(sorted(broker_names)))
    rows = tables.brokers.values()
    addr = min((row.broker_addrs[MASTER_ID] for row in rows if MASTER_ID in row.broker_addrs), default=None)
    if addr is None:
        addr = min((addr for row in rows for addr in row.broker_addrs.values()), default=None)
    return front_end.replies.success.reply(opaque, encode_topic_list(names, addr))


def _by_flag(wanted: Callable[[int], bool]) -> Read:
    def handler(front_end: FrontEnd, command: Command, opaque: int) -> bytes:
        if not front_end.settings.enable_topic_list:
            return front_end.replies.disabled.reply(opaque)
        return front_end.replies.success.reply(opaque, encode_topic_list(_topics_with(front_end.view.served, wanted)))

    return handler


def _topics_with(tables: Tables, wanted: Callable[[int], bool]) -> Iterable[str]:
    """Topics of which any broker's topicSysFlag is wanted (semantics D7)."""
    return [
        topic
        for topic, queue_datas in tables.topics.items()
        if any(wanted(data.topic_sys_flag) for data in queue_datas.values())
    ]


def _shown(text: str | None) -> str:
    return "null" if text is None else text


READS: dict[int, Read] = {
    RequestCode.GET_BROKER_CLUSTER_INFO: get_broker_cluster_info,
    RequestCode.GET_KV_CONFIG: get_kv_config,
    RequestCode.GET_KVLIST_BY_NAMESPACE: get_kvlist_by_namespace,
    RequestCode.GET_BROKER_MEMBER_GROUP: get_broker_member_group,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: get_all_topic_list,
    RequestCode.GET_TOPICS_BY_CLUSTER: get_topics_by_cluster,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: get_system_topic_list,
    RequestCode.GET_NAMESRV_CONFIG: get_namesrv_config,
    RequestCode.GET_UNIT_TOPIC_LIST: _by_flag(lambda flag: bool(flag & UNIT_FLAG)),
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: _by_flag(lambda flag: bool(flag & UNIT_SUB_FLAG)),
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _by_flag(
        lambda flag: bool(flag & UNIT_SUB_FLAG) and not flag & UNIT_FLAG
    ),
}


def reads(behaviour: Behaviour) -> dict[int, Read]:
    """Request code -> handler, of the requests that this version knows."""
    every = {**READS, int(RequestCode.GET_ROUTEINFO_BY_TOPIC): get_routeinfo_by_topic(behaviour)}
    return {code: handler for code, handler in every.items() if code not in behaviour.absent_codes}
