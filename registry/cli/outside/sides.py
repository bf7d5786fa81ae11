"""The sides of a comparison: a name server, a Redis, an instant of the lake. All give their content in one form."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple, Protocol

import msgspec

from ...behaviour import behaviour_of
from ...client.addresses import NameServerAddress
from ...client.connection import PeerConnection
from ...client.questions import ask_clusters, ask_kv_table, ask_routes
from ...client.reconnecting import ReconnectingConnection
from ...compare.content import Content, normal_clusters, normal_kv, normal_route, normal_row
from ...compare.report import SideNow
from ...config import properties
from ...config.in_force import in_force
from ...config.settings import Settings, options_by_key
from ...errors import PeerUnavailable, RegistryError
from ...model import ORDER_TOPIC_CONFIG, BrokerRow, TopicRoute
from ...names import fault_of_name
from ...operators.routes import routes_of
from ...protocol.bodies.tables import decode_topic_list
from ...protocol.codes import RELEASES, VERSION_V5_0_0, RequestCode, ResponseCode
from ...protocol.watch import ROUTE_WATCH, WatchRequest
from ...store.snapshot import read_tables
from ...store.store import open_existing
from ...tables.tables import Tables

_RELEASES: Final = {version: release for release, version in RELEASES.items()}
_SILENCE_S: Final = 1.0  # a Java NameServer of 4.x does not answer a code that it does not know


class ListedNames(NamedTuple):
    """The names that a side lists. ``topics``: None if it cannot list them. A name server lists no KV namespaces."""

    topics: Collection[str] | None
    kv_namespaces: Collection[str] = ()


class Side(Protocol):
    """One side. Both methods raise RegistryError when it cannot be read."""

    name: str
    what: str

    async def list_names(self, topics: Collection[str] | None) -> ListedNames:
        """List the names that this side has, before ``look``. ``topics``: only these; None: all."""

    async def look(self, topics: Collection[str], kv_namespaces: Collection[str]) -> Content:
        """Read the tables: routes only of these topics, and KV of a name server only in these namespaces."""


class NameServerSide:
    """A name server, ours or Java's. All requests use one connection, many at the same time."""

    def __init__(self, address: NameServerAddress, *, timeout_s: float, tls: ssl.SSLContext | None) -> None:
        self.name = str(address)
        self.what = "name server"
        self._timeout_s = timeout_s
        self._connection = ReconnectingConnection(address, connect_timeout_s=timeout_s, tls=tls)
        self._version = 0
        self._is_java = False
        self._known: PeerConnection | None = None

    async def list_names(self, topics: Collection[str] | None) -> ListedNames:
        """List what the side can be asked for (:class:`Side`)."""
        server = await self._connection.connected(now=True)
        if topics is not None:
            return ListedNames(topics)
        answer = await server.request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, timeout_s=self._timeout_s)
        return ListedNames(
            decode_topic_list(bytes(answer.body or b"{}")) if answer.code == ResponseCode.SUCCESS else None
        )

    async def look(self, topics: Collection[str], kv_namespaces: Collection[str]) -> Content:
        """Read the content of the side (:class:`Side`)."""
        server = await self._connection.connected(now=True)
        if server is not self._known:  # a new connection: another server may be at this address now
            await self._find_out_what_it_is(server)
            self._known = server
        rows, clusters = await ask_clusters(server, timeout_s=self._timeout_s)
        config, untold = await self._config(server)
        tables = await asyncio.gather(
            *(ask_kv_table(server, name, timeout_s=self._timeout_s) for name in kv_namespaces)
        )
        # A list of topics in JSON can hold half of a surrogate pair, which no request can carry.
        askable = [topic for topic in topics if topic.isascii() or "half" not in (fault_of_name(topic) or "")]
        routes = await ask_routes(server, askable, timeout_s=self._timeout_s)
        return _content(
            rows, clusters, routes, dict(zip(kv_namespaces, tables, strict=True)), config, untold,
            is_java=self._is_java, is_five=self._version >= VERSION_V5_0_0,
        )  # fmt: skip

    async def _config(self, server: PeerConnection) -> tuple[dict[str, str], dict[str, str]]:
        answer = await server.request(RequestCode.GET_NAMESRV_CONFIG, timeout_s=self._timeout_s)
        if answer.code != ResponseCode.SUCCESS:
            return {}, {"config": f"319: code {answer.code} {answer.remark}"}
        try:
            return {entry.key: entry.value for entry in properties.parse(bytes(answer.body))}, {}
        except properties.PropertiesSyntaxError as error:
            return {}, {"config": f"319: {error}"}

    async def _find_out_what_it_is(self, server: PeerConnection) -> None:
        """Ask for a route watch: our servers accept it, Java of 5.x answers code 3, Java of 4.x does not answer."""
        known = await server.request(RequestCode.GET_BROKER_CLUSTER_INFO, timeout_s=self._timeout_s)
        self._version = known.version
        fields, body = WatchRequest(frozenset(), 0, None).encode()
        try:
            answer = await server.request(ROUTE_WATCH, fields, body, timeout_s=min(_SILENCE_S, self._timeout_s))
            self._is_java = answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        except PeerUnavailable:
            if not server.is_usable:
                raise
            self._is_java = True
        release = _RELEASES.get(self._version, f"of version {self._version}")
        self.what = f"Java NameServer {release}" if self._is_java else f"front end, as {release}"

    async def close(self) -> None:
        """Close the connection of this side."""
        await self._connection.close()


