"""One round's world: Redis, front ends, sweepers, brokers and clients; what was found wrong in it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import psutil
import redis

from mqregistry.protocol.command import Command
from mqregistry.store import scripts
from mqregistry.store.store import Store

from .clients import Admin, Looker
from .failovers import Failovers
from .hosts import REFUSED_AFTER_S, Host, Member
from .journal import Journal
from .model import BrokerState, Model
from .processes import BOOT_S, Daemon, DedicatedSweeper, FrontEnd, WallClock
from .servers import SERVERS
from .stalls import Stalls
from .timeline import most_had
from .variants import SENTINEL, SINGLE
from .wire import Wire

LIFE_MS = 9000
REDIS_TIMEOUT_MS = 500
CLUSTERS = ("c1", "c2")
# A script that takes longer than this is a finding; those that remove brokers take 3,000 topics at a time.
SLOW_MS = 300
SLOW_REMOVAL_MS = 150
REMOVALS = frozenset(("expire_brokers", "reap_worker", "release_channels"))
RSS_MIB = 400


def script_called(text: bytes) -> str:
    """Which one an EVALSHA or EVAL of the slow log called, by its SHA-1 or by how its source begins."""
    for name, script in scripts.load().items():
        if text.startswith((script.sha.encode(), script.source[:40].encode())):
            return name
    return "a script"


class World:
    """Everything of one round.

    wrong: what was found, the first being what matters. rng: of the world's making and of the peers, not of the
    schedule.
    """

    def __init__(self, folder: Path, seed: int, variant: str = SINGLE) -> None:
        self.folder, self.random = folder, Random(f"world {seed}")
        self.began = time.monotonic()
        self.stalls = Stalls()
        self.timeline = self.stalls.timeline
        self.namespace = "campaign"
        self.prefix = f"mq:{{{self.namespace}}}:"
        self.clock = WallClock(folder)
        self.redis: Any = SERVERS[variant](folder)
        common: dict[str, object] = {
            "namespace": self.namespace, "redis_timeout_ms": REDIS_TIMEOUT_MS, "heartbeats_max_entries": 3000,
        }  # fmt: skip
        serving = common | {"broker_channel_expired_time_ms": LIFE_MS, "shutdown_wait_time_seconds": 3}
        self.front_ends = [
            FrontEnd(0, 1, folder, self.clock, serving | {"sweep": "false"}),
            FrontEnd(1, 2, folder, self.clock, serving),
        ]
        self.sweeper = DedicatedSweeper(self.namespace, folder, self.clock, {"redis_timeout_ms": REDIS_TIMEOUT_MS})
        self.daemons: list[Daemon] = [*self.front_ends, self.sweeper]
        self.model = Model(self.timeline, len(self.front_ends), merge_s=LIFE_MS / 1000)
        self.hosts: list[Host] = []
        self.lookers = [Looker(self, index, seed * 10 + n) for n, index in enumerate((0, 0, 1, 1, 1))]
        self.admin = Admin(self, seed)
        self.journal = Journal(self)
        self.failovers = Failovers(self) if variant == SENTINEL else None
        self.wrong: list[str] = []
        self.found = asyncio.Event()
        self.busy: set[str] = set()
        self._cpu_ms: deque[tuple[float, float]] = deque(maxlen=80)
        self._redis_process: psutil.Process | None = None
        self.slowest_ms = 0.0
        self.rss_mib = 0.0
        self.names = 0
        self.replayable = True
        self.ends: dict[int, list[float]] = {0: [], 1: []}
        self._tasks: list[asyncio.Task[Any]] = []
        self._slowlog_ids: dict[int | None, int] = {}

    # making it

    async def start(self, *, topics: int = 6) -> None:
        self.redis.start()
        async with Store(self.redis.url, self.namespace, fresh=True) as store:
            await store.connect()
        for daemon in self.daemons:
            await self.redis.lead(daemon)
            daemon.start()
        for daemon in self.daemons:
            await self.boot(daemon)
        self.read_slowlog()
        self.stalls.pids = self._pids()
        self.make_brokers(topics)
        run = asyncio.create_task
        self._tasks = [run(self.stalls.watch_processes()), run(self._watch()), run(self._watch_cpu())]
        if self.failovers is None:  # Sentinels replace a server that does not answer
            self._tasks.append(run(self.stalls.watch_redis(self.redis.socket_path)))
        await self.until(lambda: all(broker.lives for broker in self.model.brokers.values()), "all brokers registered")
        watchers = (*self.lookers, self.admin, self.journal, *([self.failovers] if self.failovers else []))
        self._tasks += [run(self._guarded(watcher.run())) for watcher in watchers]

    def ended(self, daemon: Daemon) -> None:
        """A process that knew the tables ended, or one began that knows nothing of before."""
        if isinstance(daemon, FrontEnd):
            self.ends[daemon.index].append(time.monotonic())

    async def boot(self, daemon: Daemon, within_s: float = BOOT_S) -> None:
        began = time.monotonic()
        while not daemon.booted():
            if not daemon.runs:
                return  # the watch says how it ended
            if time.monotonic() > began + within_s:
                self.judged([f"{daemon.name} did not serve within {within_s:g} s of its start"])
                return
            await asyncio.sleep(0.02)

    def make_brokers(self, topics: int) -> None:
        """Masters and a slave in two clusters; three brokers that share connections; one that knows one front end."""
        everybody = (0, 1)
        self.add_host([self.broker(0, topics=topics)], everybody)
        master = self.hosts[0].members[0].state
        self.add_host([self.broker(1, name=master.name, cluster=master.cluster)], everybody)
        for _ in range(2):
            self.add_host([self.broker(0, topics=topics)], everybody)
        self.add_host([self.broker(0, topics=topics, timeout_s=14.0)], everybody, period_s=3.0)
        self.add_host([self.broker(0, topics=topics) for _ in range(3)], everybody)
        self.add_host([self.broker(0, topics=topics)], (1,))
        self.add_host([self.broker(0, topics=topics)], (0,))

    def broker(
        self, broker_id: int, *, name: str = "", topics: int = 4, timeout_s: float | None = None, cluster: str = "",
        addr: str = "", prefix: str = "", suffix: str = "",
    ) -> Member:  # fmt: skip
        """A broker that nobody has heard of yet; prefix, suffix: what its topics' names have around their numbers."""
        self.names += 1
        number = self.names
        name = name or f"b{number}"
        addr = addr or f"127.0.0.1:{1000 + number}"
        if timeout_s is None:
            timeout_s = self.random.choice((8.0, 9.0, 9.0, 12.0))
        cluster = cluster or self.random.choice(CLUSTERS)
        digits = len(str(topics)) if suffix else 1
        own = [f"t-{name}-{prefix}{index:0{digits}}{suffix}" for index in range(topics)]
        state = BrokerState(f"{name}/{broker_id}#{number}", name, broker_id, addr, cluster, timeout_s, (0, 1))
        volatile = [f"v-{self.random.randrange(6)}" for _ in range(2)]
        return Member(self.model.add(state), ["common", *volatile, *own])

    def add_host(
        self, members: list[Member], front_ends: tuple[int, ...], *, period_s: float = 1.0, name: str = "",
        apart: bool = False,
    ) -> Host:  # fmt: skip
        for member in members:
            member.state.front_ends = front_ends
        seed = self.random.randrange(1 << 30)
        name = name or members[0].state.uid
        host = Host(self, name, members, front_ends, seed, period_s=period_s, apart=apart)
        self.hosts.append(host)
        return host

    # what was found

    def judged(self, wrong: list[str]) -> None:
        for text in wrong:
            self.wrong.append(f"at {time.monotonic() - self.began:.2f} s: {text}")
            self.found.set()

    def lost(self, since: float, known_by: frozenset[int] | None = None) -> None:
        """Redis has lost what it learned since then; known routes are now served beside what it holds."""
        now = time.monotonic()
        self.replayable = False
        self.model.lost(since, now, known_by)
        self.timeline.add("loss", now, now + self.model.merge_s + 4)

    def judge_write(self, index: int, answer: Command, what: str, sent: float) -> None:
        """0, or 1 while or shortly after something was disturbed, or 1500 of one that drains."""
        if answer.code in (0, 1500):
            return
        now = time.monotonic()
        places = ("redis", "master", "clock", "peers", "waits", "loss", "load", f"fe{index}")
        if answer.code != 1 or self.timeline.is_quiet(sent - REFUSED_AFTER_S, now, places):
            self.judged([f"fe{index} answered {what} with code {answer.code} in quiet times: {answer.remark}"])

    def unanswered(self, index: int, what: str) -> None:
        now = time.monotonic()
        if self.timeline.is_quiet(now - 30, now, ("peers", f"fe{index}")):
            self.judged([f"fe{index} runs and did not answer {what} in time"])

    def hung_up(self, index: int, host: Host | None, wire: Wire) -> None:
        """A front end closed a connection: it may if it ends, or if every broker on it fell silent."""
        at = wire.closed_at or time.monotonic()
        if wire.sent_away or not self.timeline.is_quiet(at - 5, at + 0.2, (f"fe{index}", "peers")):
            return
        if host is None:
            self.judged([f"fe{index} hung up on a client that asks all the time"])
            return
        living = [m.state.uid for m in host.members if not m.silent and self.model.lives(m.state, at)]
        if living:
            self.judged([f"fe{index} hung up on a connection over which {', '.join(living)} beat in time"])

    # watching

    async def _guarded(self, coroutine: Any) -> None:
        try:
            await coroutine
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.judged([f"the campaign itself failed: {error!r}"])
            raise

    def _pids(self) -> list[int]:
        pids = [process.pid for daemon in self.daemons for process in daemon.family()]
        return pids if self._redis_process is None else [*pids, self._redis_process.pid]

    async def _watch_cpu(self) -> None:
        while True:
            self._look_at_cpu()
            await asyncio.sleep(0.05)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            self.look_at_processes()
            await asyncio.to_thread(self.read_slowlog)
            self.stalls.pids = self._pids()

    def look_at_processes(self) -> None:
        for daemon in self.daemons:
            self.judged(daemon.complaints())
            rss_mib = daemon.rss_bytes() / (1 << 20)
            self.rss_mib = max(self.rss_mib, rss_mib)
            if rss_mib > RSS_MIB:
                self.judged([f"a process of {daemon.name} has {rss_mib:.0f} MiB"])

    def admin_redis(self, timeout_s: float = 2.0) -> redis.Redis:
        return self.redis.client(timeout_s)

    async def tell_redis(self, call: Callable[[redis.Redis], object]) -> bool:
        """Have an administrator's command run, past all proxies; False: Redis is away."""

        def run() -> bool:
            with contextlib.suppress(redis.RedisError, OSError), self.admin_redis() as client:
                call(client)
                return True
            return False

        return await asyncio.to_thread(run)

    def _look_at_cpu(self) -> None:
        """How much processor time Redis has had."""
        if self._redis_process is not None:
            with contextlib.suppress(psutil.Error):
                times = self._redis_process.cpu_times()
                self._cpu_ms.append((time.monotonic(), (times.user + times.system) * 1000))

    def read_slowlog(self) -> None:
        """Scripts that held up Redis; a script that waited for a processor is no finding.

        No script can have had more than the most processor time that Redis had lately within as long as it took.
        """
        pid = self.redis.pid
        if self._redis_process is None or self._redis_process.pid != pid:
            self._cpu_ms.clear()
            with contextlib.suppress(psutil.Error):
                self._redis_process = psutil.Process(pid) if pid else None
        with contextlib.suppress(redis.RedisError, OSError), self.admin_redis(0.5) as client:
            for entry in reversed(client.slowlog_get(512)):
                if entry["id"] <= self._slowlog_ids.get(pid, -1):
                    continue
                self._slowlog_ids[pid] = entry["id"]
                ms = min(entry["duration"] / 1000, most_had(list(self._cpu_ms), entry["duration"] / 1e6))
                kind, _, script_text = entry["command"].partition(b" ")
                if kind.upper().startswith(b"EVAL"):
                    name = script_called(script_text)
                    self.slowest_ms = max(self.slowest_ms, ms)
                    if ms > (SLOW_REMOVAL_MS if name in REMOVALS else SLOW_MS):
                        self.judged([f"{name} took {ms:.0f} ms of Redis"])

    async def until(self, condition: Any, what: str, within_s: float = 30.0) -> bool:
        """Wait; what does not come in time is a finding."""
        end = time.monotonic() + within_s
        while True:
            found = condition()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return True
            if self.found.is_set():
                return False
            if time.monotonic() > end:
                self.judged([f"not within {within_s:g} s: {what}"])
                return False
            await asyncio.sleep(0.1)

    async def waited(self, condition: Callable[[], object], within_s: float) -> bool:
        """Whether it came in time; that it did not is no finding."""
        end = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > end or self.found.is_set():
                return False
            await asyncio.sleep(0.02)
        return True

    # ending it

    async def heal(self) -> None:
        """Everything as it should be: all processes run, all links pass, Redis takes writes."""
        for daemon in self.daemons:
            daemon.link.heal()
            daemon.log_is_read.set()
            daemon.signal_all(signal.SIGCONT)
        await asyncio.to_thread(self.redis.heal)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for host in self.hosts:
            await host.stop()
        await self.heal()
        for daemon in self.daemons:
            daemon.asked_to_end = True
            daemon.signal_all(signal.SIGKILL)
        for daemon in self.daemons:
            if daemon.process is not None:
                daemon.process.wait()
        await self.redis.close(self.daemons)
