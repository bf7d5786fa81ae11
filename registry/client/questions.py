"""Asks one name server, ours or Java's, for brokers (106), topics (206), routes (105) and KV (219)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from ..errors import PeerUnavailable
from ..model import BrokerRow, TopicRoute
from ..protocol.bodies.route import decode_cluster_info, decode_route
from ..protocol.bodies.tables import decode_kv_table, decode_topic_list
from ..protocol.codes import RequestCode, ResponseCode
from ..protocol.command import Command
from .connection import REQUEST_TIMEOUT_S, PeerConnection

# The lookups of routes at the same time.
_ROUTES_AT_ONCE: Final = 64


async def ask_clusters(
    server: PeerConnection, *, timeout_s: float = REQUEST_TIMEOUT_S
) -> tuple[dict[str, BrokerRow], dict[str, list[str]]]:
    """BrokerName -> its row, and cluster -> its brokerNames (106).

    PeerUnavailable: no answer, or an answer that is not SUCCESS. RemoteProtocolError: an answer that cannot be read.
    """
    answer = await server.request(RequestCode.GET_BROKER_CLUSTER_INFO, timeout_s=timeout_s)
    return decode_cluster_info(_body(server, answer))


async def ask_topic_names(server: PeerConnection, *, timeout_s: float = REQUEST_TIMEOUT_S) -> list[str]:
    """The names of all topics (206). Raises as :func:`ask_clusters`."""
    answer = await server.request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, timeout_s=timeout_s)
    return decode_topic_list(_body(server, answer))


async def ask_route(server: PeerConnection, topic: str, *, timeout_s: float = REQUEST_TIMEOUT_S) -> TopicRoute | None:
    """A topic's route as a client gets it (105); None: there is no such topic. Raises as :func:`ask_clusters`."""
    answer = await server.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, timeout_s=timeout_s)
    if answer.code == ResponseCode.TOPIC_NOT_EXIST:
        return None
    return decode_route(_body(server, answer))


async def ask_routes(
    server: PeerConnection, topics: Iterable[str], *, timeout_s: float = REQUEST_TIMEOUT_S
) -> dict[str, TopicRoute]:
    """Topic -> its route, for topics that have one; several requests at a time. Raises as :func:`ask_clusters`."""
    found: dict[str, TopicRoute] = {}
    names = iter(topics)

    async def ask_one_after_the_other() -> None:
        for topic in names:
            route = await ask_route(server, topic, timeout_s=timeout_s)
            if route is not None:
                found[topic] = route

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(_ROUTES_AT_ONCE):
                group.create_task(ask_one_after_the_other())
    except BaseExceptionGroup as errors:  # the others were cancelled
        raise errors.exceptions[0] from None
    return found


async def ask_kv_table(
    server: PeerConnection, namespace: str, *, timeout_s: float = REQUEST_TIMEOUT_S
) -> dict[str, str]:
    """Key -> value of a KV namespace (219); {} if there is no such namespace. Raises as :func:`ask_clusters`."""
    fields = {"namespace": namespace}
    answer = await server.request(RequestCode.GET_KVLIST_BY_NAMESPACE, fields, timeout_s=timeout_s)
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        return {}
    return decode_kv_table(_body(server, answer))


def _body(server: PeerConnection, answer: Command) -> bytes:
    if answer.code != ResponseCode.SUCCESS:
        raise PeerUnavailable(f"{server.peer} answers with code {answer.code}: {answer.remark}")
    return bytes(answer.body or b"{}")
