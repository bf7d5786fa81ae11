"""Apache RocketMQ's NameServer, broker, client and mqadmin as processes on loopback.

Everything runs with the least memory and threads of compilation that it works with.
"""

import hashlib
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from bench.servers.processes import ChildProcess, Processes, free_port, wait_until
from bench.servers.rocketmq import OPENS, cache_folder, fetch_jars, publish_once, write_properties

from .wire import parse_json

DRIVERS = Path(__file__).with_name("java")

START_TIMEOUT_S = 120

# Another program on this machine may take one of its ports between our look and its bind.
PORT_ATTEMPTS = 3
PORT_TAKEN = "Address already in use"
ANSWER_TIMEOUT_S = 30
MARK = "##"

CLUSTER = "DefaultCluster"
BROKER_NAME = "broker-a"

JVM_FLAGS = (
    "-Xms64m",
    "-Xmx256m",
    "-XX:MaxDirectMemorySize=256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    *OPENS,
)


@dataclass(frozen=True)
class Release:
    """The jars of one release, and the drivers of this folder compiled against them."""

    version: str
    lib: Path
    drivers: Path
    system_properties: tuple[str, ...] = ()
    """What its processes are started with besides, as -Dkey=value."""

    def with_properties(self, properties: Mapping[str, object]) -> "Release":
        """The same release, its processes started with these system properties."""
        return replace(self, system_properties=tuple(f"-D{key}={value}" for key, value in properties.items()))

    def java(self, main: str, home: Path, *arguments: str) -> list[str]:
        """The command that runs `main` with `home` as its home in every sense that RocketMQ knows."""
        _write_logging_configuration(home)
        return [
            "java",
            *JVM_FLAGS,
            f"-Duser.home={home}",
            f"-Drocketmq.home.dir={home}",
            # A consumer looks whether it has new queues each 20 s unless told otherwise.
            "-Drocketmq.client.rebalance.waitInterval=1000",
            *self.system_properties,
            "-cp",
            f"{self.lib}/*:{self.drivers}",
            main,
            *arguments,
        ]


def fetch(version: str) -> Release:
    """The release, from the cache or by Maven; raises Unavailable where that cannot be had."""
    lib = fetch_jars(version)
    drivers = cache_folder() / f"drivers-{version}-{digest_of(DRIVERS.glob('*.java'))}"
    publish_once(drivers, lambda partial: compile_drivers(lib, DRIVERS.glob("*.java"), partial))
    return Release(version, lib, drivers / "drivers.jar")


