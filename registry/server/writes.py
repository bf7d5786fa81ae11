"""Requests that change the tables, or a broker's liveness: each is one Lua script, answered after its effect.

Source of the behaviour: DefaultRequestProcessor (rocketmq 5.x), golden/FACTS section 4.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Literal

from registry.behaviour import Behaviour
from registry.model import who
from registry.protocol import headers
from registry.protocol.bodies import decode_data_version, decode_route, encode_data_version
from registry.protocol.codes import RequestCode
from registry.protocol.command import Command
from registry.server.cluster_test import get_routeinfo_elsewhere
from registry.server.configuration import update_namesrv_config
from registry.server.front_end import FrontEnd, Peer
from registry.server.register import register_broker

logger = logging.getLogger(__name__)

Write = Callable[[FrontEnd, Command, int, Peer], Awaitable[bytes]]


async def unregister_broker(front_end: FrontEnd, command: Command, opaque: int, peer: Peer) -> bytes:
    """104: by address (5.x); done before the answer (semantics D5). What lacks a field removes nothing."""
    header = headers.UnregisterBroker.from_ext_fields(command.ext_fields)
    name, addr, cluster = header.broker_name, header.broker_addr, header.cluster_name
    if header.broker_id is not None and name and addr and cluster:
        front_end.check_store()
        await front_end.effect(await front_end.routes.unregister_broker(cluster, addr, name))
        logger.info("unregister broker %s of %s, id %d", who(cluster, addr), name, header.broker_id)
    return front_end.replies.success.reply(opaque)


async def unregister_broker_id(front_end: FrontEnd, command: Command, opaque: int, peer: Peer) -> bytes:
    """104 as 4.8: by id, whatever address has it; the address loses its live info. Only the id must be there."""
    header = headers.UnregisterBroker.from_ext_fields(command.ext_fields)
    name, addr, cluster = header.broker_name or "", header.broker_addr or "", header.cluster_name or ""
    if header.broker_id is None:
        return front_end.replies.system_error(opaque, "unregister broker failed: brokerId is null or no number")
    front_end.check_store()
    await front_end.effect(await front_end.routes.unregister_broker(cluster, addr, name, header.broker_id))
    logger.info("unregister id %d of %s, address %s", header.broker_id, name, addr)
    return front_end.replies.success.reply(opaque)


async def query_data_version(front_end: FrontEnd, command: Command, opaque: int, peer: Peer) -> bytes:
    """322: has this broker's topic table changed? Also a sign of life; in 4.8 only if it has not."""
    header = headers.QueryDataVersion.from_ext_fields(command.ext_fields)
    cluster, addr, behaviour = header.cluster_name, header.broker_addr, front_end.behaviour
    if not command.body and behaviour.version_query_needs_body:
        return front_end.replies.system_error(opaque, "query data version failed: there is no data version")
    # An absent timestamp is the clock's, as in Java, and so equal to none that is kept.
    sent = decode_data_version(command.body, now_ms=int(time.time() * 1000)) if command.body else None
    if sent is not None:
        sent = behaviour.seen_version(sent)
    if behaviour.live_by_cluster and (cluster is None or addr is None):
        return front_end.replies.system_error(opaque, "query data version failed: clusterName or brokerAddr is null")
    front_end.check_store()
    touched = await front_end.routes.touch_broker(
        cluster or "", addr or "", peer.channel, len(command.body),
        only_version=None if behaviour.version_query_always_refreshes else sent,
    )  # fmt: skip
    known = touched.data_version
    if touched.refreshed:
        front_end.channels.touched(behaviour.who(cluster or "", addr or ""), peer)
    changed = known is None or known != sent
    return front_end.replies.reply(
        opaque,
        ext_fields={"changed": "true" if changed else "false"},
        body=encode_data_version(known, state_version=behaviour.state_versions) if known is not None else b"",
    )


