"""``compare`` and ``shadow`` beside real Java NameServers: equal, one that is stale, ours that lacks something."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import pytest

from bench.servers.processes import ChildProcess, Processes, free_port, wait_until

from .conftest import VERSIONS, release_or_skip
from .name_servers import JavaNameServers, NameServer, OurNameServers, compare
from .wire import WireClient

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

TOPICS = ("orders:8:8:6", "payments:4:4:6")
# The broker, its topics at this broker, and the system topics that it has for itself.
ONLY_AT_B = {"broker-b", "rmq_sys_SYNC_BROKER_MEMBER_broker-b"}
LASTING_S = 2.0


@pytest.fixture
def javas(processes: Processes) -> list[NameServer]:
    """A Java NameServer of 5.3.3 and one of 5.5.0."""
    return [
        JavaNameServers(lambda version=version: release_or_skip(version), version).start(processes)  # type: ignore[misc]
        for version in ("5.3.3", "5.5.0")
    ]


@pytest.fixture
def ours(processes: Processes) -> NameServer:
    return OurNameServers().start(processes)


def listed(*servers: NameServer) -> str:
    return ";".join(server.addr for server in servers)


def broker(processes: Processes, name: str, port: int, *servers: NameServer) -> ChildProcess:
    """A broker that is registered at these servers and no other."""
    options = [option for topic in TOPICS for option in ("--topic", topic)]
    running = processes.start(
        f"broker {name}",
        [sys.executable, "-m", "mqregistry", "broker", "run", "--name", name, "--addr", f"127.0.0.1:{port}",
         "-n", listed(*servers), "--period", "1", *options],
        home=processes.home(f"broker-{name}"),
    )  # fmt: skip

    def is_registered() -> bool:
        for server in servers:
            with WireClient(server.port) as client:
                route = client.route("orders")
            if route is None or name not in {data["brokerName"] for data in route["queueDatas"]}:
                return False
        return True

    wait_until(f"{name} is registered", is_registered, 60)
    return running


def cells(told: dict[str, Any], sort: str) -> set[tuple[str, str, str, str]]:
    return {
        (one["kind"], one["name"], one["part"], one["at"]) for one in told["differences"] if one["sort"] == sort
    }  # fmt: skip


def test_java_and_ours_are_the_same_until_one_is_stale(
    javas: list[NameServer], ours: NameServer, processes: Processes
) -> None:
    once = ("--once", "--lasting", f"{LASTING_S}s")
    everywhere = listed(*javas, ours)
    broker(processes, "broker-a", 10911, *javas, ours)
    status, told = compare(everywhere, "--once")
    assert (status, told["counts"]["counted"]) == (0, 0), told
    assert [side["what"] for side in told["sides"]] == [
        "Java NameServer 5.3.3", "Java NameServer 5.5.0", "front end, as 5.5.0",
    ]  # fmt: skip
    assert {one["row"] for one in told["differences"]} <= {"D13", "D13.1", "D23"}

    # One Java NameServer lacks a broker that the other one and ours have: it is named, and not ours' fault.
    second = broker(processes, "broker-b", 20911, javas[0], ours)
    status, told = compare(everywhere, *once)
    assert status == 0
    assert ("broker", "broker-b", "", "") in cells(told, "noise")
    (row,) = (one for one in told["differences"] if one["kind"] == "broker")
    assert row["told"][javas[1].addr] is None
    assert {javas[1].addr} == set(row["between"][0]) & set(row["between"][1])

    # Between the two alone it counts: with the usual period it is named within a minute, with since when.
    began_s = time.time()
    status, told = compare(*(server.addr for server in javas), "--once")
    assert (status, time.time() - began_s < 60) == (1, True)
    assert ("broker", "broker-b", "", "") in cells(told, "counted")
    assert all(began_s * 1000 - 1 <= one["since_ms"] <= told["at_ms"] - 30_000 for one in told["differences"])

    # What both Java NameServers have and ours lacks counts.
    second.kill()
    broker(processes, "broker-c", 30911, *javas)
    status, told = compare(listed(*javas), ours.addr, *once)
    assert status == 1
    assert ("broker", "broker-c", "", "") in cells(told, "counted")
    assert ("topic", "orders", "broker", "broker-c") in cells(told, "counted")


@pytest.mark.parametrize("version", [version for version in VERSIONS if version.startswith("4.")])
def test_a_java_name_server_of_4x_is_a_side(version: str, ours: NameServer, processes: Processes) -> None:
    """It answers nothing to what it does not know, and has no acting master, zone or configuration of 5.x."""
    old = JavaNameServers(lambda: release_or_skip(version), version).start(processes)
    broker(processes, "broker-a", 10911, old, ours)
    status, told = compare(old.addr, ours.addr, "--once")
    assert (status, told["counts"]["counted"]) == (0, 0), told
    assert [side["what"] for side in told["sides"]] == [f"Java NameServer {version}", "front end, as 5.5.0"]
    broker(processes, "broker-b", 20911, old)
    status, told = compare(old.addr, ours.addr, "--once", "--lasting", f"{LASTING_S}s")
    assert status == 1
    assert {one["at"] or one["name"] for one in told["differences"] if one["sort"] == "counted"} == ONLY_AT_B


def test_what_java_leaves_behind_is_named_by_its_row(
    javas: list[NameServer], ours: NameServer, processes: Processes
) -> None:
    """A first registration of one topic is refused, and leaves an empty row in Java: D16."""
    table = {"only": {"topicName": "only", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "topicFilterType": 0}}
    version = {"counter": 1, "timestamp": 1_700_000_000_000}
    body = {"topicConfigSerializeWrapper": {"dataVersion": version, "topicConfigTable": table}, "filterServerList": []}
    fields = {"brokerName": "empty", "brokerAddr": "127.0.0.1:40911", "clusterName": "c1", "brokerId": "0",
              "haServerAddr": "127.0.0.1:1"}  # fmt: skip
    for server in (*javas, ours):
        with WireClient(server.port) as client:
            assert client.request(103, fields, json.dumps(body).encode())[0]["code"] == 1
    status, told = compare(listed(*javas, ours), "--once", "--lasting", "0s")
    assert status == 0, told
    rows = {(one["kind"], one["name"], one["at"]): one["row"] for one in told["differences"]}
    assert rows["broker", "empty", ""] == rows["cluster", "c1", "empty"] == "D16"


def test_a_shadow_passes_javas_answers_on_and_finds_what_ours_lacks(
    javas: list[NameServer], ours: NameServer, processes: Processes
) -> None:
    java = javas[0]
    broker(processes, "broker-a", 10911, java, ours)
    broker(processes, "broker-b", 20911, java)
    port = free_port()
    running = processes.start(
        "mqregistry shadow",
        [sys.executable, "-m", "mqregistry", "shadow", "--port", str(port), "--java", java.addr, "--ours", ours.addr,
         "--every", "500ms", "--lasting", f"{LASTING_S}s", "--json"],
        home=processes.home("shadow"),
    )  # fmt: skip
    running.wait_for_output("Ctrl-C ends it", 60)

    def last() -> dict[str, Any]:
        lines = [line for line in running.output().splitlines() if line.startswith("{")]
        return json.loads(lines[-1]) if lines else {}

    with WireClient(port) as client, WireClient(java.port) as direct:
        for code in (106, 206, 304, 311, 312, 313, 319):
            assert client.request(code)[1] == direct.request(code)[1]
        assert client.route("none") is None
        assert client.route("orders") == direct.route("orders")
        lacks = {("topic", "orders", "broker", "broker-b"), ("broker", "broker-b", "", "")}
        wait_until("what ours lacks counts", lambda: last() and lacks <= cells(last(), "counted"), 60)
    told = last()
    assert (told["skipped"], told["failed"], told["unreadable_connections"]) == (0, 0, 0)
    about_b = {one["at"] or one["name"] for one in told["differences"] if one["sort"] == "counted"}
    assert about_b == ONLY_AT_B, told
