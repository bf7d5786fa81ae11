"""Handles the requests that change the tables or refresh a broker, and lookups that another name server answers.

Each change is one Lua script, and is answered after this worker's view shows it.
Source of the behaviour: DefaultRequestProcessor and ClusterTestRequestProcessor of RocketMQ 4.8 and 5.x.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, Literal

from ...behaviour import Behaviour
from ...errors import RemoteProtocolError
from ...model import who
from ...names import fault_of_names
from ...protocol import headers
from ...protocol.bodies.route import decode_queue_datas, encode_route
from ...protocol.bodies.tables import decode_data_version
from ...protocol.bodies.wire_json import encode_data_version, is_null
from ...protocol.codes import VERSION_V4_9_4, RequestCode
from ...protocol.command import Command
from ...tables.zone_filter import in_zone
from ..auth.peer import Peer
from .configuration import update_namesrv_config
from .context import RequestContext, log_write
from .registration import register_broker

logger = logging.getLogger(__name__)

# The most queueDatas in a 217: one script writes all of them.
MAX_QUEUE_DATAS: Final = 1000
# The kernel knows only to some milliseconds how long ago data came.
_AGO_SLACK_S: Final = 0.01

Write = Callable[[RequestContext, Command, int, Peer], Awaitable[bytes]]


async def unregister_broker(context: RequestContext, command: Command, opaque: int, peer: Peer) -> bytes:
    """104: remove a broker by its address (5.x), before the answer (docs/differences.md D5).

    A request that lacks a field removes nothing.
    """
    header = headers.UnregisterBroker.checked(command.ext_fields)
    if header.broker_id is not None and header.broker_name and header.broker_addr and header.cluster_name:
        await _unregister(context, command, peer, header, None)
    return context.replies.success.reply(opaque)


async def unregister_broker_id(context: RequestContext, command: Command, opaque: int, peer: Peer) -> bytes:
    """104 as in 4.8: remove a broker by its id, at any address; the request's address loses its live info.

    The other fields may be missing.
    """
    header = headers.UnregisterBroker.checked(command.ext_fields)
    if header.broker_id is None:
        return context.replies.system_error(opaque, "unregister broker failed: brokerId is null or no number")
    await _unregister(context, command, peer, header, header.broker_id)
    return context.replies.success.reply(opaque)


async def _unregister(
    context: RequestContext, command: Command, peer: Peer, header: headers.UnregisterBroker, broker_id: int | None
) -> None:
    """Remove the broker with this id; None: the broker at the header's address."""
    name, addr, cluster = header.broker_name or "", header.broker_addr or "", header.cluster_name or ""
    context.begin_write()
    by = context.by(peer)
    done = await context.decided(
        command, peer,
        lambda owner: context.routes.unregister_broker(
            cluster, addr, name, broker_id, owner=owner, said_ago_ms=_ago_ms(peer), renewed=context.channels.renewed,
            by=by,
        ),
    )  # fmt: skip
    context.check_owner(command, peer, done.owner)
    await context.effect(done.seq)
    said = "unregister" if done.refreshed else "it registered since: do not unregister"
    log_write(logger, by, f"{said} broker %s of %s, id %d", who(cluster, addr), name, header.broker_id)


def _ago_ms(peer: Peer) -> int:
    """How long ago the broker sent its unregistration; 0: less than the measuring error.

    If the peer has closed the connection, the kernel does not know: the result is then the time since the broker's last
    sign of life over it. So a registration over a newer connection stays; the close removes the old one anyway.
    """
    heard_ago_s = time.perf_counter() - peer.heard_s
    if not (peer.hung_up and peer.heard_s):
        heard_ago_s = min(heard_ago_s, peer.said_ago_s) - _AGO_SLACK_S
    return max(0, int(heard_ago_s * 1000))


