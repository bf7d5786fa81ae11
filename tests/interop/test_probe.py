"""``mqregistry probe`` at Java NameServers: one that is well, one that hangs, one that is away; both its ways."""

import json
import subprocess
import sys
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bench.servers.processes import Processes, free_port, wait_until
from tests.server.serving import get

from .name_servers import JavaNameServers, NameServer
from .rocketmq import Release
from .wire import WireClient

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

TIMEOUT_S = 2.0
TOPIC = "orders"


@pytest.fixture
def java(release: Release, processes: Processes) -> NameServer:
    """One with a broker that has the topic."""
    name_server = JavaNameServers(lambda: release, release.version).start(processes)
    processes.start(
        "mqregistry broker run",
        [sys.executable, "-m", "mqregistry", "broker", "run", "--name", "broker-a", "-n", name_server.addr,
         "--topic", f"{TOPIC}:8:8:6", "--topic", "other:1:1:6"],
        home=processes.home("broker"),
    )  # fmt: skip

    def has_route() -> bool:
        with WireClient(name_server.port) as client:
            return client.request(105, {"topic": TOPIC})[0]["code"] == 0

    wait_until(f"{TOPIC} has a route", has_route, 60)
    return name_server


def probe(name_server: NameServer) -> tuple[int, dict[str, Any]]:
    """The exit status of a probe, and what it told."""
    done = subprocess.run(
        [sys.executable, "-m", "mqregistry", "probe", "-n", name_server.addr, "--topic", TOPIC, "--json",
         "--timeout", str(TIMEOUT_S)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout)


def exported(port: int) -> dict[tuple[str, ...], float]:
    """Each sample of the exporter: its name, and the values of its labels without the server."""
    page = get(port, "/metrics", timeout_s=30).body.decode()
    return {
        (sample.name.removeprefix("mqregistry_probe_"), *(v for k, v in sample.labels.items() if k != "server")):
            sample.value
        for family in text_string_to_metric_families(page) for sample in family.samples
    }  # fmt: skip


def test_a_java_name_server_that_is_well_hangs_is_back_and_is_away(java: NameServer, processes: Processes) -> None:
    port = free_port()
    exporter = processes.start(
        "mqregistry probe",
        [sys.executable, "-m", "mqregistry", "probe", "-n", java.addr, "--topic", TOPIC, "--timeout", str(TIMEOUT_S),
         "--listen", str(port)],
        home=processes.home("probe"),
    )  # fmt: skip
    exporter.wait_for_output("Ctrl-C ends it", 60)

    def is_well() -> None:
        status, told = probe(java)
        assert (status, told["well"], told["answers"][0]["error"]) == (0, True, "")
        assert told["answers"][0]["seconds"].keys() == {"connect", "106", f"105 {TOPIC}"}
        found = exported(port)
        assert (found["up",], found["agree",]) == (1, 1)
        assert 0 < found["seconds", f"105 {TOPIC}"] < TIMEOUT_S

    is_well()
    java.process.pause()  # its kernel still takes connections
    status, told = probe(java)
    assert (status, told["well"]) == (1, False)
    assert "no answer" in told["answers"][0]["error"]
    assert told["answers"][0]["seconds"].keys() == {"connect"}
    found = exported(port)
    assert found["up",] == 0
    assert ("seconds", "106") not in found
    java.process.resume()
    wait_until("it answers again", lambda: probe(java)[0] == 0, 30)
    is_well()
    java.process.kill()
    status, told = probe(java)
    assert (status, told["answers"][0]["seconds"]) == (1, {})
    assert "connection refused" in told["answers"][0]["error"]
    found = exported(port)
    assert found["up",] == 0
    assert not any(key[0] == "seconds" for key in found)
