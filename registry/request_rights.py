"""The rights that each request needs: one row for each request code.

A request needs a right on the resources that it names, and on the rows of the route tables that it would change. The
tables may change before the request's script runs: so the script checks the rows again (lua/include/owner). If a
request names no resource, its sender needs the right on everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from .auth.rights import Kind, Need, Resource, Right
from .errors import RemoteProtocolError
from .protocol import headers
from .protocol.bodies.route import decode_queue_datas
from .protocol.codes import RequestCode, with_name
from .protocol.command import Command
from .protocol.frame import MAX_FRAME_BYTES
from .protocol.watch import MAX_BODY_BYTES as MAX_WATCH_BYTES
from .protocol.watch import ROUTE_WATCH

Resources = tuple[Resource, ...]
_Needs = Callable[[Command, Resources], tuple[Need, ...]]


class RowClusters(Protocol):
    """The part of the route tables that says which rows a request would change."""

    def cluster_of(self, broker_name: str) -> str | None:
        """The cluster of a brokerName's row; None: there is no row."""

    def clusters_with(self, topic: str, cluster: str) -> Iterable[str]:
        """The clusters of the brokers from which a delete in ``cluster`` ("" = everywhere) would remove the topic."""


class Request(NamedTuple):
    """One request code. ``body_bytes``: the longest body that it needs; a longer body is not read."""

    needs: _Needs
    body_bytes: int


# Some clients send a small body with requests that need none.
NO_BODY_BYTES: Final = 4 << 10
MAX_QUEUE_DATA_BYTES: Final = 512 << 10
MAX_DATA_VERSION_BYTES: Final = 4096
MAX_PROPERTIES_BYTES: Final = 64 << 10


def too_long(code: int, body_bytes: int) -> str:
    """The error text for a request whose body is longer than its code can use."""
    return (
        f"request {with_name(code, RequestCode)} with a body of {body_bytes} bytes: at most "
        f"{REQUESTS[code].body_bytes} are taken; nothing was changed"
    )


def needs_of(command: Command, rows: Resources = ()) -> tuple[Need, ...]:
    """The rights of which the sender needs one; if a rule denies one of them, the request is refused.

    Empty: no NameServer knows this code, and the answer says so.

    Args:
        rows: the clusters of the rows that the request would change or show, and the rows' brokerNames if it does not
            name them. For a watch: its topics.
    """
    request = REQUESTS.get(command.code)
    return request.needs(command, rows) if request is not None else ()


def rows_of(command: Command, tables: RowClusters) -> Resources:
    """The clusters of the rows that a request would change or show, according to these tables."""
    ext = command.ext_fields or {}
    found: Iterable[str | None] = ()
    if command.code in _BY_BROKER_NAME:
        found = (tables.cluster_of(ext.get("brokerName", "")),)
    elif command.code == RequestCode.DELETE_TOPIC_IN_NAMESRV:
        found = sorted(tables.clusters_with(ext.get("topic", ""), ext.get("clusterName", "")))
    return tuple(Resource(Kind.CLUSTER, cluster) for cluster in found if cluster)


def parsed(resources: Iterable[str]) -> Resources:
    """Parse resources as a script names them: ``kind:name``."""
    pairs = (text.partition(":") for text in resources)
    return tuple(Resource(Kind(kind), name) for kind, _, name in pairs)


def broker_addr_of(command: Command) -> str | None:
    """The address of the broker process that sends a request; None: no broker sends it, or it names no address."""
    ext = command.ext_fields
    return ext.get("brokerAddr") if ext and command.code in FOR_A_BROKER else None


def _on(right: Right, *named: tuple[Kind, str]) -> _Needs:
    """Need the right on the resources in these header fields, and on the rows that the request would change."""

    def needs(command: Command, rows: Resources) -> tuple[Need, ...]:
        ext = command.ext_fields or {}
        said = tuple(Resource(kind, ext[field]) for kind, field in named if ext.get(field))
        if len(said) == len(named) and named:
            return (Need(right, said + tuple(row for row in rows if row not in said)),)
        return (Need(right), Need(right, rows)) if rows else (Need(right),)

    return needs


def _perm(command: Command, rows: Resources) -> tuple[Need, ...]:
    """205 and 327 need the right on the brokerName or on its cluster."""
    name = (command.ext_fields or {}).get("brokerName")
    named = Need(Right.PERM, (Resource(Kind.BROKER, name),) if name else ())
    return (named, Need(Right.PERM, rows)) if rows else (named,)


