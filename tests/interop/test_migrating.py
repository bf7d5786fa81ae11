"""docs/migrating.md, played: from two Java NameServers to two front ends, and back, while messages flow."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.servers.processes import Processes, wait_until

from .conftest import release_or_skip
from .name_servers import OURS, REGISTER_TIMEOUT_S, JavaNameServers, Kind, NameServer, compare
from .rocketmq import CLUSTER, Admin, Broker, Client, Release
from .wire import WireClient, registered_addresses, route_addresses

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1500)]

BROKERS = int(os.environ.get("MQREGISTRY_INTEROP_BROKERS", "4"))
PER_SECOND = 50
FLOW_TIMEOUT_S = 60
COUNTS_AFTER_S = 30
TOPICS = ("orders", "bills")
GET_KV_CONFIG = 101
NO_ROUTE = "No topic route info"


def address_list(name_servers: tuple[NameServer, ...]) -> str:
    return ";".join(server.addr for server in name_servers)


class Site:
    """Brokers and clients that are moved from some name servers to others."""

    def __init__(self, processes: Processes, release: Release, admin: Admin, first: tuple[NameServer, ...]) -> None:
        self.admin = admin
        self._processes, self._release = processes, release
        self.brokers = [
            # it looks each 2 s instead of each 2 min whether its address list was changed
            Broker(processes, release, address_list(first),
                   {"brokerName": f"broker-{number}", "updateNameServerAddrPeriod": 2_000})
            for number in range(BROKERS)
        ]  # fmt: skip
        for broker in self.brokers:
            broker.start()
        self.wait_for_brokers(first)
        self.clients = [self._start(topic, first) for topic in TOPICS]
        # the first ones ask for their topics before there are any
        self._know_their_topics: list[Client] = []

    def wait_for_brokers(self, name_servers: tuple[NameServer, ...]) -> None:
        wanted = {broker.addr for broker in self.brokers}
        for server in name_servers:
            wait_until(
                f"{server.addr} has all brokers",
                lambda server=server: registered_addresses(server.port) == wanted,
                REGISTER_TIMEOUT_S,
            )

    def move_brokers(self, known_to: NameServer, name_servers: tuple[NameServer, ...], told: str) -> None:
        """By the command that ``migrate`` told; then every one of these knows the brokers, and all routes."""
        (line,) = re.findall(r"\$ bin/mqadmin (.*)", told)
        command, *options = shlex.split(line)
        assert options == ["-n", known_to.addr, "-c", CLUSTER, "-k", "namesrvAddr", "-v", address_list(name_servers)]
        said = self.admin.run(command, *options[1:])
        assert said.count("update broker config success") == len(self.brokers), said
        self.wait_for_brokers(name_servers)
        routes = [{topic: route_addresses(known_to.port, topic) for topic in TOPICS}]
        for server in name_servers:
            wait_until(
                f"{server.addr} has the routes of {known_to.addr}",
                lambda server=server: {topic: route_addresses(server.port, topic) for topic in TOPICS} == routes[0],
                REGISTER_TIMEOUT_S,
            )

    def move_clients(self, name_servers: tuple[NameServer, ...]) -> None:
        """One after the other is started again with another list, while the others go on."""
        for number, client in enumerate(self.clients):
            self._finish(client)
            self.clients[number] = self._start(client.topic, name_servers)
            self._know_their_topics.append(self.clients[number])
        self.go_on()

    def go_on(self, seconds: int = 3) -> None:
        """Messages flow for so long without a failure."""
        for client in self.clients:
            counts = client.wait_for_acknowledged(PER_SECOND * seconds, FLOW_TIMEOUT_S)
            assert counts.failures == 0, counts

    def finish(self) -> None:
        for client in self.clients:
            self._finish(client)

    def _start(self, topic: str, name_servers: tuple[NameServer, ...]) -> Client:
        client = Client(self._processes, self._release, address_list(name_servers), topic)
        client.flow(PER_SECOND)
        client.wait_for_acknowledged(PER_SECOND, FLOW_TIMEOUT_S)
        return client

    def _finish(self, client: Client) -> None:
        client.stop()
        counts = client.wait_for_all(FLOW_TIMEOUT_S)
        assert counts.failures == 0, counts
        client.end()
        if client in self._know_their_topics:
            assert NO_ROUTE not in client.process.logged()


class Steps:
    """``mqregistry migrate``, asked as an operator asks it: there, or back."""

    def __init__(self, way: str, java: tuple[NameServer, ...], ours: tuple[NameServer, ...]) -> None:
        self._command = [sys.executable, "-m", "mqregistry", "migrate", way, address_list(java), address_list(ours)]

    def _run(self, *options: str, expect: int) -> str:
        done = subprocess.run([*self._command, *options], capture_output=True, text=True, check=False, timeout=300)
        assert (done.returncode, done.stderr) == (expect, ""), done.stdout + done.stderr
        return done.stdout

    def before(self, step: str) -> str:
        """The commands of a step that may be done now."""
        told = self._run("--before", step, expect=0)
        assert f"{step} may be done now" in told
        return told

    def refused(self, step: str, because: str) -> None:
        """That a step may not be done now."""
        assert self._run("--before", step, expect=1).startswith(f"not now: {because} is not done")

    def wait_for(self, step: str) -> None:
        """Until it knows that a step is done. A name server forgets a broker that left it after two minutes."""
        self._run("--until-done", step, "--within", "4m", "--kv-namespace", "ns", expect=0)

    def states(self) -> list[str]:
        """How far each step is."""
        told = json.loads(self._run("--json", "--kv-namespace", "ns", expect=0 if "back" in self._command else 1))
        return [one["state"] for one in told["steps"]]


def agree(*name_servers: NameServer) -> None:
    """As an operator waits for it before the next step."""
    status, told = compare(address_list(name_servers), "--kv-namespace", "ns", "--until-same", "1m")
    assert (status, told["same"]) == (0, True), told
    assert {side["brokers"] for side in told["sides"]} == {BROKERS}, told


@contextmanager
def agreeing(processes: Processes, *name_servers: NameServer) -> Iterator[None]:
    """They agree, and go on doing so: `compare` looks on meanwhile, for longer than until a difference counts."""
    agree(*name_servers)
    looking = processes.start(
        "mqregistry compare",
        [sys.executable, "-m", "mqregistry", "compare", address_list(name_servers), "--kv-namespace", "ns", "--json"],
        home=processes.home("compare"),
    )
    looking.wait_for_output("{", FLOW_TIMEOUT_S)
    began_s = time.monotonic()
    yield
    time.sleep(max(0.0, began_s + COUNTS_AFTER_S + 5 - time.monotonic()))
    assert looking.terminate(within_s=30) == 0, looking.tail()
    told = [json.loads(line) for line in looking.output().splitlines() if line.startswith("{")]
    assert [(one["counts"]["counted"], one["lasting_ms"]) for one in told] == [(0, COUNTS_AFTER_S * 1000)] * len(told)
    assert [side["error"] for one in told for side in one["sides"] if side["error"]] == []
    agree(*name_servers)


def kv_of(server: NameServer) -> str:
    with WireClient(server.port) as client:
        answer, _ = client.request(GET_KV_CONFIG, {"namespace": "ns", "key": "moved"})
    return str(answer.get("extFields", {}).get("value"))


@pytest.mark.parametrize("release", ["5.3.3"], indirect=True)
def test_from_java_name_servers_to_ours_and_back_nothing_is_lost(
    under_test: Kind, release: Release, processes: Processes, admin: Admin, tmp_path: Path
) -> None:
    if under_test.name != OURS:
        pytest.skip("from one Java NameServer to another is nobody's question here")
    java_kind = JavaNameServers(lambda: release_or_skip(release.version), release.version)
    kv_files = [{"kvConfigPath": tmp_path / f"kvConfig-{number}.json"} for number in range(2)]
    java = tuple(java_kind.start(processes, kv_file) for kv_file in kv_files)
    set_kv = ("updateKvConfig", address_list(java), "-s", "ns", "-k", "moved", "-v", "as it was")
    assert "success" in admin.run(*set_kv)
    site = Site(processes, release, admin, java)
    agree(*java)

    # there: ours join, clients leave the Java servers, then brokers do
    ours = under_test.start_two(processes, kv_files[0])
    assert [kv_of(server) for server in ours] == ["as it was"] * 2
    there = Steps("check", java, ours)
    assert there.states() == ["done", "next", "later", "later", "later", "later"]
    there.refused("brokers-leave", because="brokers-join")
    site.move_brokers(java[0], (*java, *ours), there.before("brokers-join"))
    there.wait_for("agree")
    there.refused("brokers-leave", because="clients-leave")
    with agreeing(processes, *java, *ours):
        site.move_clients(ours)
    there.wait_for("clients-leave")
    site.move_brokers(ours[0], ours, there.before("brokers-leave"))
    there.wait_for("brokers-leave")
    assert "mqshutdown namesrv" in there.before("stop")
    for server in java:
        server.process.terminate(within_s=30)
    there.wait_for("stop")
    with agreeing(processes, *ours):
        site.go_on(seconds=5)

    # back
    java = tuple(java_kind.start(processes, kv_file) for kv_file in kv_files)
    assert [kv_of(server) for server in java] == ["as it was"] * 2
    back = Steps("back", java, ours)
    back.refused("brokers-leave", because="brokers-join")
    site.move_brokers(ours[0], (*ours, *java), back.before("brokers-join"))
    back.wait_for("agree")
    back.refused("brokers-leave", because="clients-leave")
    with agreeing(processes, *ours, *java):
        site.move_clients(java)
    back.wait_for("clients-leave")
    site.move_brokers(java[0], java, back.before("brokers-leave"))
    for server in ours:
        server.process.terminate(within_s=30)
    back.wait_for("stop")
    assert back.states() == ["done"] * 6
    with agreeing(processes, *java):
        site.go_on(seconds=5)
    site.finish()
