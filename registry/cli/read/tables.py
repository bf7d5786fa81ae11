"""``tables``: shows the five tables as the Java NameServer holds them, from Redis, a name server, or the lake."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import UNSET

from ...client.addresses import NameServerAddress, NameServerAddresses
from ...client.connection import PeerConnection
from ...client.questions import ask_clusters, ask_routes, ask_topic_names
from ...config.settings import Settings
from ...errors import ConfigError, PeerUnavailable, RemoteProtocolError
from ...store.operator_reads import BrokerInfo, read_brokers
from ...store.snapshot import read_tables
from ...store.store import Store
from ...tables.java_tables import NAMES, JavaDataVersion, JavaLiveInfo, JavaTables, java_tables
from ...tables.tables import Tables
from .. import output
from ..options import lake_option
from ..target import ask_target, run, target_options
from ..time_options import at_option
from ..tls import tls_options

_ANSWER_S = 10.0


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(NAMES), metavar="[TABLE]...")
@click.option("--namesrv", metavar="HOST:PORT", help="Ask a name server, ours or Java's.")
@tls_options
@at_option
@lake_option
@target_options
def tables(
    names: tuple[str, ...], namesrv: str | None, tls: ssl.SSLContext | None, as_json: bool, config_file: Path | None,
    at_ms: int | None, lake: str, **flags: Any,
) -> None:  # fmt: skip
    """Show the tables as a Java NameServer holds them, under Java's names: all five, or each named TABLE.

    The tables in Redis are read, unless --namesrv names a name server. No request reads the brokerLiveTable of a name
    server; its filterServerTable is read from the routes of topics.
    """
    check_source(namesrv, at_ms, tls, flags)
    if at_ms is not None:
        from .lake_tables import read_brokers_at, read_tables_at

        found = read_tables_at(at_ms, lake, flags, config_file)
        _show(java_tables(found, _lives(read_brokers_at(at_ms, lake, flags, config_file))), names, as_json)
    elif namesrv is not None:
        _show(run(_ask(namesrv, tls)), names, as_json)
    else:
        _show(ask_target(flags, config_file, _read), names, as_json)


def check_source(namesrv: str | None, at_ms: int | None, tls: ssl.SSLContext | None, flags: Mapping[str, Any]) -> None:
    """Refuse options that name several sources of the tables: Redis, a name server, the lake."""
    if namesrv is None:
        if tls is not None:
            raise click.UsageError("--tls is for name servers: say which, with --namesrv HOST:PORT")
        return
    if at_ms is not None:
        raise click.UsageError("--namesrv shows the present, --at the past: give one of them")
    if given := [f"--{name}" for name, value in flags.items() if value is not None]:
        raise click.UsageError(f"--namesrv asks a name server, {given[0]} names tables in Redis: give one of them")


async def _read(store: Store, settings: Settings) -> JavaTables:
    _, found = await read_tables(store)
    return java_tables(found, _lives(await read_brokers(store)))


async def one_name_server(given: str, option: str, why: str = "") -> NameServerAddress:
    """The name server that an option names; ``why``: the end of the error if the option names several."""
    try:
        found = await NameServerAddresses(given).refresh()
    except ConfigError as error:
        raise click.UsageError(f"{option}: {error}") from error
    if len(found) != 1:
        raise click.UsageError(f"{option} {given}: name one server{why}")
    return found[0]


async def _ask(namesrv: str, tls: ssl.SSLContext | None) -> JavaTables:
    """The part of a name server's tables that requests can read; topics may come and go between the answers."""
    try:
        address = await one_name_server(namesrv, "--namesrv", "; each of several may have tables of its own")
        server = await PeerConnection.connect(address.host, address.port, tls=tls)
        try:
            found = Tables()
            rows, clusters = await ask_clusters(server, timeout_s=_ANSWER_S)
            found.brokers.update(rows)
            found.clusters.update({cluster: set(names) for cluster, names in clusters.items()})
            topics = await ask_topic_names(server, timeout_s=_ANSWER_S)
            for topic, route in (await ask_routes(server, topics)).items():
                for name, data in route.queue_datas.items():
                    found.set_queue_data(topic, name, data)
                for addr, servers in route.filter_servers.items():
                    found.set_filter_servers(f"|{addr}", servers)
        finally:
            await server.close()
    except (PeerUnavailable, RemoteProtocolError) as error:
        raise click.ClickException(f"cannot ask name server {namesrv}: {error}") from error
    return java_tables(found, None)


def _lives(infos: Iterable[BrokerInfo]) -> list[JavaLiveInfo]:
    return [
        JavaLiveInfo(
            info.cluster, info.broker_addr, info.last_update_timestamp, info.heartbeat_timeout_millis,
            JavaDataVersion(info.data_version.counter, info.data_version.state_version, info.data_version.timestamp),
            [] if info.connections is UNSET else [str(one) for one in info.connections], info.ha_server_addr,
        )
        for info in infos
    ]  # fmt: skip


def _show(found: JavaTables, names: Sequence[str], as_json: bool) -> None:
    told = msgspec.to_builtins(found, str_keys=True)
    wanted = [name for name in NAMES if name in (names or NAMES)]
    if as_json:
        output.json_page({name: told[name] for name in wanted if name in told})
    else:
        click.echo("\n\n".join(_text(name, told.get(name)) for name in wanted))


def _text(name: str, told: Any) -> str:
    if told is None:
        return f"{name}\n  (no request reads it)"
    if not told:
        return f"{name}\n  (empty)"
    shown = output.table(_HEADINGS[name], _rows(name, told), right=_NUMBERS)
    return f"{name}\n" + "\n".join(f"  {line}" for line in shown.splitlines())


_NUMBERS = ("READ", "WRITE", "FLAG", "ID", "TIMEOUT", "BROKER ID")
_HEADINGS = {
    "topicQueueTable": ("TOPIC", "BROKER NAME", "READ", "WRITE", "PERM", "FLAG"),
    "brokerAddrTable": ("BROKER NAME", "CLUSTER", "BROKER ID", "ADDRESS"),
    "clusterAddrTable": ("CLUSTER", "BROKER NAMES"),
    "brokerLiveTable": ("ADDRESS", "LAST UPDATE", "TIMEOUT", "DATA VERSION", "HA SERVER", "CHANNEL"),
    "filterServerTable": ("ADDRESS", "FILTER SERVERS"),
}


def _rows(name: str, told: dict[str, Any]) -> Iterable[tuple[object, ...]]:
    for key, value in told.items():
        match name:
            case "topicQueueTable":
                for at, data in enumerate(value):
                    numbers = (data["readQueueNums"], data["writeQueueNums"], output.perm(data["perm"]))
                    yield (" " if at else key, data["brokerName"], *numbers, data["topicSysFlag"])
            case "brokerAddrTable":
                for at, (broker_id, addr) in enumerate(value["brokerAddrs"].items() or [("", "")]):
                    yield (*((" ", " ") if at else (key, value["cluster"])), broker_id, addr)
            case "brokerLiveTable":
                version = value["dataVersion"]
                yield (
                    key, output.moment(value["lastUpdateTimestamp"]),
                    output.duration(value["heartbeatTimeoutMillis"]), f"{version['counter']}@{version['timestamp']}",
                    value["haServerAddr"], ", ".join(value["channel"]),
                )  # fmt: skip
            case _:
                yield (key, ", ".join(value))
