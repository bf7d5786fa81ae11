"""Several workers on one port, as `serve --workers N` runs them."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import subprocess
import sys
import time
import urllib.request

import psutil
import pytest

from mqregistry.protocol.bodies.route import decode_route

from ..forked import Forked, command
from .fleet import Beating, Watching
from .harness import Client, wait_until
from .serving import free_ports
from .test_outages import BROKERS, KNOWN


class Serving:
    """A whole `mqregistry serve`."""

    def __init__(self, redis_url: str, workers: int, tmp_path, *options: str) -> None:
        self.port, self.http_port = free_ports(2)
        self.log = tmp_path / f"serve-{self.port}.log"
        with open(os.devnull, "rb") as nothing, self.log.open("wb") as log:
            self.process = Forked(
                command,
                [
                    "serve", "--redis", redis_url, "--host", "127.0.0.1",
                    "--port", str(self.port), "--http-port", str(self.http_port), "--workers", str(workers),
                    "--namespace", f"w-{secrets.token_hex(6)}", *options,
                ],
                stdio=(nothing.fileno(), log.fileno(), log.fileno()),
            )  # fmt: skip
        wait_until(lambda: "boot success" in self.log.read_text() or self.process.poll(), "it serves")
        assert self.process.poll() is None, self.log.read_text()

    def workers(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children()

    def metric(self, name: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/metrics", timeout=60) as answer:
            return float(re.search(rf"^mqregistry_{name} (\S+)$", answer.read().decode(), re.M)[1])

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            self.process.wait(60)


@pytest.fixture
def serving(redis_url, tmp_path):
    started = []

    def start(workers=2, *options):
        started.append(Serving(redis_url, workers, tmp_path, *options))
        return started[-1]

    yield start
    for item in started:
        item.close()


def knows_all(port):
    """Whether routes are whole over so many connections that each worker has some of them."""
    for _ in range(12):
        with Client(port) as client:
            for topic, names in KNOWN.items():
                reply = client.route(topic)
                if reply.code != 0 or not (names or set()) <= set(decode_route(reply.body).broker_rows):
                    return False
    return True


@contextlib.contextmanager
def busy(serve):
    """Brokers beat and clients look up; several connections, so that every worker has some."""
    fleet = [Beating(broker, [serve.port]) for broker in BROKERS]
    watches = []
    try:
        wait_until(lambda: serve.metric("brokers_alive") == len(BROKERS), "the brokers are registered")
        wait_until(lambda: knows_all(serve.port), "every worker has applied that")
        watches += [Watching([serve], KNOWN) for _ in range(6)]
        yield
    finally:
        for item in (*watches, *fleet):
            item.stop()
    wrong = [text for watch in watches for text in watch.wrong]
    assert not wrong, wrong[:5]
    assert all(watch.asked for watch in watches)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_one_worker_of_two_that_ends_loses_no_route_and_is_started_again(serving, how):
    serve = serving()
    with busy(serve):
        before = {process.pid for process in serve.workers()}
        os.kill(min(before), how)
        wait_until(lambda: len(now := {p.pid for p in serve.workers()}) == 2 and now != before, "a new worker runs")
        wait_until(lambda: serve.metric("workers") == 2, "both tell of themselves")
    assert "starting it again" in serve.log.read_text()


def test_a_worker_paused_longer_than_its_lease_loses_no_route(serving):
    serve = serving()
    with busy(serve):
        paused = serve.workers()[0]
        paused.suspend()
        try:
            time.sleep(6.5)  # the lease (5 s) runs out and is reaped; the other worker's connections go on
            wait_until(lambda: serve.metric("brokers_alive") == len(BROKERS), "its brokers are still alive")
        finally:
            paused.resume()
        wait_until(lambda: serve.metric("leases") == 2, "its lease is back")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_that_hangs_is_killed_and_another_takes_its_place(serving, workers):
    serve = serving(workers, "--set", "workerSilenceTimeoutMs=5000")
    before = {process.pid for process in serve.workers()}
    hanging = serve.workers()[0]
    hanging.suspend()
    wait_until(lambda: len(now := {p.pid for p in serve.workers()}) == workers and hanging.pid not in now, "a new one")
    wait_until(lambda: serve.metric("workers") == workers, "a new one tells of itself")
    with Client(serve.port) as client:
        assert client.request(106).code == 0
    assert re.search(rf"process {hanging.pid}\) runs but has told nothing .* killing it", serve.log.read_text())
    assert len(before & {process.pid for process in serve.workers()}) == workers - 1


def test_a_second_server_on_the_port_is_refused_with_253(serving, redis_url):
    serve = serving(workers=2)
    second = subprocess.run(
        [
            sys.executable, "-m", "mqregistry", "serve", "--redis", redis_url, "--host", "127.0.0.1",
            "--port", str(serve.port), "--http-port", "0",
        ],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert second.returncode == 253
    assert str(serve.port) in second.stderr


def test_sigterm_drains_within_its_bound_and_ends_with_0(serving):
    serve = serving(1, "--set", "shutdownWaitTimeSeconds=6")
    with Client(serve.port, version=479) as new, Client(serve.port, version=317) as old:
        assert new.request(106).code == 0
        assert old.request(106).code == 0
        serve.process.terminate()
        wait_until(lambda: new.request(106).code == 1500, "clients that know it are sent away")
        assert old.request(106).code == 0
        assert serve.process.wait(60) == 0