def digest_of(sources: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for source in sorted(sources):
        digest.update(source.name.encode() + source.read_bytes())
    return digest.hexdigest()[:12]


def compile_drivers(lib: Path, sources: Iterable[Path], folder: Path) -> None:
    """Into folder/drivers.jar."""
    with tempfile.TemporaryDirectory() as classes:
        javac = ["javac", "-proc:none", "-Xlint:all,-classfile,-path", "-Werror", "-cp", f"{lib}/*"]
        for command in (
            [*javac, "-d", classes, *map(str, sorted(sources))],
            ["jar", "--create", "--file", str(folder / "drivers.jar"), "-C", classes, "."],
        ):
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, f"{command[0]}:\n{done.stdout}{done.stderr}"


def _write_logging_configuration(home: Path) -> None:
    """4.x does not start without these files; 5.x has its own and ignores them."""
    (home / "conf").mkdir(exist_ok=True)
    for part in ("namesrv", "broker", "tools"):
        (home / "conf" / f"logback_{part}.xml").write_text(
            f"""<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>{home}/{part}.log</file>
    <encoder><pattern>%d %p %t - %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="file"/></root>
</configuration>
"""
        )


def start_java_name_server(
    processes: Processes, release: Release, port: int, properties: Mapping[str, object] | None = None
) -> ChildProcess:
    """Start a Java NameServer; it answers when this returns."""
    home = processes.home(f"namesrv-{release.version}")
    configuration = home / "namesrv.conf"
    # bindAddress is of 5.x; 4.x listens everywhere, and would show the key among its own (319).
    address = {} if release.version.startswith("4.") else {"bindAddress": "127.0.0.1"}
    write_properties(configuration, {"listenPort": port, **address, **(properties or {})})
    command = release.java("org.apache.rocketmq.namesrv.NamesrvStartup", home, "-c", str(configuration))
    running = processes.start(f"Java NameServer {release.version} at {port}", command, home=home)
    running.wait_for_output("The Name Server boot success", START_TIMEOUT_S)
    return running


class Broker:
    """A stock broker with a store of its own; it can be killed, paused, and started again, also on another port."""

    def __init__(
        self,
        processes: Processes,
        release: Release,
        name_servers: str | None,
        properties: Mapping[str, object] | None = None,
    ) -> None:
        """name_servers: its address list; None: an address server tells it."""
        self.release = release
        self.name_servers = name_servers
        self.port = 0
        self._home = processes.home(f"broker-{release.version}")
        self._processes = processes
        self._properties = dict(properties or {})
        self._process: ChildProcess | None = None

    @property
    def addr(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def process(self) -> ChildProcess:
        assert self._process is not None, "the broker was never started"
        return self._process

    def topics(self) -> dict[str, dict[str, Any]]:
        """Its own table of topics, as it stores it.

        Empty while it has none that it was not born with, and while it writes the file, which it does in place.
        """
        try:
            text = (self._home / "store" / "config" / "topics.json").read_text()
            return dict(parse_json(text)["topicConfigTable"])
        except (FileNotFoundError, json.JSONDecodeError):
            return {}

    def is_running(self) -> bool:
        return self._process is not None and self._process.exit_code() is None

    def start(self) -> None:
        """Start on a port that it had never before.

        4.x has registered when this returns. 5.x mostly has not: it skips name servers that its scan, which begins
        at the same moment, has not reached yet, and comes to them with the next regular registration after 10 s.
        """
        assert not self.is_running()
        for _ in range(PORT_ATTEMPTS):
            said = self._start_once()
            if self.is_running() or PORT_TAKEN not in said:
                break
        assert self.is_running(), f"{self.process.name} ended at start:\n{self.process.tail()}"

    def _start_once(self) -> str:
        """Start it, wait until it has started or ended, and return what it said meanwhile."""
        configuration = self.configure()
        command = self.release.java("org.apache.rocketmq.broker.BrokerStartup", self._home, "-c", str(configuration))
        name = f"broker {self.release.version} at {self.port}"
        said_before = len(self._process.output()) if self._process else 0
        process = self._process = self._processes.start(name, command, home=self._home)
        wait_until(
            f"{name} has started",
            lambda: "boot success" in process.output()[said_before:] or process.exit_code() is not None,
            START_TIMEOUT_S,
        )
        return process.output()[said_before:]

    def configure(self) -> Path:
        """Choose a port that it had never before, and write its configuration file."""
        # It takes two neighbours: the port for VIP clients below, the one for replicas above.
        before = self.port
        while self.port == before:
            self.port = free_port(before=2, after=1)
        store = self._home / "store"
        configuration = self._home / "broker.conf"
        write_properties(
            configuration,
            {
                "listenPort": self.port,
                "haListenPort": self.port + 1,
                "bindAddress": "127.0.0.1",
                **({} if self.name_servers is None else {"namesrvAddr": self.name_servers}),
                "brokerIP1": "127.0.0.1",
                "brokerIP2": "127.0.0.1",
                "brokerClusterName": CLUSTER,
                "brokerName": BROKER_NAME,
                "brokerId": 0,
                "registerNameServerPeriod": 10_000,  # the least it accepts
                "storePathRootDir": store,
                "storePathCommitLog": store / "commitlog",
                "mappedFileSizeCommitLog": 16 * 1024 * 1024,
                "mappedFileSizeConsumeQueue": 20 * 30_000,
                "maxIndexNum": 50_000,
                "maxHashSlotNum": 10_000,
                "timerWheelEnable": False,  # 5.x: its files are 140 MB
                "diskMaxUsedSpaceRatio": 95,
                # Patience with a loaded machine: else the broker refuses messages that it would take a moment later.
                "waitTimeMillsInSendQueue": 5_000,
                "osPageCacheBusyTimeOutMills": 10_000,
                **self._properties,
            },
        )
        return configuration


class Console:
    """A Java process that is steered by lines of input and answers with marked lines of output."""

    def __init__(self, running: ChildProcess) -> None:
        self.process = running
        self._read = 0
        self._pending = ""

    def tell(self, line: str) -> None:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self, within_s: float) -> tuple[str, str]:
        """The next marked line without its mark, and everything that was put out before it."""
        deadline = time.monotonic() + within_s
        before: list[str] = []
        while True:
            line, end, rest = self._pending.partition("\n")
            if end:
                self._pending = rest
                if line.startswith(MARK):
                    return line.removeprefix(MARK), "\n".join(before)
                before.append(line)
                continue
            with self.process.log.open("rb") as log:
                log.seek(self._read)
                fresh = log.read()
            # Only whole lines, so that no character is cut in two.
            fresh = fresh[: fresh.rfind(b"\n") + 1]
            if fresh:
                self._read += len(fresh)
                self._pending += fresh.decode(errors="replace")
            elif self.process.exit_code() is not None:
                raise AssertionError(
                    f"{self.process.name} ended with {self.process.exit_code()}:\n{self.process.tail()}"
                )
            elif time.monotonic() > deadline:
                raise AssertionError(f"{self.process.name} gave no answer within {within_s:g} s")
            else:
                time.sleep(0.01)


@dataclass(frozen=True)
class Counts:
    """What a client did so far."""

    sending: bool
    acknowledged: int
    """Messages that the broker has confirmed to the producer."""
    received: int
    """Different messages that came to the consumer."""
    missing: int
    """Acknowledged messages that have not come to the consumer."""
    duplicates: int
    failures: int
    """Attempts to send that failed and were repeated."""
    errors: list[str]
    """Why, for the last few."""


class SteeredClient:
    """A producer and a consumer of one topic in one process, that takes the commands of ClientDriver."""

    def __init__(self, topic: str, running: ChildProcess) -> None:
        self.topic = topic
        self.process = running
        self._console = Console(running)
        self._console.hear(START_TIMEOUT_S)

    def send(self, count: int, per_second: int = 0) -> None:
        """Begin to send so many more messages."""
        self._ask(f"send {count} {per_second}")

    def flow(self, per_second: int) -> None:
        """Begin to send until `stop`."""
        self._ask(f"flow {per_second}")

    def stop(self) -> None:
        self._ask("stop")

    def counts(self) -> Counts:
        return self._ask("counts")

    def end(self) -> None:
        self.process.end()

    def wait_for_acknowledged(self, more: int, within_s: float) -> Counts:
        """Until so many more messages than now are acknowledged."""
        target = self.counts().acknowledged + more
        return self._wait_for(f"{target} messages are acknowledged", lambda c: c.acknowledged >= target, within_s)

    def wait_for_all(self, within_s: float) -> Counts:
        """Until everything it was told to send is acknowledged and received."""
        return self._wait_for(
            "all messages are acknowledged and received", lambda c: not c.sending and not c.missing, within_s
        )

    def _wait_for(self, what: str, holds: Any, within_s: float) -> Counts:
        last: list[Counts] = []

        def probe() -> bool:
            last[:] = [self.counts()]
            return bool(holds(last[0]))

        try:
            wait_until(what, probe, within_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; {last}") from None
        return last[0]

    def _ask(self, line: str) -> Counts:
        self._console.tell(line)
        return Counts(**json.loads(self._console.hear(ANSWER_TIMEOUT_S)[0]))


def with_credentials(credentials: tuple[str, str] | None) -> dict[str, str]:
    """The environment of a driver that signs with this access key and secret key; None: that does not sign."""
    keys = ("ACCESS_KEY", "SECRET_KEY")
    plain = {name: value for name, value in os.environ.items() if name not in keys}
    return plain if credentials is None else plain | dict(zip(keys, credentials, strict=True))


class Client(SteeredClient):
    """A stock producer and push consumer."""

    def __init__(
        self, processes: Processes, release: Release, name_servers: str, topic: str, group: str | None = None,
        credentials: tuple[str, str] | None = None,
    ) -> None:  # fmt: skip
        home = processes.home(f"client-{release.version}")
        command = release.java("ClientDriver", home, name_servers, topic, group or f"group_{topic}")
        name = f"client {release.version} of {topic}"
        env = with_credentials(credentials)
        super().__init__(topic, processes.start(name, command, home=home, env=env, steered=True))


class Admin:
    """mqadmin, all commands in one JVM that starts with the first."""

    def __init__(self, processes: Processes, release: Release) -> None:
        self._processes, self._release = processes, release

    @cached_property
    def _console(self) -> Console:
        home = self._processes.home(f"mqadmin-{self._release.version}")
        command = self._release.java("AdminConsole", home)
        name = f"mqadmin {self._release.version}"
        console = Console(self._processes.start(name, command, home=home, steered=True))
        console.hear(START_TIMEOUT_S)
        return console

    def run(self, command: str, name_servers: str, *arguments: str) -> str:
        """One command's output."""
        return self._run([command, "-n", name_servers, *arguments])

    def commands(self) -> list[str]:
        """The names of all commands that this mqadmin has."""
        listed: list[str] = re.findall(r"^ {3}(\S+) ", self._run([]), re.MULTILINE)
        return listed

    def _run(self, arguments: Sequence[str]) -> str:
        self._console.tell("\t".join(arguments))
        return self._console.hear(START_TIMEOUT_S)[1]

    def clusters(self, name_servers: str) -> list[tuple[str, str, int, str]]:
        """What clusterList prints: cluster, broker name, id, address.

        The columns that follow come from the broker itself; a 4.8.0 broker of less than a second has an error there.
        """
        output = self.run("clusterList", name_servers)
        rows = re.findall(r"^(\S+) +(\S+) +(\d+) +([\d.]+:\d+)\b", output, re.MULTILINE)
        return [(cluster, name, int(broker_id), addr) for cluster, name, broker_id, addr in rows]

    def route(self, name_servers: str, topic: str) -> dict[str, Any] | None:
        """What topicRoute prints; None where it prints no route."""
        output = self.run("topicRoute", name_servers, "-t", topic)
        found = re.search(r"^\{.*^\}", output, re.DOTALL | re.MULTILINE)
        return parse_json(found[0]) if found else None