def _delete_topic(command: Command, rows: Resources) -> tuple[Need, ...]:
    """216 needs the right on the topic, or on each cluster with a broker that has the topic."""
    header = headers.DeleteTopic.from_ext_fields(command.ext_fields)
    if not header.topic:
        return (Need(Right.TOPIC_WRITE),)
    of_topic = Need(Right.TOPIC_WRITE, (Resource(Kind.TOPIC, header.topic),))
    named = (Resource(Kind.CLUSTER, header.cluster_name),) if header.cluster_name else ()
    clusters = named + tuple(row for row in rows if row not in named)
    return (of_topic, Need(Right.TOPIC_WRITE, clusters)) if clusters else (of_topic,)


def _register_topic(command: Command, rows: Resources) -> tuple[Need, ...]:
    """An operator sends 217 for a topic or a cluster, a broker of 5.x for a topic of its own brokerName."""
    topic = headers.RegisterTopic.from_ext_fields(command.ext_fields).topic
    if not topic:
        return (Need(Right.TOPIC_WRITE),)
    named = Resource(Kind.TOPIC, topic)
    needs = [Need(Right.TOPIC_WRITE, (named,))]
    try:
        queue_datas = decode_queue_datas(command.body)
    except RemoteProtocolError:  # if the sender has the right, the handler answers with this error
        queue_datas = {}
    if rows:
        needs.append(Need(Right.TOPIC_WRITE, rows))
    if queue_datas:
        brokers = tuple(Resource(Kind.BROKER, name) for name in queue_datas)
        needs.append(Need(Right.REGISTER, (*brokers, named, *rows)))
    return tuple(needs)


_register: Final = _on(Right.REGISTER, (Kind.CLUSTER, "clusterName"), (Kind.BROKER, "brokerName"))
_kv_write: Final = _on(Right.KV_WRITE, (Kind.KV, "namespace"))
_kv_read: Final = _on(Right.KV_READ, (Kind.KV, "namespace"))
_list: Final = Request(_on(Right.LIST), NO_BODY_BYTES)

REQUESTS: Final[Mapping[int, Request]] = {
    RequestCode.PUT_KV_CONFIG: Request(_kv_write, NO_BODY_BYTES),
    RequestCode.GET_KV_CONFIG: Request(_kv_read, NO_BODY_BYTES),
    RequestCode.DELETE_KV_CONFIG: Request(_kv_write, NO_BODY_BYTES),
    RequestCode.REGISTER_BROKER: Request(_register, MAX_FRAME_BYTES),
    RequestCode.UNREGISTER_BROKER: Request(_register, NO_BODY_BYTES),
    RequestCode.GET_ROUTEINFO_BY_TOPIC: Request(_on(Right.ROUTE, (Kind.TOPIC, "topic")), NO_BODY_BYTES),
    RequestCode.GET_BROKER_CLUSTER_INFO: _list,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: Request(_perm, NO_BODY_BYTES),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _list,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: Request(_delete_topic, NO_BODY_BYTES),
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: Request(_register_topic, MAX_QUEUE_DATA_BYTES),
    RequestCode.GET_KVLIST_BY_NAMESPACE: Request(_kv_read, NO_BODY_BYTES),
    RequestCode.GET_TOPICS_BY_CLUSTER: Request(_on(Right.LIST, (Kind.CLUSTER, "cluster")), NO_BODY_BYTES),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: _list,
    RequestCode.GET_UNIT_TOPIC_LIST: _list,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: _list,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _list,
    RequestCode.UPDATE_NAMESRV_CONFIG: Request(_on(Right.CONFIG_WRITE), MAX_PROPERTIES_BYTES),
    RequestCode.GET_NAMESRV_CONFIG: Request(_on(Right.CONFIG_READ), NO_BODY_BYTES),
    RequestCode.QUERY_DATA_VERSION: Request(_register, MAX_DATA_VERSION_BYTES),
    RequestCode.ADD_WRITE_PERM_OF_BROKER: Request(_perm, NO_BODY_BYTES),
    RequestCode.GET_BROKER_MEMBER_GROUP: Request(_on(Right.LIST, (Kind.CLUSTER, "clusterName")), NO_BODY_BYTES),
    RequestCode.BROKER_HEARTBEAT: Request(_register, NO_BODY_BYTES),
    ROUTE_WATCH: Request(lambda command, topics: (Need(Right.ROUTE, topics),), MAX_WATCH_BYTES),
}

FOR_A_BROKER: Final = frozenset(code for code, row in REQUESTS.items() if row.needs is _register)
"""Requests that a broker process sends about itself."""

_BY_BROKER_NAME: Final = FOR_A_BROKER | {
    RequestCode.WIPE_WRITE_PERM_OF_BROKER, RequestCode.ADD_WRITE_PERM_OF_BROKER, RequestCode.GET_BROKER_MEMBER_GROUP,
}  # fmt: skip
