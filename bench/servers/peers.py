"""Starts the servers that are measured: Java NameServers from Maven, ours with its Redis, and an echo server.

The echo server shows the most that the machine can do. Each server runs only on the given cores; its cost is the sum
over all of its processes, as the operating system counts it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.load.tool import build, pinned
from bench.servers.checkout import Checkout
from bench.servers.processes import ChildProcess, Processes, free_port
from bench.servers.rocketmq import OPENS, Unavailable, fetch_jars, write_properties
from bench.servers.wire import answers
from mqregistry.embedded import find_server
from mqregistry.embedded.server import SETTINGS as REDIS_SETTINGS

START_TIMEOUT_S = 120
_LOOK_EVERY_S = 0.002

# The heap and the flags of a release's bin/runserver.sh for JDK 9 and later.
OFFICIAL_HEAP = "4g"
OFFICIAL_FLAGS = (
    "-server", "-XX:MetaspaceSize=128m", "-XX:MaxMetaspaceSize=320m", "-XX:+UseG1GC", "-XX:G1HeapRegionSize=16m",
    "-XX:G1ReservePercent=25", "-XX:InitiatingHeapOccupancyPercent=30", "-XX:SoftRefLRUPolicyMSPerMB=0",
    "-XX:-OmitStackTraceInFastThrow", "-XX:-UseLargePages",
)  # fmt: skip
# 4.x does not start without this file. As in a release, INFO is logged to a file through a queue.
LOGBACK = """<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>{home}/namesrv.log</file>
    <encoder><pattern>%d{{yyy-MM-dd HH:mm:ss,GMT+8}} %p %t - %m%n</pattern></encoder>
  </appender>
  <appender name="queue" class="ch.qos.logback.classic.AsyncAppender">
    <appender-ref ref="file"/><discardingThreshold>0</discardingThreshold>
  </appender>
  <root level="INFO"><appender-ref ref="queue"/></root>
</configuration>
"""


@dataclass(frozen=True)
class Cost:
    """CPU time and memory of all processes of a server. rss_mb counts a shared page in each process, pss_mb once."""

    cpu_s: float
    rss_mb: float
    pss_mb: float


class MeasuredServer:
    """A running server. start_s: from the start of its process to its first answer."""

    def __init__(self, name: str, port: int, roots: Sequence[ChildProcess], began: float) -> None:
        self.name = name
        self.port = port
        self._roots = list(roots)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not answers(port):
            for root in roots:
                if root.exit_code() is not None:
                    raise Unavailable(f"{root.name} ended with {root.exit_code()}:\n{root.tail()}")
            if time.monotonic() > deadline:
                raise Unavailable(f"{name} does not answer after {START_TIMEOUT_S} s:\n{roots[-1].tail()}")
            time.sleep(_LOOK_EVERY_S)
        self.start_s = time.monotonic() - began

    def processes(self) -> list[psutil.Process]:
        found = []
        for root in self._roots:
            process = psutil.Process(root.pid)
            found += [process, *process.children(recursive=True)]
        return found

    def cost(self) -> Cost:
        """CPU time used until now, and present memory."""
        cpu_s = rss = pss = 0.0
        for process in self.processes():
            times, memory = process.cpu_times(), process.memory_full_info()
            cpu_s += times.user + times.system
            rss += memory.rss
            pss += memory.pss
        return Cost(cpu_s, rss / 1e6, pss / 1e6)

    def pss_by_process(self) -> dict[str, float]:
        """Memory in MB of each process: its command and number."""
        return {f"{process.name()} {process.pid}": process.memory_full_info().pss / 1e6 for process in self.processes()}

    def tail(self) -> str:
        """The last lines that its processes have logged."""
        return "\n".join(f"{root.name}: {root.tail()}" for root in self._roots)

    def stop(self) -> None:
        for root in reversed(self._roots):
            root.end()


class Java:
    """A Java NameServer with the flags of its release's start script."""

    def __init__(self, version: str, heap: str = OFFICIAL_HEAP) -> None:
        self.version, self.heap = version, heap
        self.name = f"Java {version}" + ("" if heap == OFFICIAL_HEAP else f", {heap} heap")

    def start(self, processes: Processes, cores: Sequence[int]) -> MeasuredServer:
        """Start it; raises Unavailable if its jars cannot be fetched or it does not start."""
        lib = fetch_jars(self.version)
        home = processes.home(f"java-{self.version}")
        (home / "conf").mkdir()
        (home / "conf" / "logback_namesrv.xml").write_text(LOGBACK.format(home=home))
        port = free_port()
        # bindAddress is a key of 5.x; 4.8.0 listens on all addresses and ignores it.
        write_properties(home / "namesrv.conf", {"listenPort": port, "bindAddress": "127.0.0.1"})
        command = [
            "java", f"-Xms{self.heap}", f"-Xmx{self.heap}", *OFFICIAL_FLAGS, *OPENS, f"-Duser.home={home}",
            f"-Drocketmq.home.dir={home}", "-cp", f"{lib}/*", "org.apache.rocketmq.namesrv.NamesrvStartup",
            "-c", str(home / "namesrv.conf"),
        ]  # fmt: skip
        began = time.monotonic()
        return MeasuredServer(self.name, port, [processes.start(self.name, pinned(command, cores), home=home)], began)


