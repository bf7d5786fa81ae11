"""``clusters``, ``brokers``, ``topics`` and ``route``: the tables as they stand."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click

from registry.cli import reads, show
from registry.cli.at import at_option
from registry.cli.options import lake_option
from registry.cli.target import find_target, run, target_options
from registry.config import Settings
from registry.errors import ConfigError, PeerUnavailable
from registry.model import TopicRoute
from registry.protocol.bodies import encode_route
from registry.store.store import Store


@click.command()
@target_options
def clusters(as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Show clusters, their broker names, and the address of each broker id."""

    async def work(settings: Settings) -> None:
        async with reads.existing_namespace(settings) as store:
            found, rows = await reads.read_clusters(store)
        if as_json:
            show.json_page(show.clusters_json(found, rows))
        elif found:
            click.echo(show.clusters_text(found, rows))
        else:
            click.echo("no broker is registered", err=True)

    run(work(find_target(flags, config_file)))


@click.command()
@at_option
@lake_option
@target_options
def brokers(as_json: bool, config_file: Path | None, at_ms: int | None, lake: str, **flags: Any) -> None:
    """Show each broker: when it was last heard, how long it has left, over how many front ends it is connected.

    With --at: as it was then. A broker of which the lake has no heartbeat counts as last heard when it registered.
    """
    if at_ms is not None:
        from registry.cli.past import read_brokers_at

        _show_brokers(read_brokers_at(at_ms, lake, flags, config_file), as_json)
        return

    async def work(settings: Settings) -> None:
        async with reads.existing_namespace(settings) as store:
            infos = await reads.read_brokers(store)
        _show_brokers(infos, as_json)

    run(work(find_target(flags, config_file)))


def _show_brokers(infos: list[reads.BrokerInfo], as_json: bool) -> None:
    if as_json:
        show.json_page(infos)
    elif infos:
        click.echo(_brokers_text(infos))
    else:
        click.echo("no broker is registered", err=True)


def _brokers_text(infos: list[reads.BrokerInfo]) -> str:
    return show.table(
        ("CLUSTER", "BROKER NAME", "ID", "ADDRESS", "HEARD", "EXPIRES IN", "TIMEOUT", "VERSION", "FRONT ENDS"),
        (
            (
                info.cluster, info.broker_name, info.broker_id, info.broker_addr, show.duration(info.heard_ms_ago),
                show.duration(info.expires_in_ms), show.duration(info.heartbeat_timeout_millis),
                f"{info.data_version.counter}@{info.data_version.timestamp}", info.front_ends,
            )
            for info in infos
        ),
        right=("ID", "HEARD", "EXPIRES IN", "TIMEOUT", "FRONT ENDS"),
    )  # fmt: skip


@click.command()
@click.argument("pattern", default="*")
@target_options
def topics(pattern: str, as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Show topics with their queues, summed over their brokers. PATTERN as for file names: 'order-*'."""

    async def work(settings: Settings) -> None:
        async with reads.existing_namespace(settings) as store:
            infos = await reads.read_topics(store)
        infos = [info for info in infos if fnmatchcase(info.topic, pattern)]
        if as_json:
            show.json_page(infos)
        elif infos:
            click.echo(
                show.table(
                    ("TOPIC", "READ", "WRITE", "PERM", "BROKER NAMES"),
                    (
                        (
                            info.topic, info.read_queue_nums, info.write_queue_nums,
                            ", ".join(map(show.perm, info.perms)), _shortened(info.broker_names),
                        )
                        for info in infos
                    ),
                    right=("READ", "WRITE"),
                )
            )  # fmt: skip
        else:
            click.echo("no topic is registered" if pattern == "*" else f"no topic matches {pattern}", err=True)

    run(work(find_target(flags, config_file)))


def _shortened(names: list[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


@click.command()
@click.argument("topic")
@click.option(
    "--namesrv", metavar="HOST:PORT[;HOST:PORT]", help="Ask a name server instead, ours or a Java NameServer."
)
@at_option
@lake_option
@target_options
def route(
    topic: str, namesrv: str | None, as_json: bool, config_file: Path | None, at_ms: int | None, lake: str, **flags: Any
) -> None:  # fmt: skip
    """Show where TOPIC is: its queues at each broker name, and the addresses, as clients are told.

    The tables in Redis are read, unless --namesrv names a name server; with --at: where it was then.
    """
    if at_ms is not None:
        from registry.cli.past import read_route_at

        if namesrv is not None:
            raise click.UsageError("--namesrv knows only of now, --at reads the pipeline's tables: give one of them")
        _show_route(topic, read_route_at(topic, at_ms, lake, flags, config_file), as_json)
        return
    if namesrv is not None:
        if given := [f"--{name}" for name, value in flags.items() if value is not None]:
            raise click.UsageError(f"--namesrv asks a name server, {given[0]} names tables in Redis: give one of them")
        run(_route_by_name_server(topic, namesrv, as_json))
        return

    async def work(settings: Settings) -> None:
        async with reads.existing_namespace(settings) as store:
            found = await reads.read_route(store, topic)
            if found is None:
                raise click.ClickException(await _no_such_topic(store, topic))
        _show_route(topic, found, as_json)

    run(work(find_target(flags, config_file)))


def _show_route(topic: str, found: TopicRoute, as_json: bool) -> None:
    if as_json:
        click.echo(encode_route(found, quoted_keys=True).decode())
    else:
        click.echo(show.route_text(topic, found))


async def _route_by_name_server(topic: str, namesrv: str, as_json: bool) -> None:
    from registry.client import RouteClient

    try:
        client = RouteClient(namesrv, push=False)
    except ConfigError as error:
        raise click.UsageError(f"--namesrv: {error}") from error
    try:
        async with client:
            found = await client.lookup(topic)
    except PeerUnavailable as error:
        raise click.ClickException(f"cannot ask name server {namesrv}: {error}") from error
    if found is None:
        raise click.ClickException(f"no topic {topic!r} at name server {namesrv}")
    _show_route(topic, found, as_json)


async def _no_such_topic(store: Store, topic: str) -> str:
    close = await reads.closest_topics(store, topic)
    if close:
        return f"no topic {topic!r}; did you mean {' or '.join(close)}?"
    return (
        f"no topic {topic!r} at any broker; topics appear when a broker registers them: "
        "'mqregistry topics' lists them, 'mqregistry brokers' shows who is registered"
    )
