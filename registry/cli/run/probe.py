"""``probe``: asks name servers, ours or Java's, and shows whether they answer, how fast, and whether they agree."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Sequence

import click
import msgspec
from prometheus_client import Metric

from ...client.addresses import NameServerAddress, NameServerAddresses
from ...client.connection import PeerConnection
from ...client.questions import ask_clusters, ask_route
from ...errors import ConfigError, PeerUnavailable, RegistryError
from ...protocol.bodies.route import encode_cluster_info, encode_route
from .. import FAILED, output
from ..exporter import exporter, family
from ..tls import tls_options


class ProbeAnswer(msgspec.Struct, frozen=True):
    """What one name server answered."""

    server: str
    seconds: dict[str, float]  # request -> time until its answer: connect, 106, 105 <topic>
    error: str = ""  # why it counts as down
    no_route: list[str] = []  # topics that have no route there
    told: dict[str, str] = {}  # request -> its answer; lists in it have the same order for all name servers

    @property
    def is_up(self) -> bool:
        """Whether it answered all requests, with a route for each topic."""
        return not self.error and not self.no_route


class Probed(msgspec.Struct, frozen=True):
    """The answers of all name servers; ``differ``: the requests that they answered differently."""

    answers: list[ProbeAnswer]
    differ: list[str]

    @property
    def is_well(self) -> bool:
        """Whether all are up and agree."""
        return not self.differ and all(answer.is_up for answer in self.answers)


@click.command()
@click.option("-n", "--namesrv", required=True, metavar="HOST:PORT[;HOST:PORT]", help="Name servers, ours or Java's.")
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC", help="Also ask for the route of a topic; repeatable."
)
@click.option("--timeout", "timeout_s", type=click.FloatRange(0.01, 60), default=3.0, show_default=True, metavar="S",
              help="The longest wait for the connection, and for each answer.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")
@click.option("--listen", metavar="[HOST:]PORT",
              help="Serve /metrics for Prometheus instead; each GET probes once. Default HOST: 127.0.0.1.")  # fmt: skip
@tls_options
def probe(
    namesrv: str, topics: tuple[str, ...], timeout_s: float, as_json: bool, listen: str | None,
    tls: ssl.SSLContext | None,
) -> None:  # fmt: skip
    """Ask each name server of a list for its brokers (106) and for routes (105); compare what they answer.

    Ends with 1 when a name server does not answer or has no route for one of the topics, or when the answers differ.
    """
    try:
        addresses = NameServerAddresses(namesrv)
    except ConfigError as error:
        raise click.UsageError(f"-n: {error}") from error

    def once() -> Probed:
        return asyncio.run(_probe(addresses, topics, timeout_s, tls))

    if listen is not None:
        _serve(listen, once)
        return
    try:
        found = once()
    except PeerUnavailable as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        output.json_page({"well": found.is_well, **msgspec.to_builtins(found)})
    else:
        _show(found)
    if not found.is_well:
        raise SystemExit(FAILED)


async def _probe(
    addresses: NameServerAddresses, topics: Sequence[str], timeout_s: float, tls: ssl.SSLContext | None
) -> Probed:  # fmt: skip
    servers = await addresses.refresh()
    answers = await asyncio.gather(*(_ask(server, topics, timeout_s, tls) for server in servers))
    asked = dict.fromkeys(request for answer in answers for request in answer.told)
    differ = [
        request for request in asked if len({answer.told[request] for answer in answers if request in answer.told}) > 1
    ]
    return Probed(list(answers), differ)


async def _ask(
    address: NameServerAddress, topics: Sequence[str], timeout_s: float, tls: ssl.SSLContext | None
) -> ProbeAnswer:  # fmt: skip
    seconds: dict[str, float] = {}
    told: dict[str, str] = {}
    no_route: list[str] = []
    fault = ""
    started = time.perf_counter()
    try:
        server = await PeerConnection.connect(address.host, address.port, timeout_s=timeout_s, tls=tls)
        try:
            seconds["connect"] = time.perf_counter() - started
            started = time.perf_counter()
            rows, clusters = await ask_clusters(server, timeout_s=timeout_s)
            seconds["106"] = time.perf_counter() - started
            told["106"] = encode_cluster_info(rows, clusters).decode()
            for topic in topics:
                started = time.perf_counter()
                route = await ask_route(server, topic, timeout_s=timeout_s)
                seconds[f"105 {topic}"] = time.perf_counter() - started
                if route is None:
                    no_route.append(topic)
                told[f"105 {topic}"] = "" if route is None else encode_route(route, quoted_keys=True).decode()
        finally:
            await server.close()
    except RegistryError as error:
        fault = str(error)
    return ProbeAnswer(str(address), seconds, fault, no_route, told)


def _show(found: Probed) -> None:
    requests = list(dict.fromkeys(request for answer in found.answers for request in answer.seconds))
    times = [f"{request} MS" for request in requests]
    rows = (
        (
            answer.server,
            *(f"{answer.seconds[one] * 1000:.1f}" if one in answer.seconds else "" for one in requests),
            answer.error or (f"no route of {', '.join(answer.no_route)}" if answer.no_route else "ok"),
        )
        for answer in found.answers
    )
    click.echo(output.table(("NAME SERVER", *times, "STATE"), rows, right=times))
    for request in found.differ:
        output.show(f"they do not agree on {request}:")
        output.show(*(f"  {answer.server}: {answer.told[request] or 'no such topic'}"
                      for answer in found.answers if request in answer.told))  # fmt: skip


def exposition(found: Probed) -> list[Metric]:
    """Return what was found as metrics for Prometheus."""
    return [
        family("mqregistry_probe_up", "gauge",
               "1 when a name server answers all requests, with a route for each topic.",
               (({"server": answer.server}, answer.is_up) for answer in found.answers)),
        family("mqregistry_probe_seconds", "gauge", "Time until a name server's answer.",
               (({"server": answer.server, "request": request}, seconds)
                for answer in found.answers for request, seconds in answer.seconds.items())),
        family("mqregistry_probe_agree", "gauge", "1 when the name servers that answer give the same answers.",
               [({}, not found.differ)]),
    ]  # fmt: skip


def _serve(listen: str, once: Callable[[], Probed]) -> None:
    with exporter(listen, lambda: exposition(once())) as server:
        click.echo(f"probing with each GET /metrics on {listen}; Ctrl-C ends it", err=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return
