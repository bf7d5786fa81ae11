"""A front end on a Redis of its own, with honest tables and an honest client, and what an attack does to them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import psutil
import redis

from mqregistry.embedded import EmbeddedRedis
from mqregistry.protocol.codes import RequestCode
from tests.server.auth_bed import Rules
from tests.server.harness import Broker, Client, FrontEnd, wait_until

from .honest_client import EVERY_S, SAMPLE, lookup
from .script_times import ScriptTimes, Slowest

MB = 1 << 20
ATTACKER = "127.0.0.2"
HONEST = "honest"
KV = {"namespace": "honest", "key": "honest-key"}
TOPICS = [f"honest-topic-{n}" for n in range(200)]
_ENOUGH = 100  # lookups, for a 99th percentile


class Found(NamedTuple):
    """What an attack cost others; p99: of the honest client's lookups meanwhile, base_p99: just before, see below."""

    script: Slowest
    rss_mib: float
    redis_mib: float
    base_p99_ms: float
    p99_ms: float
    took_s: float

    def __str__(self) -> str:
        return (
            f"script {self.script.took_ms:.0f} ms, RSS +{self.rss_mib:.0f} MiB, Redis +{self.redis_mib:.1f} MiB, p99 "
            f"{self.p99_ms:.1f} ms after {self.base_p99_ms:.1f} ms, {self.took_s:.1f} s"
        )


class Attacked:
    """Addresses have their limits here as everywhere: none is in unlimitedAddresses."""

    def __init__(self, server: EmbeddedRedis) -> None:
        assert server.pid is not None
        self.front_end = FrontEnd(server.url, "hostile", unlimited_addresses="", config_allow_list="orderMessageEnable")
        self.port = self.front_end.port
        self.times = ScriptTimes(server.url, server.pid)
        self.rules = Rules(server.url, "hostile")
        self.redis: redis.Redis = self.rules.redis
        self.worker = psutil.Process(self.front_end.process.pid)
        self.honest = self.front_end.client()
        self.brokers = [
            Broker(f"honest-{n}", f"127.0.0.1:{10911 + n}", cluster="honest-cluster", topics=TOPICS) for n in range(3)
        ]
        for broker in self.brokers:
            assert self.honest.register(broker).code == 0
        assert self.honest.request(RequestCode.PUT_KV_CONFIG, {**KV, "value": "honest-value"}).code == 0
        self.samples = tempfile.TemporaryFile()  # noqa: SIM115 (it is closed with the client)
        self.client = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.honest_client", str(self.port), TOPICS[0]],
            stdout=self.samples, stderr=subprocess.PIPE,
        )  # fmt: skip

    def close(self) -> None:
        self.client.kill()
        self.client.communicate()
        self.samples.close()
        self.honest.close()
        self.rules.close()
        self.front_end.close()

    @contextmanager
    def attackers(self, count: int, timeout_s: float = 20.0) -> Iterator[list[Client]]:
        """So many connections of the attacker."""
        clients = [self.attacker(timeout_s) for _ in range(count)]
        try:
            yield clients
        finally:
            for client in clients:
                client.close()

    def attacker(self, timeout_s: float = 20.0) -> Client:
        return self.front_end.client(host=ATTACKER, timeout_s=timeout_s)

    # the honest side

    def p99_ms(self, since: float) -> float:
        """Of the lookups that were due since then; waits for a hundred of them."""

        def enough() -> list[float]:
            assert self.client.poll() is None, (self.client.communicate()[1], self.front_end.log[-3000:])
            data = os.pread(self.samples.fileno(), 1 << 30, 0)
            whole = data[: len(data) // SAMPLE.size * SAMPLE.size]
            late = [late_s for due, late_s in SAMPLE.iter_unpack(whole) if due >= since]
            return late if len(late) >= _ENOUGH else []

        late = sorted(wait_until(enough, "a hundred lookups were answered"))
        return 1000 * late[len(late) * 99 // 100]

    def seen(self) -> dict[str, Any]:
        """The honest tables, over the wire and in Redis; all that names something honest, and nothing else."""
        ask, found = self.honest.request, dict[str, Any]()
        for topic in TOPICS[::50]:
            found[topic] = ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}).body
        found["value"] = ask(RequestCode.GET_KV_CONFIG, KV).ext_fields
        found["list"] = ask(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": KV["namespace"]}).body
        found["topics"] = ask(RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "honest-cluster"}).body
        for name, content in self.rules.kept(
            events=False, named=lambda name: HONEST in name or ":" not in name
        ).items():
            if HONEST in name:
                found[f"redis {name}"] = content
            elif isinstance(content, set):
                found[f"redis {name}"] = {one for one in content if HONEST.encode() in one}
        return {name: content for name, content in found.items() if content or not name.startswith("redis ")}

    # an attack

    def attack(self, strike: Callable[[], None]) -> Found:
        """Strike, wait until nothing is left of it, and say what it cost."""
        base_p99_ms = self._base_p99_ms()
        self.times.look()
        used = int(self.redis.info("memory")["used_memory"])
        rss = self.worker.memory_info().rss
        with open(f"/proc/{self.worker.pid}/clear_refs", "w") as refs:
            refs.write("5")  # so that the peak is that of this attack
        self._slowest = Slowest(0.0, "")
        began = time.monotonic()
        strike()
        names = {broker.name for broker in self.brokers}
        self.front_end.wait_until(lambda: self.rules.names("brokers") == names, "its brokers are gone with it")
        took_s = time.monotonic() - began
        p99_ms = self.p99_ms(began)
        self.look()
        return Found(
            self._slowest, (self._peak() - rss) / MB, (int(self.redis.info("memory")["used_memory"]) - used) / MB,
            base_p99_ms, p99_ms, took_s,
        )  # fmt: skip

    def _base_p99_ms(self) -> float:
        """While another honest client asks as fast as it can.

        A worker that has much to do waits for the processor when the machine is busy; one that only answers a lookup
        now and then does not. So one is compared with the other only while it works.
        """
        began, several = time.monotonic(), lookup(TOPICS[1]) * 50
        with self.front_end.client() as client:
            while time.monotonic() - began < _ENOUGH * EVERY_S:
                client.socket.sendall(several)
                for _ in range(50):
                    assert client.receive().code == 0  # type: ignore[union-attr]
        return self.p99_ms(began)

    def look(self) -> None:
        """At the scripts until now; also between the steps of an attack, so that each is measured by itself."""
        self._slowest = max(self._slowest, self.times.look())

    def wait_until_over(self) -> None:
        """The attacker's connections are closed, and nothing is held for them."""
        told = self.front_end.poll
        self.front_end.wait_until(lambda: told().get("connections") == 2, "its connections are closed")
        self.front_end.wait_until(lambda: told().get("held_bytes") == 0, "nothing is held")

    def _peak(self) -> int:
        with open(f"/proc/{self.worker.pid}/status") as status:
            (line,) = (line for line in status if line.startswith("VmHWM"))
        return int(line.split()[1]) << 10
