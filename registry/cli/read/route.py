"""``route``: shows a topic's route, from Redis, from a name server, or a past route from the lake."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import click

from ...config.settings import Settings
from ...errors import ConfigError, PeerUnavailable
from ...model import TopicRoute
from ...operators.routes import read_route
from ...operators.why import Why, explain, lost_text
from ...protocol.bodies.route import encode_route
from ...store.store import Store
from .. import complete_names, output
from ..options import lake_option
from ..target import ask_target, find_target, run, target_options
from ..time_options import at_option
from ..tls import tls_options
from .tables import check_source


@click.command()
@click.argument("topic", shell_complete=complete_names.topics)
@click.option(
    "--namesrv", metavar="HOST:PORT[;HOST:PORT]", help="Ask name servers, ours or Java's: 'host:port;host:port'."
)
@click.option("--follow", is_flag=True, help="Also show each change until Ctrl-C: author, route before and after.")
@tls_options
@at_option
@lake_option
@target_options
def route(
    topic: str, namesrv: str | None, follow: bool, tls: ssl.SSLContext | None, as_json: bool,
    config_file: Path | None, at_ms: int | None, lake: str, **flags: Any,
) -> None:  # fmt: skip
    """Show where TOPIC is: its queues at each broker name, and the addresses, as clients get them.

    The tables in Redis are read, unless --namesrv names a name server; with --at, the route at that time.
    """
    check_source(namesrv, at_ms, tls, flags)
    if follow and (namesrv is not None or at_ms is not None):
        raise click.UsageError("--follow shows the tables in Redis as they change: not with --namesrv or --at")
    if at_ms is not None:
        from .lake_tables import read_route_at

        found, origins = read_route_at(topic, at_ms, lake, flags, config_file)
        _show_route(topic, found, as_json)
        if not as_json:
            output.show(*(f"{name} has these queues since {output.moment(at.ms)}, by {at.by or 'somebody not known'}"
                          for name, at in sorted(origins.items())))  # fmt: skip
        return
    if namesrv is not None:
        run(_route_by_name_server(topic, namesrv, tls, as_json))
        return
    if follow:
        from .follow_route import follow_route
        from .watch import until_interrupted

        settings = find_target(flags, config_file)
        run(until_interrupted(lambda stop: follow_route(settings, topic, as_json, stop)))
        return

    async def read(store: Store, settings: Settings) -> TopicRoute:
        found = await read_route(store, settings, topic)
        if found is None:
            raise click.ClickException(_no_such_topic(await explain(store, settings, topic)))
        return found

    _show_route(topic, ask_target(flags, config_file, read), as_json)


def _show_route(topic: str, found: TopicRoute, as_json: bool) -> None:
    if as_json:
        click.echo(encode_route(found, quoted_keys=True).decode())
    else:
        click.echo(output.route_text(topic, found))


async def _route_by_name_server(topic: str, namesrv: str, tls: ssl.SSLContext | None, as_json: bool) -> None:
    from ...client import RouteClient

    try:
        client = RouteClient(namesrv, push=False, tls=tls)
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


def _no_such_topic(why: Why) -> str:
    if why.lost is not None:
        return f"no topic {why.topic!r} {lost_text(why)}; 'mqregistry why {why.topic}' says where it was"
    if why.close:
        return f"no topic {why.topic!r}; did you mean {' or '.join(why.close)}?"
    return (
        f"no topic {why.topic!r} at any broker; topics appear when a broker registers them: "
        "'mqregistry topics' lists them, 'mqregistry brokers' shows who is registered"
    )
