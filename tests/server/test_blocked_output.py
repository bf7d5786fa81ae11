"""Nobody reads what a front end logs: a pager, Ctrl-S, a log driver that stands still."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

import psutil
import pytest

from mqregistry.protocol.codes import RequestCode

from .harness import Broker, Client, wait_until
from .serving import Serving

# a line of the log is as long as the path that was asked for
LONG_PATH = "/" + 60_000 * "a"


@pytest.fixture
def serve(tmp_path, redis_url):
    """Makes front ends, with settings."""
    with contextlib.ExitStack() as stack:

        def make(**settings):
            return stack.enter_context(contextlib.closing(Serving(tmp_path, redis_url, **settings)))

        yield make


@pytest.fixture
def pipe():
    """Its two ends, and what empties it into a list."""
    read_fd, write_fd = os.pipe()
    yield read_fd, write_fd
    for fd in (read_fd, write_fd):
        with contextlib.suppress(OSError):
            os.close(fd)


def reading(fd, texts):
    def read():
        with contextlib.suppress(OSError):
            while data := os.read(fd, 65536):
                texts.append(data.decode())

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


def put(client, number):
    """A change that the worker logs, with a key that is long."""
    key = f"key-{number}-" + 200 * "k"
    return client.request(RequestCode.PUT_KV_CONFIG, {"namespace": "ns", "key": key, "value": "v"}).code


def route(port, topic):
    with Client(port) as client:
        return client.route(topic).code


def test_a_log_that_nobody_reads_holds_up_neither_worker_nor_sweeper(serve, pipe):
    read_fd, write_fd = pipe
    front_end = serve(stderr_fd=write_fd, log_level="debug", scan_not_active_broker_interval_ms=100)
    for _ in range(40):  # a pipe takes 64 kB, the queue of the supervisor a MiB
        assert front_end.get(LONG_PATH).status == 404
    dropped = wait_until(lambda: front_end.metrics()["log_lines_dropped_total"], "lines are left out")
    with Client(front_end.port) as client:
        assert client.register(Broker()).code == 0
        assert all(put(client, number) == 0 for number in range(600))  # the worker's lines go to the supervisor
        assert client.route("topic1").code == 0
        client.falls_silent(Broker())  # with its connection open: the sweeper removes it
        wait_until(lambda: route(front_end.port, "topic1") == 17, "the sweeper removes the silent broker")
    assert front_end.metrics()["log_lines_dropped_total"] >= dropped
    texts: list[str] = []
    reading(read_fd, texts)
    wait_until(lambda: "missing here: stderr took none for" in "".join(texts), "the log says what is missing")
    with Client(front_end.port) as client:
        assert put(client, 1234) == 0
    wait_until(lambda: "key-1234-" in "".join(texts), "it logs again")


def test_a_front_end_ends_although_nobody_reads_its_log(serve, pipe):
    _, write_fd = pipe
    front_end = serve(stderr_fd=write_fd, log_level="debug", shutdown_wait_time_seconds=1)
    for _ in range(5):
        front_end.get(LONG_PATH)
    front_end.process.send_signal(signal.SIGTERM)
    assert front_end.process.wait(60) == 0


def test_a_front_end_starts_although_nobody_reads_its_log(serve, pipe):
    """As after a restart beside a log driver that stands still: the pipe is full from the first line on."""
    _, write_fd = pipe
    os.set_blocking(write_fd, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write_fd, bytes(4096))
    os.set_blocking(write_fd, True)
    front_end = serve(stderr_fd=write_fd)
    assert route(front_end.port, "t") == 17


def test_a_supervisor_that_stands_still_holds_up_no_worker(serve):
    front_end = serve()
    (worker,) = front_end.workers()
    supervisor = psutil.Process(front_end.process.pid)
    with Client(front_end.port) as client:
        assert client.register(Broker()).code == 0
        supervisor.suspend()
        try:
            assert all(put(client, number) == 0 for number in range(1000))
            assert client.route("topic1").code == 0
        finally:
            supervisor.resume()
    wait_until(lambda: "key-999-" in front_end.log, "the supervisor logs what the worker did")
    assert front_end.workers() == [worker]
    began = time.monotonic()
    front_end.process.send_signal(signal.SIGTERM)
    assert front_end.process.wait(60) == 0
    assert time.monotonic() - began < 15
