"""The first workers are forked, the others are new interpreters; neither keeps what is its parent's."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading

import psutil
import pytest

from mqregistry.server.process.spawning import fork_workers

from .serving import Serving, free_ports

PROBE = """
import json, os, signal, sys
from mqregistry.server.process import spawning as processes, worker
from mqregistry.server.process import spawning, worker

def main(spec_json):
    print(json.dumps({"told": json.loads(spec_json), "group": os.getpgid(0) == os.getpid(),
                      "stdin": os.path.realpath("/proc/self/fd/0"), "mask": len(signal.pthread_sigmask(0, ()))}),
          file=sys.stderr)
    MORE

worker.main = main
ours = open("/dev/zero")
with spawning.fork_workers(1) as forked:
    status_read, status = os.pipe()
    log_read, log = os.pipe()
    entrance = os.open("/dev/null", os.O_RDONLY)
    forked[0].begin({"index": 0, "text": "x" * 100_000}, entrance, status, log)
    for fd in (status, log, entrance):
        os.close(fd)
    told = b"".join(iter(lambda: os.read(log_read, 65536), b""))
    code = forked[0]._reap()
print(code)
sys.stdout.buffer.write(told)
"""


def probe(more: str) -> tuple[int, str]:
    """Fork one worker that does this: its exit status, and what it wrote to stderr."""
    source = PROBE.replace("MORE", more)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=True)
    code, _, told = done.stdout.partition("\n")
    assert done.stderr == ""
    return int(code), told


def test_a_forked_worker_is_told_all_and_has_its_own_files_only():
    files = 'print(*(os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")), file=sys.stderr)'
    code, told = probe(f"{files}; return 7")
    first, second, *_ = told.splitlines()
    found = json.loads(first)
    spec = found["told"]
    assert (code, spec["index"], len(spec["text"])) == (7, 0, 100_000)
    assert found["group"]
    assert found["stdin"] == "/dev/null"
    assert found["mask"] == 0
    assert "/dev/zero" not in second  # what its parent has open
    assert {"connections_fd", "status_fd"} < spec.keys()


@pytest.mark.parametrize(
    ("more", "status", "said"),
    [
        ("raise LookupError('no luck')", 1, "LookupError: no luck"),
        ("sys.exit(9)", 9, ""),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, ""),
        ("raise KeyboardInterrupt", 130, ""),
    ],
)
def test_how_a_forked_worker_ends_is_told(more, status, said):
    code, told = probe(more)
    assert code == status
    assert said in told
    assert ("Traceback" in told) == bool(said)


def test_nothing_is_forked_beside_a_thread():
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        with fork_workers(2) as forked:
            assert forked == []
    finally:
        done.set()
        thread.join()


def test_a_fork_that_fails_leaves_the_others():
    source = """
import os
from mqregistry.server.process.spawning import fork_workers

fork, left = os.fork, [None]

def fails_second():
    if not left:
        raise BlockingIOError(11, "Resource temporarily unavailable")
    left.pop()
    return fork()

os.fork = fails_second
with fork_workers(3) as forked:
    print(len(forked))
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("none is left")
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("1\nnone is left\n", "")


def processes_of(serve: Serving) -> list[psutil.Process]:
    """All that were started with its environment."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("MQREGISTRY_NAMESPACE") == serve.namespace:
                found.append(process)
    return found


def test_what_is_not_used_is_gone_when_the_start_fails(tmp_path, redis_url):
    with socket.create_server(("127.0.0.1", 0)) as other:
        serve = Serving(tmp_path, redis_url, booted=False, forked=False, workers=3, port=other.getsockname()[1])
        try:
            assert serve.process.wait(60) == 253
        finally:
            serve.close()
    assert not processes_of(serve)
    assert "port taken" in serve.log
    assert "Traceback" not in serve.log


def is_forked(worker: psutil.Process) -> bool:
    """A fork has the command line of its parent."""
    return worker.cmdline() == worker.parent().cmdline()


def test_the_first_workers_are_forked_and_the_next_are_new(tmp_path, redis_url):
    log_file = tmp_path / "log"
    serve = Serving(tmp_path, redis_url, forked=False, workers=2, log_file=log_file)
    try:
        first = serve.workers()
        assert all(is_forked(worker) for worker in first)
        assert not any(str(log_file) == file.path for worker in first for file in worker.open_files())
        first[0].send_signal(signal.SIGKILL)
        serve.wait_until(lambda: not first[0].is_running() and len(serve.workers()) == 2, "another is started")
        serve.wait_until(lambda: serve.metrics()["workers"] == 2, "it tells of itself")
        assert sorted(is_forked(worker) for worker in serve.workers()) == [False, True]
        with serve.client() as client:
            assert client.request(106).code == 0
    finally:
        serve.close()
    assert "killed by SIGKILL; starting it again" in log_file.read_text()
    assert log_file.read_text().count("served for") == 2


def test_forked_workers_end_with_a_supervisor_that_is_killed(tmp_path, redis_url):
    serve = Serving(tmp_path, redis_url, forked=False, workers=2, shutdown_wait_time_seconds=1)
    try:
        workers = serve.workers()
        assert len(workers) == 2
        os.kill(serve.process.pid, signal.SIGKILL)
        serve.process.wait(60)
        gone, alive = psutil.wait_procs(workers, 30)
        assert not alive
        assert len(gone) == 2
    finally:
        serve.close()


def test_a_forked_worker_killed_before_it_is_told_anything_is_a_reason(redis_url):
    source = """
import asyncio, os, signal, sys
from mqregistry.config.settings import Settings
from mqregistry.errors import StartError
from mqregistry.server.process.spawning import fork_workers
from mqregistry.server.process.supervisor import Supervisor

port, url, namespace = sys.argv[1:]
settings = Settings(redis=url, namespace=namespace, bind_address="127.0.0.1", listen_port=int(port), http_port=0,
                    sweep=False, workers=1)

async def run(forked):
    await Supervisor(settings, forked=forked).run(signals=False)

with fork_workers(1) as forked:
    os.kill(forked[0].pid, signal.SIGKILL)
    os.waitid(os.P_PID, forked[0].pid, os.WEXITED | os.WNOWAIT)
    try:
        asyncio.run(run(forked))
    except StartError as error:
        print(error)
"""
    (port,) = free_ports(1)
    done = subprocess.run(
        [sys.executable, "-c", source, str(port), redis_url, "h-forked-killed"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout == "killed by SIGKILL\n"
    assert done.stderr == ""
