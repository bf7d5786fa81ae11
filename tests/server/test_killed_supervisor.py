"""A supervisor that is killed, and started again at once, as the OOM killer and systemd do."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
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
    first = serve(workers=workers)
    family = first.workers()
    assert len(family) == workers
    with Client(first.port, version=300) as staying:
        assert staying.register(Broker()).code == 0
        first.process.kill()
        first.process.wait(5)
        began = time.monotonic()

        def gone():
            with contextlib.suppress(
                OSError
            ):  # a drain would wait for a client that asks and is too old to be sent away
                staying.send(105, {"topic": "topic1"})
            return not any(map(running, family))

        wait_until(gone, "its workers end", 2)
        assert staying.closed()
        second = serve(workers=workers, port=first.port, http_port=first.http_port, namespace=first.namespace)
        assert time.monotonic() - began < 8
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
            wait_until(lambda child=child: not running(child), f"it ends ({how})", 5)


def test_a_start_waits_for_a_port_that_is_given_free(serve):
    (port,) = free_ports(1)
    held = socket.create_server(("127.0.0.1", port))
    threading.Timer(2.0, held.close).start()
    front_end = serve(port=port)
    said = re.search(rf"port {port} is held by (.*): waiting up to 5 s", front_end.log)
    assert said is not None
    assert f"process {os.getpid()} (" in said[1]


def test_a_port_that_is_not_given_free_ends_the_start_and_names_its_holder(serve):
    with socket.create_server(("127.0.0.1", 0)) as held:
        front_end = serve(booted=False, port=held.getsockname()[1])
        began = time.monotonic()
        assert front_end.process.wait(30) == 253
        assert time.monotonic() - began > 4
    assert f"port taken; process {os.getpid()} (" in front_end.log


def test_a_stopped_supervisor_that_goes_on_keeps_its_workers(serve):
    front_end = serve(worker_silence_timeout_ms=2000)
    (worker,) = front_end.workers()
    front_end.process.send_signal(signal.SIGSTOP)
    with Client(front_end.port) as client:
        until = time.monotonic() + 3.0  # longer than a worker may be silent: a real duration is what is tested
        while time.monotonic() < until:
            assert client.route("t").code == 17
    front_end.process.send_signal(signal.SIGCONT)
    assert front_end.get("/readyz").status == 200
    assert front_end.workers() == [worker]
    assert running(worker)
