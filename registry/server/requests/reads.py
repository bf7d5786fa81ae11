"""Answers requests from the view, this worker's copy of the tables: no Redis call, no task, no future.

A handler returns the reply. None: the view does not know the answer; the handler of the same code in ``writes`` asks
another server. Source: DefaultRequestProcessor and ClientRequestProcessor (RocketMQ 5.x).
"""

from __future__ import annotations

from collections.abc import Callable

from ...behaviour import Behaviour
from ...model import MASTER_ID
from ...names import fault_of_name
from ...protocol import headers
from ...protocol.bodies.route import encode_broker_member_group
from ...protocol.bodies.tables import encode_kv_table, encode_topic_list
from ...protocol.codes import VERSION_V4_9_4, RequestCode, ResponseCode
from ...protocol.command import Command
from ...protocol.numbers import parse_boolean
from ..view.freshness import Freshness
from .configuration import get_namesrv_config
from .context import RequestContext

Read = Callable[[RequestContext, Command, int], bytes | None]

_FRESH = Freshness.FRESH
UNIT_FLAG = 1
UNIT_SUB_FLAG = 2
# Greater than every version, which are int32.
_NO_VERSION = 2**31


def quoted_wanted(behaviour: Behaviour) -> Callable[[Command], bool]:
    """Make the function that tells whether the answer to a 105 must be standard JSON, with quoted number keys."""
    quoted_from = VERSION_V4_9_4 if behaviour.standard_json else _NO_VERSION

    def wanted(command: Command) -> bool:
        if command.version >= quoted_from:
            return True
        ext = command.ext_fields
        return behaviour.standard_json and ext is not None and parse_boolean(ext.get("acceptStandardJsonOnly", ""))

    return wanted


def get_routeinfo_by_topic(behaviour: Behaviour) -> Read:
    """105: a topic's route. Clients send it all the time, so the answers are kept encoded.

    Code 17 (the topic does not exist) is answered only while the view is FRESH, because clients then drop the route.
    """
    wants_quoted = quoted_wanted(behaviour)

    def handler(context: RequestContext, command: Command, opaque: int) -> bytes | None:
        ext, answers = command.ext_fields, context.answers
        fresh = context.view.freshness is _FRESH
        topic = ext.get("topic") if ext else None
        if ext and topic is not None:
            body = zone_filter = None
            if len(ext) > 1 and behaviour.zones:
                zone_filter = headers.GetRouteInfo.from_ext_fields(ext).zone_filter
            if zone_filter is None:
                kept = answers.kept_route(topic, quoted_keys=wants_quoted(command))
                if kept is not None:
                    kept.asked += 1
                    body = kept.body
            else:
                body = answers.zone_route_body(topic, zone_filter)
                if body is not None:
                    context.lookup_counts.found(topic)
            if body is not None:
                context.counters.lookups_found += 1
                if not fresh:
                    context.counters.stale_answers += 1
                return context.replies.success.reply(opaque, body)
        if not fresh:
            context.counters.lookups_error += 1
            return context.replies.unknown_for_now.reply(opaque)
        is_name = not topic or fault_of_name(topic) is None
        if context.settings.cluster_test and is_name:
            return None
        context.counters.lookups_not_found += 1
        context.lookup_counts.missing(topic if is_name else None)
        return context.replies.topic_not_exist(opaque, topic)

    return handler


def get_broker_cluster_info(context: RequestContext, command: Command, opaque: int) -> bytes:
    """106: every cluster with its brokerNames, and their addresses."""
    return context.replies.success.reply(opaque, context.answers.cluster_info_body())


def get_kv_config(context: RequestContext, command: Command, opaque: int) -> bytes:
    """101: one value of the KV configuration."""
    header = headers.GetKVConfig.from_ext_fields(command.ext_fields)
    value = context.view.tables.kv.get(header.namespace or "", {}).get(header.key or "")
    if value is not None:
        return context.replies.reply(opaque, ext_fields={"value": value})
    return context.replies.reply(
        opaque,
        ResponseCode.QUERY_NOT_FOUND,
        f"No config item, Namespace: {_shown(header.namespace)} Key: {_shown(header.key)}",
        {},
    )