class TablesSide:
    """Tables that do not change: those of an instant in the lake."""

    what = "lake"

    def __init__(self, name: str, tables: Tables, compat: str) -> None:
        self.name = name
        self._tables, self._compat = tables, compat

    async def list_names(self, topics: Collection[str] | None) -> ListedNames:
        """List what the side can be asked for (:class:`Side`)."""
        return ListedNames(self._tables.topics if topics is None else topics, self._tables.kv)

    async def look(self, topics: Collection[str], kv_namespaces: Collection[str]) -> Content:
        """Read the content of the side (:class:`Side`)."""
        return content_of(self._tables, topics, self._compat)


class RedisSide(TablesSide):
    """A namespace in a Redis: what a front end with default settings would answer from it."""

    what = "Redis"

    def __init__(self, url: str, namespace: str, name: str, *, timeout_ms: int) -> None:
        super().__init__(name, Tables(), "")
        self._url, self._namespace, self._timeout_ms = url, namespace, timeout_ms

    async def list_names(self, topics: Collection[str] | None) -> ListedNames:
        """Read all tables, for ``look`` too, and list their names (:class:`Side`)."""
        async with open_existing(self._url, self._namespace, timeout_ms=self._timeout_ms) as store:
            _, self._tables = await read_tables(store)
            self._compat = store.compat
        return await super().list_names(topics)


def content_of(tables: Tables, topics: Iterable[str], compat: str) -> Content:
    """What a front end with default settings answers from these tables."""
    from ...server.requests.configuration import SHOWN_BY_JAVA  # only here, since it imports the server

    settings, shown = in_force(Settings(), tables.config, compat=compat), behaviour_of(compat).shown_settings
    config = {
        key: option.show(getattr(settings, option.name))
        for key, option in options_by_key().items()
        if option.about.shared and key in (shown or SHOWN_BY_JAVA)
    }
    return _content(
        tables.brokers, tables.clusters, routes_of(tables, Settings(), topics, compat), tables.kv, config, {},
        is_java=False, is_five=compat != "4.8",
    )  # fmt: skip


def _content(
    rows: dict[str, BrokerRow], clusters: dict[str, list[str]] | dict[str, set[str]], routes: dict[str, TopicRoute],
    kv: dict[str, dict[str, str]], config: dict[str, str], untold: dict[str, str], *, is_java: bool, is_five: bool,
) -> Content:  # fmt: skip
    return Content(
        clusters=normal_clusters(clusters),
        brokers={name: normal_row(row) for name, row in rows.items()},
        routes={topic: normal_route(route) for topic, route in routes.items()},
        kv=normal_kv(kv), config=config, untold=untold, is_java=is_java, is_five=is_five,
    )  # fmt: skip


class SidesSeen(NamedTuple):
    """The result of a look. ``contents``: side -> content. ``errors``: side -> why it could not be read."""

    contents: dict[str, Content]
    errors: dict[str, str]


async def look_at(sides: Iterable[Side], topics: Collection[str] | None, kv_namespaces: Collection[str]) -> SidesSeen:
    """Ask all sides at the same time.

    Args:
        topics: only the routes of these; None: the routes of all topics at any side.
        kv_namespaces: further KV namespaces to ask name servers for, as no request lists them. The order configuration
            and the KV namespaces that other sides list are always asked for.
    """
    sides, errors = list(sides), dict[str, str]()
    listed: dict[str, ListedNames] = {}
    contents: dict[str, Content] = {}

    async def list_names(side: Side) -> None:
        try:
            listed[side.name] = await side.list_names(topics)
        except RegistryError as error:
            errors[side.name] = str(error)

    await asyncio.gather(*map(list_names, sides))
    namespaces = sorted({ORDER_TOPIC_CONFIG, *kv_namespaces}.union(*(one.kv_namespaces for one in listed.values())))
    every = set[str]().union(*(one.topics or () for one in listed.values()))
    unlisted = bool(listed) and all(one.topics is None for one in listed.values())

    async def look(side: Side) -> None:
        own = listed[side.name].topics
        try:
            content = await side.look(every if own is None else own, namespaces)
        except RegistryError as error:
            errors[side.name] = str(error)
            return
        if unlisted:
            why = "no side lists its topics (206): name topics with --topic"
            content = msgspec.structs.replace(content, untold={**content.untold, "topic": why})
        contents[side.name] = content

    await asyncio.gather(*(look(side) for side in sides if side.name in listed))
    return SidesSeen(contents, errors)


def now_of(side: Side, looked: SidesSeen) -> SideNow:
    """The row of a side in the report of a look."""
    content = looked.contents.get(side.name, Content())
    return SideNow(
        side.name, side.what, len(content.routes), len(content.brokers), looked.errors.get(side.name, ""),
        dict(content.untold),
    )  # fmt: skip
