"""Puts the answer to a read request into the normal form of a comparison, so that answers are compared like tables.

A read changes nothing, so it may be repeated. 322 is no read: it counts as a heartbeat.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ..config import properties
from ..errors import RemoteProtocolError
from ..protocol.bodies.route import decode_cluster_info, decode_route
from ..protocol.bodies.tables import decode_kv_table, decode_topic_list
from ..protocol.codes import VERSION_V5_0_0, RequestCode, ResponseCode, with_name
from ..protocol.command import Command
from ..protocol.headers import ZONE_MODE, ZONE_NAME
from ..protocol.lenient_json import loads
from .content import Content, Parts, normal_clusters, normal_kv, normal_route, normal_row

_FIELDS: Final[dict[int, tuple[str, ...]]] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: ("topic", ZONE_MODE, ZONE_NAME),
    RequestCode.GET_BROKER_CLUSTER_INFO: (),
    RequestCode.GET_KV_CONFIG: ("namespace", "key"),
    RequestCode.GET_KVLIST_BY_NAMESPACE: ("namespace",),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: (),
    RequestCode.GET_TOPICS_BY_CLUSTER: ("cluster",),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: (),
    RequestCode.GET_UNIT_TOPIC_LIST: (),
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: (),
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: (),
    RequestCode.GET_NAMESRV_CONFIG: (),
    RequestCode.GET_BROKER_MEMBER_GROUP: ("clusterName", "brokerName"),
}
"""The reads, each with the fields that its answer depends on."""

_ABSENT: Final[dict[int, int]] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: ResponseCode.TOPIC_NOT_EXIST,
    RequestCode.GET_KV_CONFIG: ResponseCode.QUERY_NOT_FOUND,
    RequestCode.GET_KVLIST_BY_NAMESPACE: ResponseCode.QUERY_NOT_FOUND,
}
"""The code by which a read is answered if the topic, key or namespace does not exist."""


class ReadRequest(NamedTuple):
    """A read, with only the fields that its answer depends on. ``fields``: names and values."""

    code: int
    fields: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return " ".join((str(self.code), *(f"{name}={value}" for name, value in self.fields)))

    def field(self, name: str) -> str:
        """A field; "" when it was not sent."""
        return dict(self.fields).get(name, "")

    @property
    def subject(self) -> str:
        """The name of a route in the comparison: the topic, and the zone if the request names a zone."""
        zone = self.field(ZONE_NAME) if self.field(ZONE_MODE).lower() == "true" else ""
        return self.field("topic") + (f" (zone {zone})" if zone else "")


def asked_of(request: Command) -> ReadRequest | None:
    """The request as a read; None: it is no read, or its sender wants no answer."""
    names = _FIELDS.get(request.code)
    if names is None or request.is_oneway or request.is_response:
        return None
    ext = request.ext_fields or {}
    return ReadRequest(request.code, tuple((name, ext[name]) for name in names if name in ext))


def content_of_answer(asked: ReadRequest, answer: Command, *, is_java: bool) -> Content:
    """The content of a side (a name server) of which only this answer is known.

    The remark of a failure is not compared: it has the text of an exception.
    """
    failed = ""
    tables: dict[str, Any] = {}
    parts: Parts = {}
    if answer.code == ResponseCode.SUCCESS:
        try:
            tables, parts = _decoded(asked, answer)
        except (RemoteProtocolError, ValueError) as error:
            failed = f"it cannot be read: {error}"
    elif answer.code != _ABSENT.get(asked.code):
        failed = with_name(answer.code, ResponseCode)
    return Content(
        **tables, answers={str(asked): {("answer", ""): failed or "is there", **parts}}, is_java=is_java,
        is_five=answer.version >= VERSION_V5_0_0, untold=_ANSWER_ALONE if failed else {},
    )  # fmt: skip


_ANSWER_ALONE: Final = dict.fromkeys(("cluster", "broker", "topic", "kv", "config"), "the request failed")


def _decoded(asked: ReadRequest, answer: Command) -> tuple[dict[str, Any], Parts]:
    """The answer's data as tables of a Content, and the parts of the answer that no table has."""
    body = bytes(answer.body or b"{}")
    match asked.code:
        case RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return {"routes": {asked.subject: normal_route(decode_route(body))}}, {}
        case RequestCode.GET_BROKER_CLUSTER_INFO:
            rows, clusters = decode_cluster_info(body)
            brokers = {name: normal_row(row) for name, row in rows.items()}
            return {"brokers": brokers, "clusters": normal_clusters(clusters)}, {}
        case RequestCode.GET_KV_CONFIG:
            value = (answer.ext_fields or {}).get("value", "")
            return {"kv": {asked.field("namespace"): {asked.field("key"): value}}}, {}
        case RequestCode.GET_KVLIST_BY_NAMESPACE:
            return {"kv": normal_kv({asked.field("namespace"): decode_kv_table(body)})}, {}
        case RequestCode.GET_NAMESRV_CONFIG:
            return {"config": {entry.key: entry.value for entry in properties.parse(body)}}, {}
    return {}, _parts(asked, body)


def _parts(asked: ReadRequest, body: bytes) -> Parts:
    """The parts of an answer that is a list of names, or the members of a group."""
    plain = loads(body)
    if not isinstance(plain, dict):
        raise RemoteProtocolError("the body is no JSON object")
    if asked.code == RequestCode.GET_BROKER_MEMBER_GROUP:
        addrs = (plain.get("brokerMemberGroup") or {}).get("brokerAddrs") or {}
        return {("address", str(broker_id)): str(addr) for broker_id, addr in addrs.items()}
    parts: Parts = {("listed", name): "listed" for name in decode_topic_list(body)}
    if plain.get("brokerAddr"):
        parts["brokerAddr", ""] = str(plain["brokerAddr"])
    return parts