def serve(
    processes: Processes,
    redis_url: str,
    port: int,
    cores: Sequence[int],
    *options: str,
    mqregistry: Sequence[str] = (sys.executable, "-m", "mqregistry"),
) -> ChildProcess:
    """Start a front end.

    Args:
        mqregistry: the command, of this or of a second checkout.
    """
    # a user's own settings must not change the measurement
    env = {key: value for key, value in os.environ.items() if not key.startswith("MQREGISTRY_")}
    command = [
        *mqregistry, "serve", "--redis", redis_url, "--host", "127.0.0.1", "--port", str(port),
        "--http-port", "0", *options,
    ]  # fmt: skip
    home = processes.home("front-end")
    return processes.start(f"front end at {port}", pinned(command, cores), home=home, patience_s=15, env=env)


class OurServer(MeasuredServer):
    """Front ends, each with its sweeper, and their Redis.

    cores: of Redis, and of the front ends without front_end_cores. settings: further options of the front ends.
    """

    def __init__(
        self,
        workers: int,
        front_ends: int,
        processes: Processes,
        cores: Sequence[int],
        name: str,
        front_end_cores: Sequence[int] | None = None,
        checkout: Checkout | None = None,
        settings: Sequence[str] = (),
    ) -> None:
        self._processes, self.workers_count, self._checkout = processes, workers, checkout
        self._settings = settings
        self._front_end_cores = cores if front_end_cores is None else front_end_cores
        home = processes.home("redis")
        # A unix socket's path must be short, so the socket is not in `home` with the data.
        self._socket = Path(tempfile.gettempdir(), f"mqbench-{os.getpid()}-{len(processes.started)}.sock")
        command = [find_server(), "--dir", str(home), "--unixsocket", str(self._socket), *REDIS_SETTINGS]
        self._redis = processes.start("redis", pinned(command, cores), home=home, patience_s=5)
        while not self._socket.exists():
            if self._redis.exit_code() is not None:
                raise Unavailable(f"Redis ended with {self._redis.exit_code()}:\n{self._redis.tail()}")
            time.sleep(_LOOK_EVERY_S)
        began = time.monotonic()
        self._front_ends = [self._serve(free_port()) for _ in range(front_ends)]
        self.ports = [port for port, _ in self._front_ends]
        super().__init__(name, self.ports[0], [self._redis, *(running for _, running in self._front_ends)], began)
        for port in self.ports[1:]:
            while not answers(port):
                time.sleep(_LOOK_EVERY_S)

    def _serve(self, port: int) -> tuple[int, ChildProcess]:
        options = ["--workers", str(self.workers_count), *self._settings]
        command = {"mqregistry": self._checkout.command} if self._checkout else {}
        return port, serve(self._processes, f"unix://{self._socket}", port, self._front_end_cores, *options, **command)

    def restart_front_end(self) -> None:
        """End the first front end and start it again on its port; sets start_s."""
        port, running = self._front_ends[0]
        running.end()
        began = time.monotonic()
        self._front_ends[0] = self._serve(port)
        roots = [self._redis, *(running for _, running in self._front_ends)]
        MeasuredServer.__init__(self, self.name, port, roots, began)

    def redis_cpu_s(self) -> float:
        times = psutil.Process(self._redis.pid).cpu_times()
        return float(times.user + times.system)

    @property
    def redis_socket(self) -> str:
        return str(self._socket)

    def workers(self) -> list[psutil.Process]:
        """The worker processes of the first front end."""
        return psutil.Process(self._front_ends[0][1].pid).children(recursive=True)

    def stop(self) -> None:
        super().stop()
        self._socket.unlink(missing_ok=True)


class Ours:
    """This registry: Redis, front ends and sweepers on the same cores.

    checkout: the checkout whose front ends are started, if not this one; Redis is always that of this checkout.
    """

    def __init__(self, workers: int = 1, front_ends: int = 1, checkout: Checkout | None = None) -> None:
        self.workers, self.front_ends, self.checkout = workers, front_ends, checkout
        self.name = checkout.name if checkout else "ours"
        if workers > 1:
            self.name += f", {workers} workers"
        if front_ends > 1:
            self.name += f", {front_ends} front ends"

    def start(self, processes: Processes, cores: Sequence[int]) -> OurServer:
        return OurServer(self.workers, self.front_ends, processes, cores, self.name, checkout=self.checkout)


class Echo:
    """The C echo server, which shows the limit: it answers every request with as many bytes as a route has.

    bodies: how many different bodies it sends in random order; with many, they are in no CPU cache.
    """

    def __init__(self, body_bytes: int, bodies: int = 1) -> None:
        self.body_bytes, self.bodies = body_bytes, bodies
        self.name = "C echo server" if bodies == 1 else f"C echo server, {bodies:,} answers"

    def start(self, processes: Processes, cores: Sequence[int]) -> MeasuredServer:
        port = free_port()
        command = [str(build("echo")), str(port), str(self.body_bytes), str(self.bodies)]
        home = processes.home("echo")
        return MeasuredServer(
            self.name, port, [processes.start(self.name, pinned(command, cores), home=home)], time.monotonic()
        )


Peer = Java | Ours | Echo
Found = Callable[[str], None]


def available(peers: Sequence[Peer], say: Found) -> list[Peer]:
    """The servers that this machine can run; says why the others are left out."""
    found: list[Peer] = []
    for peer in peers:
        try:
            if isinstance(peer, Java):
                fetch_jars(peer.version)
            found.append(peer)
        except Unavailable as error:
            say(f"without {peer.name}: {error}")
    return found
