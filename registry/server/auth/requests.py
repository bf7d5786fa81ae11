"""What each request does, in the words of rights: which right it needs, and on which resources.

A name that a request lacks counts as everything: then only a right on everything is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ...auth.rights import Kind, Need, Resource, Right
from ...errors import RemoteProtocolError
from ...protocol import headers
from ...protocol.bodies.route import decode_route
from ...protocol.bodies.wire_json import is_null
from ...protocol.codes import RequestCode
from ...protocol.command import Command
from ...protocol.watch import ROUTE_WATCH, WatchRequest


def needs_of(command: Command) -> tuple[Need, ...]:
    """What a request needs: the first one or any other of these, unless a rule denies one of them.

    Nothing: no NameServer knows this code, and the answer says so.
    """
    needs = NEEDS.get(command.code)
    return needs(command) if needs is not None else ()


def broker_addr_of(command: Command) -> str | None:
    """The address of the broker that a request speaks for; None: it speaks for none, or does not say for which."""
    ext = command.ext_fields
    return ext.get("brokerAddr") if ext and command.code in FOR_A_BROKER else None


_Needs = Callable[[Command], tuple[Need, ...]]


def _on(right: Right, *named: tuple[Kind, str]) -> _Needs:
    """A right on the resources that these header fields name."""

    def needs(command: Command) -> tuple[Need, ...]:
        ext = command.ext_fields or {}
        resources = tuple(Resource(kind, ext[field]) for kind, field in named if ext.get(field))
        return (Need(right, resources if len(resources) == len(named) else ()),)

    return needs


def _delete_topic(command: Command) -> tuple[Need, ...]:
    """216: of one cluster's brokers, if it names a cluster: then the right on that cluster is enough, too."""
    header = headers.DeleteTopic.from_ext_fields(command.ext_fields)
    if not header.topic:
        return (Need(Right.TOPIC_WRITE),)
    of_topic = Need(Right.TOPIC_WRITE, (Resource(Kind.TOPIC, header.topic),))
    if not header.cluster_name:
        return (of_topic,)
    return of_topic, Need(Right.TOPIC_WRITE, (Resource(Kind.CLUSTER, header.cluster_name),))


def _register_topic(command: Command) -> tuple[Need, ...]:
    """217: an operator sends it for a topic, a broker of 5.x for a topic of its own brokerName."""
    topic = headers.RegisterTopic.from_ext_fields(command.ext_fields).topic
    if not topic:
        return (Need(Right.TOPIC_WRITE),)
    of_topic = Need(Right.TOPIC_WRITE, (Resource(Kind.TOPIC, topic),))
    try:
        queue_datas = decode_route(command.body).queue_datas if command.body and not is_null(command.body) else {}
    except RemoteProtocolError:  # whoever may send it is told
        queue_datas = {}
    if not queue_datas:
        return (of_topic,)
    return of_topic, Need(Right.REGISTER, tuple(Resource(Kind.BROKER, name) for name in queue_datas))


def _watch(command: Command) -> tuple[Need, ...]:
    """The right on the route of each topic that is watched."""
    try:
        topics: Iterable[str] = WatchRequest.decode(command.ext_fields, command.body).topics
    except RemoteProtocolError:
        topics = ()
    return (Need(Right.ROUTE, tuple(Resource(Kind.TOPIC, topic) for topic in topics)),)


_register: Final = _on(Right.REGISTER, (Kind.CLUSTER, "clusterName"), (Kind.BROKER, "brokerName"))
_kv_write: Final = _on(Right.KV_WRITE, (Kind.KV, "namespace"))
_perm: Final = _on(Right.PERM, (Kind.BROKER, "brokerName"))
_list: Final = _on(Right.LIST)

FOR_A_BROKER: Final = frozenset(
    (
        RequestCode.REGISTER_BROKER,
        RequestCode.UNREGISTER_BROKER,
        RequestCode.QUERY_DATA_VERSION,
        RequestCode.BROKER_HEARTBEAT,
    )
)
"""Requests that speak for one broker process."""

NEEDS: Final[dict[int, _Needs]] = {
    RequestCode.PUT_KV_CONFIG: _kv_write,
    RequestCode.GET_KV_CONFIG: _on(Right.KV_READ, (Kind.KV, "namespace")),
    RequestCode.DELETE_KV_CONFIG: _kv_write,
    RequestCode.REGISTER_BROKER: _register,
    RequestCode.UNREGISTER_BROKER: _register,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: _on(Right.ROUTE, (Kind.TOPIC, "topic")),
    RequestCode.GET_BROKER_CLUSTER_INFO: _list,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: _perm,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _list,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: _delete_topic,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: _register_topic,
    RequestCode.GET_KVLIST_BY_NAMESPACE: _on(Right.KV_READ, (Kind.KV, "namespace")),
    RequestCode.GET_TOPICS_BY_CLUSTER: _on(Right.LIST, (Kind.CLUSTER, "cluster")),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: _list,
    RequestCode.GET_UNIT_TOPIC_LIST: _list,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: _list,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _list,
    RequestCode.UPDATE_NAMESRV_CONFIG: _on(Right.CONFIG_WRITE),
    RequestCode.GET_NAMESRV_CONFIG: _on(Right.CONFIG_READ),
    RequestCode.QUERY_DATA_VERSION: _register,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: _perm,
    RequestCode.GET_BROKER_MEMBER_GROUP: _on(Right.LIST, (Kind.CLUSTER, "clusterName")),
    RequestCode.BROKER_HEARTBEAT: _register,
    ROUTE_WATCH: _watch,
}
"""One row for each request that is answered."""
