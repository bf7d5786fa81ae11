"""Starting what the tests here ask."""

from __future__ import annotations

from bench.servers.processes import Processes
from tests.interop.name_servers import OurNameServers, start_redis

from .run import FleetPair

NAMESPACES = "one", "several"


def start_pair(
    processes: Processes, front_ends: int, workers: int = 1, *, eager: bool = False, compat: str = "5.x",
    idle_s: int = 120,
) -> FleetPair:  # fmt: skip
    """A front end by itself, and some that share a namespace, on one Redis; idle_s: before a connection is closed."""
    url = start_redis(processes)

    def start(namespace: str, workers: int) -> int:
        options = [
            "--redis", url, "--host", "127.0.0.1", "--namespace", namespace, "--workers", str(workers),
            "--compat", compat, "--log-level", "warning",
            "--set", f"serverChannelMaxIdleTimeSeconds={idle_s}",
        ]  # fmt: skip
        return OurNameServers()._start(processes, processes.home("serve"), "serve", options, None).port

    one = start(NAMESPACES[0], 1)
    return FleetPair(
        url, one, [start(NAMESPACES[1], workers) for _ in range(front_ends)], NAMESPACES, eager=eager, compat=compat
    )
