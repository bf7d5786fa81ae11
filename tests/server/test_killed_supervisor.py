"""A supervisor that is killed, and started again at once, as the OOM killer and systemd do."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest

from .harness import Broker, Client, wait_until
from .serving import Serving, free_ports


@pytest.fixture
def serve(tmp_path, redis_url):
    """Makes front ends, with settings."""
    with contextlib.ExitStack() as stack:

        def make(**settings):
            return stack.enter_context(contextlib.closing(Serving(tmp_path, redis_url, **settings)))

        yield make


@pytest.mark.parametrize("workers", [1, 2])
def test_a_front_end_that_was_killed_serves_again_at_once(serve, workers):
    first = serve(workers=workers, shutdown_wait_time_seconds=300)
    family = first.workers()
    assert len(family) == workers
    with Client(first.port, version=300) as staying:
        assert staying.register(Broker()).code == 0
        first.process.kill()
        first.process.wait(60)

        def gone():
            # a drain would wait for a client that asks and is too old to be sent away
            with contextlib.suppress(OSError):
                staying.send(105, {"topic": "topic1"})
            return not any(map(running, family))

        wait_until(gone, "its workers end")
        assert staying.closed()
        second = serve(workers=workers, port=first.port, http_port=first.http_port, namespace=first.namespace)
        assert "is held by" not in second.log
        with Client(second.port) as client:
            assert client.route("topic1").code == 0


def running(process):
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_a_worker_in_a_loop_without_end_dies_with_its_supervisor(tmp_path):
    """Also where the kernel tells it nothing, as on macOS: a thread looks."""
    source = """
import os, sys, time
from mqregistry.embedded import parents

if sys.argv[1] == "thread":
    parents._PRCTL = None
parent = os.getpid()
pid = os.fork()
if not pid:
    parents.end_with_parent(parent)
    print(os.getpid(), flush=True)
    while True:
        pass
time.sleep(60)
"""
    for how in ("kernel", "thread"):
        with subprocess.Popen([sys.executable, "-c", source, how], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            child = psutil.Process(int(process.stdout.readline()))
            process.kill()
            wait_until(lambda child=child: not running(child), f"it ends ({how})")


def test_a_start_waits_for_a_port_that_is_given_free(serve):
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", port)):
        front_end = serve(port=port, booted=False)
        front_end.wait_until(lambda: "is held by" in front_end.log, "it says what it waits for")
    front_end.wait_until(lambda: "boot success" in front_end.log, "it serves")
    said = re.search(rf"port {port} is held by (.*): waiting up to 5 s", front_end.log)
    assert said is not None
    assert f"process {os.getpid()} (" in said[1]


def test_a_port_that_is_not_given_free_ends_the_start_and_names_its_holder(serve):
    with socket.create_server(("127.0.0.1", 0)) as held:
        began = time.monotonic()
        front_end = serve(booted=False, port=held.getsockname()[1])
        assert front_end.process.wait(60) == 253
        assert time.monotonic() - began > 4
    assert f"port taken; process {os.getpid()} (" in front_end.log


def test_a_stopped_supervisor_that_goes_on_keeps_its_workers(serve):
    front_end = serve(worker_silence_timeout_ms=5000)
    (worker,) = front_end.workers()
    front_end.process.send_signal(signal.SIGSTOP)
    with Client(front_end.port) as client:
        until = time.monotonic() + 6.0  # longer than a worker may be silent: a real duration is what is tested
        while time.monotonic() < until:
            assert client.route("t").code == 17
    front_end.process.send_signal(signal.SIGCONT)
    front_end.wait_until(lambda: front_end.get("/readyz").status == 200, "it has heard of its worker")
    assert front_end.workers() == [worker]
    assert running(worker)