async def query_data_version(context: RequestContext, command: Command, opaque: int, peer: Peer) -> bytes:
    """322: tell a broker whether its topic table has changed. Also a sign of life, in 4.8 only of an unchanged one."""
    header = headers.QueryDataVersion.checked(command.ext_fields)
    cluster, addr, behaviour = header.cluster_name, header.broker_addr, context.behaviour
    if not command.body and behaviour.version_query_needs_body:
        return context.replies.system_error(opaque, "query data version failed: there is no data version")
    # As in Java, an absent timestamp means now, which equals no stored timestamp.
    body = b"{}" if is_null(command.body) else command.body
    sent = decode_data_version(body, now_ms=int(time.time() * 1000)) if body else None
    if sent is not None:
        sent = behaviour.seen_version(sent)
    if behaviour.live_by_cluster and (cluster is None or addr is None):
        return context.replies.system_error(opaque, "query data version failed: clusterName or brokerAddr is null")
    only_version = None if behaviour.version_query_always_refreshes else sent
    known = (await context.touch(command, peer, cluster or "", addr or "", only_version)).data_version
    row = context.view.tables.brokers.get(header.broker_name or "")
    ids = [broker_id for broker_id, one in row.broker_addrs.items() if one == addr] if row is not None else []
    has_new_role = header.broker_id is not None and bool(ids) and header.broker_id not in ids
    changed = known is None or known != sent or has_new_role
    return context.replies.reply(
        opaque,
        ext_fields={"changed": "true" if changed else "false"},
        body=encode_data_version(known, state_version=behaviour.state_versions) if known is not None else b"",
    )


async def broker_heartbeat(context: RequestContext, command: Command, opaque: int, peer: Peer) -> bytes:
    """904: a sign of life of a broker. A removed broker stays removed."""
    header = headers.BrokerHeartbeat.checked(command.ext_fields)
    cluster, addr = header.cluster_name, header.broker_addr
    if cluster is None or addr is None:
        return context.replies.system_error(opaque, "heartbeat failed: clusterName or brokerAddr is null")
    await context.touch(command, peer, cluster, addr)
    return context.replies.success.reply(opaque)


async def put_kv_config(context: RequestContext, command: Command, opaque: int, peer: Peer) -> bytes:
    """100: set a key of the KV configuration."""
    header = headers.PutKVConfig.checked(command.ext_fields)
    if header.namespace is None or header.key is None:
        return context.replies.system_error(opaque, "namespace or key is null")
    context.begin_write()
    by = context.by(peer)
    await context.effect(await context.kv.put(header.namespace, header.key, header.value, by=by))
    log_write(logger, by, "put KV config, namespace %s key %s", header.namespace, header.key)
    return context.replies.success.reply(opaque)


async def delete_kv_config(context: RequestContext, command: Command, opaque: int, peer: Peer) -> bytes:
    """102: delete a key of the KV configuration."""
    header = headers.DeleteKVConfig.checked(command.ext_fields)
    if header.namespace is not None and header.key is not None:
        context.begin_write()
        by = context.by(peer)
        await context.effect(await context.kv.delete(header.namespace, header.key, by=by))
        log_write(logger, by, "delete KV config, namespace %s key %s", header.namespace, header.key)
    return context.replies.success.reply(opaque)


async def wipe_write_perm(context: RequestContext, command: Command, opaque: int, peer: Peer) -> bytes:
    """205: take the write permission from every topic of a brokerName."""
    return await _set_write_perm(context, command, opaque, peer, "wipe", "wipeTopicCount")


async def add_write_perm(context: RequestContext, command: Command, opaque: int, peer: Peer) -> bytes:
    """327: make the permission of every topic of a brokerName 6 (read and write)."""
    return await _set_write_perm(context, command, opaque, peer, "add", "addTopicCount")


async def _set_write_perm(
    context: RequestContext, command: Command, opaque: int, peer: Peer, mode: Literal["wipe", "add"], count_field: str
) -> bytes:
    """Execute a 205 or 327; the answer counts all topics of the name, changed or not (docs/semantics.md 15)."""
    name = headers.WipeWritePerm.checked(command.ext_fields).broker_name
    count = 0
    if name:
        context.begin_write()
        by = context.by(peer)
        seq, count = await context.decided(
            command, peer, lambda owner: context.routes.set_write_perm(name, mode, owner=owner, by=by)
        )
        await context.effect(seq)
        log_write(logger, by, "%s write perm of broker %s, %d topics", mode, name, count)
    return context.replies.reply(opaque, ext_fields={count_field: str(count)})


