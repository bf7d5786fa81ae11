"""The page of metrics that a command serves to Prometheus, and its HTTP server."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import click
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import MetricsHandler
from prometheus_client.registry import Collector

from ..errors import RegistryError

Sample = tuple[Mapping[str, str], float]
"""Labels and value."""
Page = Callable[[], Iterable[Metric]]

_PAGE_S: Final = 5.0


def family(name: str, kind: str, text: str, samples: Iterable[Sample]) -> Metric:
    """One metric with its samples."""
    found = Metric(name.removesuffix("_total"), text, kind)  # prometheus_client adds _total to the names of counters
    for labels, value in samples:
        found.add_sample(name, dict(labels), value)
    return found


class _Page(Collector):
    def __init__(self, page: Page) -> None:
        self._page = page

    def collect(self) -> Iterable[Metric]:
        return self._page()


def exporter(listen: str, page: Page) -> http.server.ThreadingHTTPServer:
    """A server that answers GET /metrics with the metrics of ``page``; ``serve_forever`` runs it.

    Args:
        listen: PORT or HOST:PORT; HOST is 127.0.0.1 unless given.
        page: called for each request, on a thread of its own; a RegistryError is answered with 503.

    Raises:
        click.UsageError: ``listen`` is neither. click.ClickException: the port is taken.
    """
    host, port = listen_address(listen)

    known = CollectorRegistry()
    known.register(_Page(page))

    class Handler(MetricsHandler):
        timeout = 5.0
        registry = known

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404, "try /metrics")
                return
            try:
                super().do_GET()
            except RegistryError as error:
                self.send_error(503, "no name server is known", str(error))

    try:
        return http.server.ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise click.ClickException(f"cannot listen on {listen}: {error.strerror or error}") from error


@contextlib.contextmanager
def exporting(listen: str | None, page: Page) -> Iterator[None]:
    """Serve the page while in this context; its event loop makes the page. Without ``listen``, serve nothing."""
    if listen is None:
        yield
        return
    loop = asyncio.get_running_loop()

    async def make() -> Iterable[Metric]:
        return page()

    with exporter(listen, lambda: asyncio.run_coroutine_threadsafe(make(), loop).result(_PAGE_S)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()


def listen_address(listen: str, option: str = "--listen") -> tuple[str, int]:
    """Host and port of an option that takes PORT or HOST:PORT; a UsageError if it is neither."""
    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise click.UsageError(f"{option} {listen}: expected PORT or HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)