def get_kvlist_by_namespace(context: RequestContext, command: Command, opaque: int) -> bytes:
    """219: all keys and values of one KV namespace."""
    namespace = headers.GetKVListByNamespace.from_ext_fields(command.ext_fields).namespace
    table = context.view.tables.kv.get(namespace or "")
    if table is not None:
        return context.replies.success.reply(opaque, encode_kv_table(table))
    return context.replies.reply(
        opaque, ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {_shown(namespace)}"
    )


def get_broker_member_group(context: RequestContext, command: Command, opaque: int) -> bytes:
    """901: the addresses of one brokerName; code 0 with Java's remark of an error (docs/semantics.md 3)."""
    header = headers.GetBrokerMemberGroup.from_ext_fields(command.ext_fields)
    row = context.view.tables.brokers.get(header.broker_name or "")
    body = encode_broker_member_group(header.cluster_name, header.broker_name, row.broker_addrs if row else {})
    return context.replies.reply(opaque, remark="not set any response code", body=body)


def get_all_topic_list(context: RequestContext, command: Command, opaque: int) -> bytes:
    """206: every topic; refused when enableAllTopicList is false."""
    if not context.settings.enable_all_topic_list:
        return context.replies.disabled.reply(opaque)
    return context.replies.success.reply(opaque, encode_topic_list(context.view.tables.topics))


def get_topics_by_cluster(context: RequestContext, command: Command, opaque: int) -> bytes:
    """224: the topics of one cluster; refused when enableTopicList is false."""
    if not context.settings.enable_topic_list:
        return context.replies.disabled.reply(opaque)
    cluster = headers.TopicsByCluster.from_ext_fields(command.ext_fields).cluster
    tables = context.view.tables
    topics: dict[str, None] = {}
    for name in sorted(tables.clusters.get(cluster or "", ())):
        topics.update(dict.fromkeys(tables.broker_topics.get(name, ())))
    return context.replies.success.reply(opaque, encode_topic_list(topics))


def get_system_topic_list(context: RequestContext, command: Command, opaque: int) -> bytes:
    """304: the names of clusters and brokers, and the smallest address of a master, or of any broker without masters.

    Java takes the first address of a hash map (docs/differences.md D7).
    """
    tables = context.view.tables
    names: dict[str, None] = {}
    for cluster, broker_names in sorted(tables.clusters.items()):
        names[cluster] = None
        names.update(dict.fromkeys(sorted(broker_names)))
    rows = tables.brokers.values()
    addr = min((row.broker_addrs[MASTER_ID] for row in rows if MASTER_ID in row.broker_addrs), default=None)
    if addr is None:
        addr = min((addr for row in rows for addr in row.broker_addrs.values()), default=None)
    return context.replies.success.reply(opaque, encode_topic_list(names, addr))


def _by_flag(wanted: Callable[[int], bool]) -> Read:
    """Make a handler that lists the topics with a wanted topicSysFlag at any broker (docs/differences.md D7)."""

    def handler(context: RequestContext, command: Command, opaque: int) -> bytes:
        if not context.settings.enable_topic_list:
            return context.replies.disabled.reply(opaque)
        topics = [
            topic
            for topic, queue_datas in context.view.tables.topics.items()
            if any(wanted(data.topic_sys_flag) for data in queue_datas.values())
        ]
        return context.replies.success.reply(opaque, encode_topic_list(topics))

    return handler


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
    """Request code -> handler, of the reads that this version of the NameServer knows."""
    every = {**READS, int(RequestCode.GET_ROUTEINFO_BY_TOPIC): get_routeinfo_by_topic(behaviour)}
    return {code: handler for code, handler in every.items() if code not in behaviour.absent_codes}