async def broker_heartbeat(front_end: FrontEnd, command: Command, opaque: int, peer: Peer) -> bytes:
    """904: a sign of life; brings nothing back that is gone."""
    header = headers.BrokerHeartbeat.from_ext_fields(command.ext_fields)
    cluster, addr = header.cluster_name, header.broker_addr
    if cluster is None or addr is None:
        return front_end.replies.system_error(opaque, "heartbeat failed: clusterName or brokerAddr is null")
    front_end.check_store()
    touched = await front_end.routes.touch_broker(cluster, addr, peer.channel, len(command.body))
    if touched.refreshed:
        front_end.channels.touched(front_end.behaviour.who(cluster, addr), peer)
    return front_end.replies.success.reply(opaque)


async def put_kv_config(front_end: FrontEnd, command: Command, opaque: int, peer: Peer) -> bytes:
    """100."""
    header = headers.PutKVConfig.from_ext_fields(command.ext_fields)
    if header.namespace is None or header.key is None:
        return front_end.replies.system_error(opaque, "namespace or key is null")
    front_end.check_store()
    await front_end.effect(await front_end.kv.put(header.namespace, header.key, header.value))
    logger.info("put KV config, namespace %s key %s", header.namespace, header.key)
    return front_end.replies.success.reply(opaque)


async def delete_kv_config(front_end: FrontEnd, command: Command, opaque: int, peer: Peer) -> bytes:
    """102."""
    header = headers.DeleteKVConfig.from_ext_fields(command.ext_fields)
    if header.namespace is not None and header.key is not None:
        front_end.check_store()
        await front_end.effect(await front_end.kv.delete(header.namespace, header.key))
        logger.info("delete KV config, namespace %s key %s", header.namespace, header.key)
    return front_end.replies.success.reply(opaque)


async def wipe_write_perm(front_end: FrontEnd, command: Command, opaque: int, peer: Peer) -> bytes:
    """205: the write bit goes."""
    return await _set_write_perm(front_end, command, opaque, "wipe", "wipeTopicCount")


async def add_write_perm(front_end: FrontEnd, command: Command, opaque: int, peer: Peer) -> bytes:
    """327: every perm becomes 6."""
    return await _set_write_perm(front_end, command, opaque, "add", "addTopicCount")


async def _set_write_perm(
    front_end: FrontEnd, command: Command, opaque: int, mode: Literal["wipe", "add"], count_field: str
) -> bytes:
    """The count is of the topics of the name, also those whose perm did not change (semantics 15)."""
    name = headers.WipeWritePerm.from_ext_fields(command.ext_fields).broker_name
    count = 0
    if name:
        front_end.check_store()
        seq, count = await front_end.routes.set_write_perm(name, mode)
        await front_end.effect(seq)
        logger.info("%s write perm of broker %s, %d topics", mode, name, count)
    return front_end.replies.reply(opaque, ext_fields={count_field: str(count)})


async def delete_topic(front_end: FrontEnd, command: Command, opaque: int, peer: Peer) -> bytes:
    """216: everywhere, or from one cluster's brokers (5.x)."""
    header = headers.DeleteTopic.from_ext_fields(command.ext_fields)
    if header.topic:
        front_end.check_store()
        await front_end.effect(await front_end.routes.delete_topic(header.topic, header.cluster_name or ""))
        logger.info("delete topic %s in cluster %s", header.topic, header.cluster_name or "(every)")
    return front_end.replies.success.reply(opaque)


async def register_topic(front_end: FrontEnd, command: Command, opaque: int, peer: Peer) -> bytes:
    """217."""
    topic = headers.RegisterTopic.from_ext_fields(command.ext_fields).topic
    if topic and command.body:
        queue_datas = decode_route(command.body).queue_datas
        if queue_datas:
            front_end.check_store()
            await front_end.effect(await front_end.routes.register_topic(topic, queue_datas.items()))
            logger.info("topic %s registered at %s", topic, ", ".join(queue_datas))
    return front_end.replies.success.reply(opaque)


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
    RequestCode.GET_ROUTEINFO_BY_TOPIC: get_routeinfo_elsewhere,  # when the view does not know the topic
}


def writes(behaviour: Behaviour) -> dict[int, Write]:
    """Request code -> handler, of the requests that this version knows."""
    every = dict(WRITES)
    if behaviour.unregisters_by_id:
        every[RequestCode.UNREGISTER_BROKER] = unregister_broker_id
    return {code: handler for code, handler in every.items() if code not in behaviour.absent_codes}