async def delete_topic(context: RequestContext, command: Command, opaque: int, peer: Peer) -> bytes:
    """216: delete a topic everywhere, or from one cluster's brokers (5.x)."""
    header = headers.DeleteTopic.checked(command.ext_fields)
    if header.topic:
        context.begin_write()
        by = context.by(peer)
        topic, cluster = header.topic, header.cluster_name or ""
        seq = await context.decided(
            command, peer, lambda owner: context.routes.delete_topic(topic, cluster, owner=owner, by=by)
        )
        await context.effect(seq)
        log_write(logger, by, "delete topic %s in cluster %s", header.topic, header.cluster_name or "(every)")
    return context.replies.success.reply(opaque)


async def register_topic(context: RequestContext, command: Command, opaque: int, peer: Peer) -> bytes:
    """217: give a topic queues at brokerNames in the tables."""
    topic = headers.RegisterTopic.checked(command.ext_fields).topic
    queue_datas = decode_queue_datas(command.body)
    if topic and queue_datas:
        if len(queue_datas) > MAX_QUEUE_DATAS:
            raise RemoteProtocolError(
                f"queues at {len(queue_datas)} brokers: at most {MAX_QUEUE_DATAS} are taken at once; nothing was "
                "changed"
            )
        fault = fault_of_names(queue_datas)
        if fault is not None:
            raise RemoteProtocolError(f"brokerName {fault}; nothing was changed")
        context.begin_write()
        by = context.by(peer)
        seq = await context.decided(
            command, peer,
            lambda owner: context.routes.register_topic(topic, queue_datas.items(), owner=owner, by=by),
        )  # fmt: skip
        await context.effect(seq)
        log_write(logger, by, "topic %s registered at %s", topic, ", ".join(queue_datas))
    return context.replies.success.reply(opaque)


async def get_routeinfo_of_product(context: RequestContext, command: Command, opaque: int, peer: Peer) -> bytes:
    """105 in cluster-test mode, of a topic that is not in the view: ask the product environment.

    Every failure is answered with code 17, as in Java.
    """
    header = headers.GetRouteInfo.from_ext_fields(command.ext_fields)
    env_name = context.settings.product_env_name
    route = await context.product.route(header.topic, env_name) if header.topic else None
    if route is None or header.topic is None:
        context.counters.lookups_not_found += 1
        context.lookup_counts.missing(header.topic)
        context.lookup_counts.asked_by(peer.host)
        return context.replies.topic_not_exist(opaque, header.topic)
    context.counters.lookups_found += 1
    context.lookup_counts.found(header.topic)
    behaviour = context.behaviour
    quoted = behaviour.standard_json and (command.version >= VERSION_V4_9_4 or header.accept_standard_json_only)
    if header.zone_filter is not None and behaviour.zones:
        route, quoted = in_zone(route, header.zone_filter), False
    body = encode_route(route, quoted_keys=quoted, topic_syn_flag=behaviour.old_bodies)
    return context.replies.success.reply(opaque, body)


WRITES: dict[int, Write] = {
    RequestCode.REGISTER_BROKER: register_broker,
    RequestCode.UNREGISTER_BROKER: unregister_broker,
    RequestCode.QUERY_DATA_VERSION: query_data_version,
    RequestCode.BROKER_HEARTBEAT: broker_heartbeat,
    RequestCode.PUT_KV_CONFIG: put_kv_config,
    RequestCode.DELETE_KV_CONFIG: delete_kv_config,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: wipe_write_perm,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: add_write_perm,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: delete_topic,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: register_topic,
    RequestCode.UPDATE_NAMESRV_CONFIG: update_namesrv_config,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: get_routeinfo_of_product,  # when the view does not know the topic
}


def writes(behaviour: Behaviour) -> dict[int, Write]:
    """Request code -> handler, of the writes that this version of the NameServer knows."""
    every = dict(WRITES)
    if behaviour.unregisters_by_id:
        every[RequestCode.UNREGISTER_BROKER] = unregister_broker_id
    return {code: handler for code, handler in every.items() if code not in behaviour.absent_codes}
