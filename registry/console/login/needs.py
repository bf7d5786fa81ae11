"""Says which rights pages and actions of the console need: those that a name server requires for the same requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from starlette.requests import Request

from ...auth.rights import Kind, Need, Resource, Right
from ...events.changes import (
    AuthChanged,
    BrokerRefused,
    BrokerRegistered,
    BrokerRemoved,
    Change,
    ConfigSet,
    KvDeleted,
    KvPut,
    StreamAlarm,
    TopicDeleted,
    TopicRegistered,
    WritePermSet,
)
from ...model import BrokerRow, QueueData, TopicRoute
from ...protocol.bodies.route import encode_route
from ...protocol.codes import RequestCode
from ...protocol.command import Command
from ...request_rights import needs_of

Needs = tuple[Need, ...]

LIST: Final = needs_of(Command(code=RequestCode.GET_BROKER_CLUSTER_INFO))  # of the lists of all tables
STRICTEST: Final[Needs] = (Need(Right.CONFIG_WRITE),)  # only an admin fulfils them
READ_CONFIG: Final = needs_of(Command(code=RequestCode.GET_NAMESRV_CONFIG))

# Pages that show only what the viewer may see, or that check rights themselves for what they do.
_BY_PART: Final = frozenset(("/kv", "/action", "/zone"))


def needs_of_page(request: Request) -> Needs:
    """The needs of a page, of which one is enough; empty: the page checks the rights on each of its parts.

    Most pages answer no single request but show data from all tables: they need the right to list the tables.
    """
    path = request.scope["path"]
    if path in _BY_PART:
        return ()
    if path == "/users":
        return STRICTEST  # no request reads users and their rules
    if path == "/topic":
        return of_route(request.query_params.get("name", ""))
    return LIST


def of_route(topic: str) -> Needs:
    """The needs of a topic's route (105)."""
    return needs_of(Command(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext_fields={"topic": topic}))


def of_kv(kv_namespace: str) -> Needs:
    """The needs of the values of a KV namespace (219)."""
    return needs_of(Command(code=RequestCode.GET_KVLIST_BY_NAMESPACE, ext_fields={"namespace": kv_namespace}))


def needs_of_change(change: Change) -> list[Needs]:
    """The further needs for showing a change; the viewer must fulfil each of them."""
    match change:
        case KvPut() | KvDeleted():
            return [of_kv(change.kv_namespace)]
        case ConfigSet():
            return [READ_CONFIG]
        case TopicDeleted() | TopicRegistered():
            return [of_route(change.topic)]
        case BrokerRegistered():
            return _of_routes((*change.topics, *change.dropped, *(topic for topic, _, _ in change.mappings)))
        case BrokerRemoved() | WritePermSet():
            return _of_routes(change.topics)
        case BrokerRefused() | StreamAlarm() | AuthChanged():  # they name only brokers and readers, which pages list
            return []
    return [STRICTEST]  # any other event


def _of_routes(topics: Iterable[str]) -> list[Needs]:
    resources = tuple(Resource(Kind.TOPIC, topic) for topic in topics)
    return [(Need(Right.ROUTE, resources),)] if resources else []


def needs_of_action(
    asked: Mapping[str, str], queues: Mapping[str, tuple[int, int, int]], brokers: Mapping[str, BrokerRow]
) -> Needs:
    """The needs of an action, of which one is enough: those of the request that mqadmin would send for it.

    Args:
        asked: the fields of its form. queues: those that set-topic gives to the topic. brokers: by brokerName.
    """
    name = asked["name"].strip()
    match asked["do"]:
        case "wipe" | "drain":
            return _needs(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName=name)
        case "restore" | "restore-all":
            return _needs(RequestCode.ADD_WRITE_PERM_OF_BROKER, brokerName=name)
        case "forget":
            cluster = brokers[name].cluster if name in brokers else ""
            return _needs(RequestCode.UNREGISTER_BROKER, clusterName=cluster, brokerName=name)
        case "delete-topic":
            return _needs(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic=asked["topic"], clusterName=asked["cluster"])
        case "set-topic":
            route = TopicRoute({broker: QueueData(*numbers) for broker, numbers in queues.items()}, {}, {})
            body = encode_route(route, quoted_keys=True)
            return _needs(RequestCode.REGISTER_TOPIC_IN_NAMESRV, body, topic=asked["topic"])
        case "put-kv":
            return _needs(RequestCode.PUT_KV_CONFIG, namespace=asked["kv_namespace"])
        case "delete-kv":
            return _needs(RequestCode.DELETE_KV_CONFIG, namespace=asked["kv_namespace"])
    return STRICTEST  # "allow", for which the page checks all other rights, too; or any other action


def needs_of_preview(asked: Mapping[str, str]) -> Needs:
    """The further needs of an action's preview, because it shows the present values."""
    if asked["do"] in ("put-kv", "delete-kv"):
        return of_kv(asked["kv_namespace"])
    return of_route(asked["topic"]) if asked["do"] in ("delete-topic", "set-topic") else LIST


def _needs(code: RequestCode, body: bytes = b"", **fields: str) -> Needs:
    return needs_of(Command(code=code, ext_fields={name: value for name, value in fields.items() if value}, body=body))
