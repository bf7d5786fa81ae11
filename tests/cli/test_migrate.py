"""``migrate``: the state of each step with real connections, what it refuses, waiting, the way back, and its usage."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time

import pytest

from bench.servers.processes import free_port
from mqregistry.model import BrokerRow, QueueData
from mqregistry.protocol.watch import ROUTE_WATCH
from mqregistry.store.store import Store
from mqregistry.tables.tables import Tables
from tests.client.threads import serving_in_thread
from tests.compare.java_like import answer_as_java
from tests.server.harness import FrontEnd, wait_until
from tests.store.bed import Bed

TOPICS = {"orders": (8, 8, 6), "bills": (4, 4, 6)}
# Listens on a port if it has one, as a broker does, and holds a connection to another until its stdin ends.
HOLD = """
import socket, sys
own, far = map(int, sys.argv[1:])
if own:
    listening = socket.create_server(("127.0.0.1", own))
held = socket.create_connection(("127.0.0.1", far))
print("connected", flush=True)
sys.stdin.read()
"""


class Site:
    """A fake Java NameServer, a front end, a broker that may be at both, and clients, each a process."""

    def __init__(self, command, redis_url, namespace, run, stack):
        self._command, self._stack, self._run = command, stack, run
        self.redis_url, self.namespace = redis_url, namespace
        self.broker_port = free_port()
        self.broker = f"127.0.0.1:{self.broker_port}"
        self.server = stack.enter_context(serving_in_thread())
        self.java = self.server.address
        self.tables = answer_as_java(self.server, Tables())
        self.front_end = FrontEnd(redis_url, namespace)
        stack.callback(self.front_end.close)
        self.ours = f"127.0.0.1:{self.front_end.port}"

    def hold(self, own=0):
        """A process that is connected to the Java NameServer."""
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(own), str(self.server.port)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._stack.enter_context(process)
        self._stack.callback(process.kill)
        assert process.stdout.readline() == "connected\n"
        return process

    def at_java(self):
        self.tables.brokers["broker-a"] = BrokerRow("c1", {0: self.broker})
        self.tables.clusters["c1"] = {"broker-a"}
        for topic, numbers in TOPICS.items():
            self.tables.set_queue_data(topic, "broker-a", QueueData(*numbers))

    def left_java(self):
        for topic in TOPICS:
            self.tables.drop_queue_data(topic, "broker-a")
        self.tables.brokers.clear()
        self.tables.clusters.clear()

    def at_ours(self):
        async def register():
            async with Store(self.redis_url, self.namespace) as store:
                await store.connect()
                await Bed(store).register(self.broker, "broker-a", cluster="c1", topics=TOPICS)

        self._run(register())
        wait_until(lambda: self.told()["new"][0]["brokers"] == [self.broker], "the front end has it")

    def run(self, *words, expect=0):
        return self._command("migrate", *words, expect=expect).output

    def check(self, *options, expect=1):
        return self.run("check", self.java, self.ours, *options, expect=expect)

    def told(self, expect=1):
        return json.loads(self.check("--json", expect=expect))

    def states(self, expect=1):
        return [one["state"] for one in self.told(expect)["steps"]]


@pytest.fixture
def site(command, redis_url, namespace, run):
    with contextlib.ExitStack() as stack:
        yield Site(command, redis_url, namespace, run, stack)


def test_from_java_to_ours_each_step_is_known_to_be_done_and_the_wrong_one_is_refused(site):
    site.at_java()
    broker = site.hold(site.broker_port)
    client = site.hold()
    assert site.states() == ["done", "next", "later", "later", "later", "later"]
    plan = site.run("plan", site.java, site.ours)
    both = f'"{site.java};{site.ours}"'
    assert f"$ bin/mqadmin updateBrokerConfig -n {site.java} -c c1 -k namesrvAddr -v {both}" in plan
    assert f'$ bin/mqadmin updateBrokerConfig -n {site.ours} -c c1 -k namesrvAddr -v "{site.ours}"' in plan
    refused = site.check("--before", "brokers-leave")
    assert refused == f"not now: brokers-join is not done: {site.ours} lacks {site.broker}\n"
    assert "brokers-join may be done now" in site.check("--before", "brokers-join", expect=0)

    site.at_ours()
    assert site.states() == ["done", "done", "done", "next", "later", "later"]
    refused = site.check("--before", "brokers-leave")
    assert "not now: clients-leave is not done: connected, and no broker's: 127.0.0.1:" in refused
    assert "updateBrokerConfig" not in refused

    # the wrong order: the broker leaves while the client is there
    site.left_java()
    wrong = site.check()
    assert "4  clients-leave  wrong" in wrong
    assert f"brokers have left before the clients: {site.broker}" in wrong
    assert f"-v {both}" in wrong, "how to put it back"
    assert site.check("--before", "stop").startswith("not now: clients-leave is wrong: brokers have left")
    site.at_java()

    client.stdin.close()
    site.check("--until-done", "clients-leave", "--within", "30s", expect=0)
    assert site.states() == ["done", "done", "done", "done", "next", "later"]
    assert f'-v "{site.ours}"' in site.check("--before", "brokers-leave", expect=0)
    broker.stdin.close()
    broker.wait()  # until then its connection may be seen as a client's
    site.left_java()
    assert site.states() == ["done", "done", "done", "done", "done", "next"]
    assert "mqshutdown namesrv" in site.check("--before", "stop", expect=0)


def test_what_differs_is_named_before_clients_change_over(site):
    site.at_java()
    site.at_ours()
    site.tables.set_queue_data("late", "broker-a", QueueData(4, 4, 6))
    assert "3  agree          next" in site.check()
    assert "topic late" in site.check()
    assert site.check("--until-done", "agree", "--within", "10ms").count("topic late") == 1


def test_back_is_the_same_the_other_way_round(site):
    site.at_ours()
    site.hold(site.broker_port)
    shown = site.run("back", site.java, site.ours)
    assert shown.index(site.ours) < shown.index(site.java)
    assert "1  servers        done       start the Java NameServers" in shown
    assert (
        f"2  brokers-join   next       brokers get to know all name servers\n   {site.java} lacks {site.broker}"
        in shown
    )
    assert f"-n {site.ours} -c c1" in shown
    site.at_java()
    told = json.loads(site.run("back", site.java, site.ours, "--json"))
    assert (told["back"], told["old"][0]["address"]) == (True, site.ours)
    assert [one["state"] for one in told["steps"]][:3] == ["done"] * 3
    assert "stop the front ends" in shown


def test_elsewhere_ss_tells_who_is_connected(site, tmp_path):
    site.at_java()
    site.at_ours()
    file = tmp_path / "ns1.peers"
    peers = ("--peers", f"{site.java}={file}")
    port = site.server.port
    file.write_text(f"0 0 127.0.0.1:{port} 127.0.0.1:40000\n0 0 [::ffff:10.0.0.1]:{port} [::ffff:10.9.9.9]:40001\n"
                    "0 0 127.0.0.1:22 10.8.8.8:40002\n")  # fmt: skip
    shown = site.check(*peers)
    assert f"connected, and no broker's: 10.9.9.9:40001 at {site.java}" in shown
    file.write_text(f"0 0 127.0.0.1:{port} 127.0.0.1:40000\n")
    assert "brokers-leave may be done now" in site.check("--before", "brokers-leave", *peers, expect=0)
    old = time.time() - 3600
    os.utime(file, (old, old))
    assert "60 minutes old" in site.check(*peers, expect=2)
    file.write_text("nonsense\n")
    assert "expected lines of ss -Htn" in site.check(*peers, expect=2)
    assert "expected HOST:PORT=FILE with one of" in site.check("--peers", f"10.0.0.9:1={file}", expect=2)


def test_sides_that_are_swapped_away_or_the_same_are_said(site):
    assert f"JAVA: {site.ours} is a front end" in site.run("plan", site.ours, site.java, expect=2)
    assert "on both sides" in site.run("plan", site.java, site.java, expect=2)
    nowhere = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    assert "connection refused" in site.run("plan", *nowhere, expect=3)
    assert "give one of them" in site.check("--before", "stop", "--until-done", "stop", expect=2)


def test_it_only_reads(site):
    site.at_java()
    site.at_ours()
    site.run("plan", site.java, site.ours)
    site.check("--before", "brokers-join", expect=0)
    assert {request.code for request in site.server.requests} <= {105, 106, 206, 219, 319, ROUTE_WATCH}
