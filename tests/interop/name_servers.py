"""The name server under test: ours, or a stock Java one to prove that the tests themselves are right.

MQREGISTRY_INTEROP_SERVER=java-5.3.3 (any release) puts the Java NameServer in its place.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bench.servers.processes import ChildProcess, Processes, free_port, wait_until

from .rocketmq import START_TIMEOUT_S, Broker, Release, start_java_name_server
from .wire import registered_addresses

OURS = "mqregistry"
BOOT_LINE = "The Name Server boot success. serializeType=JSON"
STOP_TIMEOUT_S = 10
REGISTER_TIMEOUT_S = 60


@dataclass(frozen=True)
class NameServer:
    """One that runs and answers."""

    process: ChildProcess
    port: int

    @property
    def addr(self) -> str:
        return f"127.0.0.1:{self.port}"


class Kind(Protocol):
    """What can be put under test."""

    name: str

    def start(self, processes: Processes, properties: Mapping[str, object] | None = None) -> NameServer:
        """One name server with nothing in it."""

    def start_two(
        self, processes: Processes, properties: Mapping[str, object] | None = None
    ) -> tuple[NameServer, NameServer]:
        """Two for one address list, with nothing in them."""


class JavaNameServers:
    """Stock NameServers; two of them know nothing of each other."""

    def __init__(self, release: Callable[[], Release], version: str) -> None:
        self.name = f"java-{version}"
        self._release = release

    def start(self, processes: Processes, properties: Mapping[str, object] | None = None) -> NameServer:
        port = free_port()
        return NameServer(start_java_name_server(processes, self._release(), port, properties), port)

    def start_two(
        self, processes: Processes, properties: Mapping[str, object] | None = None
    ) -> tuple[NameServer, NameServer]:
        return self.start(processes, properties), self.start(processes, properties)


class OurNameServers:
    """`mqregistry up` alone, or `mqregistry serve` twice on one Redis, as installed beside this Python."""

    name = OURS

    def start(
        self, processes: Processes, properties: Mapping[str, object] | None = None, *, http_port: int = 0
    ) -> NameServer:
        home = processes.home("up")
        options = ["--data-dir", str(home / "data"), "--http-port", str(http_port)]
        return self._start(processes, home, "up", options, properties)

    def start_two(
        self, processes: Processes, properties: Mapping[str, object] | None = None
    ) -> tuple[NameServer, NameServer]:
        url = start_redis(processes)
        return self.start_on(processes, url, properties), self.start_on(processes, url, properties)

    def start_on(self, processes: Processes, url: str, properties: Mapping[str, object] | None = None) -> NameServer:
        """A front end on this Redis."""
        options = ["--redis", url, "--host", "127.0.0.1"]
        return self._start(processes, processes.home("serve"), "serve", options, properties)

    def _start(
        self,
        processes: Processes,
        home: Path,
        command: str,
        options: list[str],
        properties: Mapping[str, object] | None,
    ) -> NameServer:
        port = free_port()
        if properties:
            file = home / "namesrv.properties"
            file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
            options = [*options, "-c", str(file)]
        running = processes.start(
            f"mqregistry {command} at {port}",
            [str(beside_python("mqregistry")), command, "--port", str(port), "--http-port", "0", *options],
            home=home,
            env=_environment(),
            patience_s=STOP_TIMEOUT_S,
        )
        running.wait_for_output(BOOT_LINE, START_TIMEOUT_S)
        return NameServer(running, port)


def start_redis(processes: Processes) -> str:
    """A Redis that keeps nothing; its URL."""
    home = processes.home("redis")
    port = free_port()
    server = beside_python("redis-server")
    running = processes.start(
        f"Redis at {port}",
        [str(server), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"],
        home=home,
    )
    running.wait_for_output("eady to accept connections", START_TIMEOUT_S)
    return f"redis://127.0.0.1:{port}/0"


def beside_python(command: str) -> Path:
    beside = Path(sys.executable).with_name(command)
    if beside.exists():
        return beside
    found = shutil.which(command)
    assert found, f"no {command} beside {sys.executable} or on PATH"
    return Path(found)


def _environment() -> dict[str, str]:
    """Ours without what would configure the server behind the tests' back; the Redis of a test is a new one."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith("MQREGISTRY_")}
    return ours | {"MQREGISTRY_FRESH": "true"}


def wait_for_registration(name_server: NameServer, broker: Broker) -> None:
    wait_until(
        f"{broker.addr} is registered at {name_server.addr}",
        lambda: broker.addr in registered_addresses(name_server.port),
        REGISTER_TIMEOUT_S,
    )


def compare(*arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit status of a comparison, and what it told."""
    done = subprocess.run(
        [sys.executable, "-m", "mqregistry", "compare", *arguments, "--json"],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1])
