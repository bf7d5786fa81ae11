"""The parent of a front end, with fake workers that do as their test tells them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from mqregistry.config.settings import Settings
from mqregistry.errors import StartError
from mqregistry.server.process import supervisor as supervisor_module
from mqregistry.server.process.supervisor import Supervisor, boot_line
from tests.waiting import until

from .serving import Serving, free_ports, get

# What every fake worker begins with. `life` is which one this is of its index, from 1; `answer` serves its port.
PREAMBLE = r"""
import json, os, signal, socket, sys, time
spec = json.load(sys.stdin)
index, folder = spec["index"], sys.argv[1]
life = 1
while True:
    try:
        os.close(os.open(f"{folder}/{index}.{life}", os.O_CREAT | os.O_EXCL)); break
    except FileExistsError:
        life += 1

def say(line):
    line = line if isinstance(line, bytes) else json.dumps(line).encode()
    while line:
        line = line[os.write(spec["status_fd"], line):]

def tell(**event):
    say(json.dumps(event).encode() + b"\n")

def mark(name):
    open(f"{folder}/{name}", "w").close()

def forever():
    while True:
        signal.pause()

def answer():
    entrance = socket.socket(fileno=os.dup(spec["connections_fd"]))
    handed = entrance.family == socket.AF_UNIX
    if not handed:
        entrance.listen()
    tell(event="ready")
    while True:
        client = socket.socket(fileno=socket.recv_fds(entrance, 1, 1)[1][0]) if handed else entrance.accept()[0]
        client.sendall(b"life %d" % life)
        client.close()
"""


class Started:
    """A supervisor that runs as a task."""

    def __init__(self, redis_url, namespace, folder: Path, source: str, **settings) -> None:
        (port,) = free_ports(1)
        self.folder = folder
        self.boots = 0
        given = {
            "redis": redis_url, "namespace": namespace, "bind_address": "127.0.0.1", "listen_port": port,
            "http_port": 0, "sweep": False, "shutdown_wait_time_seconds": 5,
        }  # fmt: skip
        self.supervisor = Supervisor(
            Settings(**given | settings),
            on_boot=self._on_boot,
            worker_command=(sys.executable, "-c", PREAMBLE + source, str(folder)),
        )
        self.port = port
        self.task = asyncio.create_task(self.supervisor.run(signals=False))

    def _on_boot(self) -> None:
        self.boots += 1

    async def until(self, condition, what: str, timeout_s: float = 60.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            if self.task.done():
                self.task.result()
                raise AssertionError(f"it ended before: {what}")
            assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
            await asyncio.sleep(0.005)

    def lives(self, index: int = 0) -> int:
        return len(list(self.folder.glob(f"{index}.*")))

    def marked(self, name: str) -> bool:
        return (self.folder / name).exists()

    def mark(self, name: str) -> None:
        (self.folder / name).touch()

    async def end(self) -> None:
        self.supervisor.stop()
        self.supervisor.stop()
        with contextlib.suppress(StartError, asyncio.CancelledError):
            await self.task


@pytest.fixture
def start(runner, redis_url, namespace, tmp_path):
    started = []

    def make(source: str, **settings) -> Started:
        started.append(Started(redis_url, namespace, tmp_path, source, **settings))
        return started[-1]

    yield make
    for each in started:
        runner.run(each.end())


# the start


async def test_the_boot_line_comes_once_when_all_workers_are_ready(start):
    serve = start(
        """
if index == 1:
    while not os.path.exists(f"{folder}/go"): time.sleep(0.005)
tell(event="ready")
mark(f"ready{index}")
forever()
""",
        workers=2,
    )
    await serve.until(lambda: serve.supervisor.fleet.not_ready() == ["worker 2 is not up"], "the first is ready")
    assert serve.boots == 0
    assert not serve.supervisor.booted.is_set()
    serve.mark("go")
    await serve.until(serve.supervisor.booted.is_set, "both are")
    assert serve.boots == 1
    assert serve.supervisor.fleet.not_ready() == []
    assert [serve.lives(index) for index in range(2)] == [1, 1]
    serve.supervisor.stop()
    await serve.task
    assert serve.boots == 1


def test_the_boot_line_is_java_s():
    assert boot_line(Settings()) == "The Name Server boot success. serializeType=JSON"
    assert boot_line(Settings(serialize_type="ROCKETMQ")) == "The Name Server boot success. serializeType=ROCKETMQ"


async def test_stop_while_one_worker_is_not_ready_boots_nothing(start):
    serve = start("if index == 0: tell(event='ready')\nforever()", workers=2)
    await serve.until(lambda: serve.supervisor.fleet.not_ready() == ["worker 2 is not up"], "the first is ready")
    serve.supervisor.stop()
    await serve.task
    assert serve.boots == 0


@pytest.mark.parametrize(
    ("end", "told"),
    [("sys.exit(3)", "exit status 3"), ("os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL")],
)
async def test_a_restarted_worker_prints_no_second_boot_line(start, caplog, end, told):
    serve = start(f"tell(event='ready')\nif life == 1: {end}\nforever()")
    await serve.until(lambda: serve.lives() == 2 and serve.supervisor.fleet.not_ready() == [], "its successor")
    assert serve.boots == 1
    assert f"worker 1 ended: {told}; starting it again in 0.1 s" in caplog.text


async def test_when_no_worker_can_start_it_ends_with_their_reasons(start):
    serve = start("tell(event='failed', reason=f'no luck for {index}')\nsys.exit(253)", workers=2)
    with pytest.raises(StartError) as raised:
        await serve.task
    assert set(str(raised.value).split("; ")) == {"no luck for 0", "no luck for 1"}
    assert serve.boots == 0


async def test_one_reason_is_said_once(start):
    serve = start("tell(event='failed', reason='bad certificate')\nsys.exit(253)", workers=3)
    with pytest.raises(StartError, match=r"^bad certificate$"):
        await serve.task


@pytest.mark.parametrize(
    ("source", "said"),
    [("sys.exit(7)", "exit status 7"), ("os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL")],
)
async def test_workers_that_give_no_reason_are_told_by_how_they_ended(start, source, said):
    with pytest.raises(StartError, match=said):
        await start(source).task


async def test_the_ends_of_several_workers_are_all_told(start):
    serve = start("sys.exit(3) if index else os.kill(os.getpid(), signal.SIGKILL)", workers=2)
    with pytest.raises(StartError, match=r"exit status 3; killed by SIGKILL|killed by SIGKILL; exit status 3"):
        await serve.task


async def test_a_worker_command_that_is_none(start):
    serve = start("")
    serve.supervisor._command = ("/no/such/command",)
    with pytest.raises(StartError, match=r"could not be started: .*no/such/command"):
        await serve.task


async def test_one_worker_that_fails_at_first_only_delays_the_boot(start):
    serve = start("if index == 0 and life < 3: sys.exit(9)\ntell(event='ready')\nforever()", workers=2)
    await serve.until(serve.supervisor.booted.is_set, "both are ready")
    assert serve.lives(0) == 3
    assert serve.supervisor.fleet.restarts == 2


# lives and deaths


async def test_restarts_come_slower_and_slower(start, caplog):
    serve = start("if life == 1: tell(event='ready')\nsys.exit(1)")
    await serve.until(lambda: serve.lives() == 5, "five lives")
    pauses = [record.args[2] for record in caplog.records if "starting it again" in record.message]
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert serve.supervisor.fleet.restarts >= 4


async def test_restarts_are_never_slower_than_the_bound(start, caplog, monkeypatch):
    monkeypatch.setattr(supervisor_module, "_RESTART_FIRST_S", 0.01)
    monkeypatch.setattr(supervisor_module, "_RESTART_MOST_S", 0.02)
    serve = start("if life == 1: tell(event='ready')\nsys.exit(1)")
    await serve.until(lambda: serve.lives() == 6, "six lives")
    pauses = [record.args[2] for record in caplog.records if "starting it again" in record.message]
    assert pauses[:5] == [0.01, 0.02, 0.02, 0.02, 0.02]


async def test_a_worker_that_lived_long_is_back_quickly(start, caplog, monkeypatch):
    monkeypatch.setattr(supervisor_module, "_LIVED_S", 0.0)
    serve = start("tell(event='ready')\nif life < 5: sys.exit(1)\nforever()")
    await serve.until(lambda: serve.lives() == 5, "five lives")
    pauses = [record.args[2] for record in caplog.records if "starting it again" in record.message]
    assert pauses == [0.1] * 4


async def test_a_client_that_comes_between_two_lives_is_answered_by_the_second(start):
    serve = start(
        """
if life == 1:
    tell(event="ready")
    while not os.path.exists(f"{folder}/die"): time.sleep(0.005)
    sys.exit(1)
while not os.path.exists(f"{folder}/go"): time.sleep(0.005)
answer()
"""
    )
    await serve.until(serve.supervisor.booted.is_set, "the first life")
    serve.mark("die")
    await serve.until(lambda: serve.lives() == 2, "the second life, which does not answer yet")
    reader, writer = await asyncio.open_connection("127.0.0.1", serve.port)
    serve.mark("go")
    assert await reader.read() == b"life 2"
    writer.close()
    await writer.wait_closed()


async def test_the_port_of_an_only_worker_that_cannot_come_back_refuses_connections(start):
    serve = start("if life == 1: tell(event='ready')\nsys.exit(7)")
    await serve.until(lambda: serve.lives() >= 3, "its successor failed too")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", serve.port), timeout=60)


async def all_get_life_1(serve, connections: int) -> None:
    for _ in range(connections):
        async with asyncio.timeout(60):
            reader, writer = await asyncio.open_connection("127.0.0.1", serve.port)
            assert await reader.read() == b"life 1"
        writer.close()
        await writer.wait_closed()


async def test_a_worker_that_cannot_come_back_gets_no_connections(start):
    """They go to the other worker."""
    serve = start(
        """
if index == 1 and life > 1: sys.exit(1)
if index == 1:
    tell(event="ready")
    while not os.path.exists(f"{folder}/die"): time.sleep(0.005)
    sys.exit(1)
answer()
""",
        workers=2,
    )
    await serve.until(serve.supervisor.booted.is_set, "both are ready")
    serve.mark("die")
    await serve.until(lambda: serve.lives(1) == 3, "its successor failed too")
    await all_get_life_1(serve, 50)


async def test_the_share_of_a_worker_that_stays_away_for_long_goes_to_the_other(start, monkeypatch, caplog):
    monkeypatch.setattr(supervisor_module, "_RESTART_FIRST_S", 600.0)
    serve = start(
        """
if index == 1:
    tell(event="ready")
    while not os.path.exists(f"{folder}/die"): time.sleep(0.005)
    sys.exit(1)
answer()
""",
        workers=2,
    )
    await serve.until(serve.supervisor.booted.is_set, "both are ready")
    serve.mark("die")
    await serve.until(lambda: "starting it again in 600" in caplog.text, "it is away")
    await all_get_life_1(serve, 20)


# what workers say


@pytest.mark.parametrize(
    "line",
    [
        b"garbage\n",
        b"\n",
        b"\x00\xff\xfe\n",
        b'{"event": "\xff"}\n',
        b"[]\n",
        b"null\n",
        b'{"event": 5}\n',
        b'{"event": "unheard of", "x": [1, 2, {}]}\n',
        b'{"event": "status", "gauges": {"view_seq": "many"}}\n',
        b'{"event": "status", "gauges": {"view_seq": ' + b"9" * 5000 + b"}}\n",
        b'{"event": "status", "gauges": {"view_lag_seconds": 1e999}}\n',
        b'{"event": "status", "counters": {"lookups_total": null}}\n',
        b'{"event": "status", "x": ' + b"[" * 100_000 + b"\n",
        b'{"event": "status", "x": "' + b"x" * (3 << 20) + b'"}\n',
    ],
    ids=lambda line: repr(line[:30]),
)
async def test_status_lines_that_cannot_be_read_harm_nothing(start, tmp_path, line):
    (tmp_path / "line").write_bytes(line)
    serve = start(
        """
tell(event='ready')
with open(f"{folder}/line", "rb") as file: say(file.read())
tell(event='status', ready=True, gauges={'view_seq': 77})
forever()
"""
    )
    await serve.until(lambda: seq_of(serve) == 77, "the next line is read")
    assert serve.lives() == 1


async def test_a_status_line_that_cannot_be_read_is_logged(start, caplog):
    serve = start("say(b'garbage\\n' + b'x' * 2_000 + b'\\n')\ntell(event='ready')\nforever()")
    await serve.until(serve.supervisor.booted.is_set, "the next line is read")
    assert "worker 1 sent a line that cannot be read" in caplog.text


async def test_a_line_in_pieces_is_one_line_and_a_half_one_at_the_end_is_none(start):
    serve = start(
        """
tell(event='ready')
for byte in b'{"event": "status", "ready": true, "gauges": {"view_seq": 5}}\\n':
    say(bytes([byte]))
    time.sleep(0)
while not os.path.exists(f"{folder}/die"): time.sleep(0.005)
if life == 1:
    say(b'{"event": "status", "gauges": {"view_seq": 6')
    sys.exit(1)
forever()
"""
    )
    await serve.until(lambda: seq_of(serve) == 5, "the line is read")
    serve.mark("die")
    await serve.until(lambda: serve.lives() == 2 and seq_of(serve) == 5, "its successor is read")


async def test_a_worker_that_closes_its_pipe_and_lives_on(start):
    serve = start("tell(event='ready')\nos.close(spec['status_fd'])\nforever()")
    await serve.until(serve.supervisor.booted.is_set, "it is ready")
    serve.supervisor.stop()
    async with asyncio.timeout(60):
        await serve.task


def seq_of(serve) -> int:
    return next(int(series.value) for series in serve.supervisor.fleet.series() if series.name == "view_seq")


async def test_log_lines_come_through_with_level_and_name(start, caplog):
    caplog.set_level(logging.DEBUG)
    serve = start(
        r"""
def log(data):
    while data: data = data[os.write(2, data):]
if life == 1:
    log(b"Traceback, perhaps\nINFO registry.x - hello\n  and more\nERROR bad\nDEBUG \xff\xfe\nERRORS no level\n")
    log(b"CRITICAL " + b"x" * (3 << 20) + b"\nWARNING after the long one\nINFO no end")
    tell(event="ready")
    sys.exit(0)
tell(event="ready")
forever()
""",
    )
    await serve.until(lambda: serve.lives() == 2, "its successor")
    told = [(r.levelname, r.getMessage()) for r in caplog.records if r.name == "worker 1"]
    assert told[:6] == [
        ("WARNING", "Traceback, perhaps"),
        ("INFO", "registry.x - hello"),
        ("INFO", "  and more"),
        ("ERROR", "bad"),
        ("DEBUG", "\ufffd\ufffd"),
        ("DEBUG", "ERRORS no level"),
    ]
    assert told[-2:] == [("WARNING", "after the long one"), ("INFO", "no end")]
    assert sum(len(text) for _, text in told) < 3 << 20, "a line over the bound is not kept"


async def test_a_worker_is_told_what_it_serves_over_stdin_not_on_its_command_line(start):
    serve = start(
        """
with open(f"{folder}/spec.json", "w") as file: json.dump(spec, file)
tell(event="ready")
forever()
""",
        tls_server_key_password="secret",
    )
    await serve.until(serve.supervisor.booted.is_set, "it is ready")
    spec = json.loads((serve.folder / "spec.json").read_text())
    assert spec["settings"]["tls_server_key_password"] == "secret"
    assert spec["settings"]["listen_port"] == serve.port
    assert (spec["index"], spec["front_end"]) == (0, serve.supervisor.front_end)
    process = psutil.Process(serve.supervisor._processes[0].pid)
    assert "secret" not in " ".join(process.cmdline())


# what its HTTP port says of them


def requests_of(serve) -> float:
    return sum(series.value for series in serve.supervisor.fleet.series() if series.name == "requests_total")


async def test_http_answers_about_life_readiness_and_metrics(start):
    (http_port,) = free_ports(1)
    serve = start(
        """
tell(event="ready")
NAME = 'script_seconds{script="heartbeat"}'
counters = {'lookups_total{result="found"}': 5, 'requests_total{code="105",result="success"}': 9, "unheard_of": 1}
durations = {NAME: [[0] * 14 + [3, 0, 0, 0], 1.5]}
tell(event="status", ready=True, gauges={"topics": 7}, counters=counters, durations=durations)
if index == 0 and life == 1:
    while not os.path.exists(f"{folder}/die"): time.sleep(0.005)
    os.kill(os.getpid(), signal.SIGKILL)
forever()
""",
        http_port=http_port,
        workers=2,
    )

    async def page(path):
        answer = await asyncio.to_thread(get, http_port, path)
        return answer.status, answer.body.decode()

    await serve.until(lambda: requests_of(serve) == 18, "both workers' status")
    assert await page("/healthz") == (200, "ok\n")
    assert await page("/readyz") == (200, '{"ready": true, "reasons": []}\n')
    assert (await page("/else"))[0] == 404
    code, text = await page("/metrics")
    assert code == 200
    lines = text.splitlines()
    assert 'mqregistry_lookups_total{result="found"} 10.0' in lines
    assert 'mqregistry_script_seconds_sum{script="heartbeat"} 3.0' in lines
    assert "mqregistry_topics 7.0" in lines
    assert "mqregistry_workers 2.0" in lines
    assert "unheard_of" not in text

    serve.mark("die")
    await serve.until(lambda: serve.lives(0) == 2 and not serve.supervisor.fleet.not_ready(), "it answers again")
    await serve.until(lambda: requests_of(serve) == 27, "what the dead worker counted is kept")
    assert "mqregistry_worker_restarts_total 1.0" in (await page("/metrics"))[1]


async def test_http_says_which_worker_is_not_ready(start):
    (http_port,) = free_ports(1)
    serve = start(
        "tell(event='ready')\nif index == 1: tell(event='status', ready=False)\nforever()",
        http_port=http_port,
        workers=2,
    )
    await serve.until(serve.supervisor.booted.is_set, "both are ready")
    await serve.until(serve.supervisor.fleet.not_ready, "the second worker says no")
    answer = await asyncio.to_thread(get, http_port, "/readyz")
    assert (answer.status, json.loads(answer.body)["reasons"]) == (503, ["worker 2 has not read the tables yet"])


async def test_http_answers_after_many_idle_clients(start):
    (http_port,) = free_ports(1)
    serve = start("tell(event='ready')\nforever()", http_port=http_port)
    await serve.until(serve.supervisor.booted.is_set, "it is ready")
    with contextlib.ExitStack() as idle:
        for _ in range(100):
            idle.enter_context(socket.create_connection(("127.0.0.1", http_port)))

    def answers() -> bool:
        with contextlib.suppress(OSError):
            return get(http_port, "/healthz").status == 200
        return False

    await until(lambda: asyncio.to_thread(answers), "it answers")


# the end


async def test_all_workers_are_asked_to_end_and_are_gone(start):
    serve = start(
        """
def drain(*_):
    mark(f"drained{index}")
    sys.exit(0)
signal.signal(signal.SIGTERM, drain)
tell(event="ready")
forever()
""",
        workers=3,
    )
    await serve.until(serve.supervisor.booted.is_set, "they are ready")
    pids = [process.pid for process in serve.supervisor._processes.values()]
    serve.supervisor.stop()
    await serve.task
    assert all(serve.marked(f"drained{index}") for index in range(3))
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_workers_that_drain_are_waited_for(start):
    serve = start(
        """
def drain(*_):
    mark("draining")
    while not os.path.exists(f"{folder}/go"): time.sleep(0.005)
    mark("drained")
    sys.exit(0)
signal.signal(signal.SIGTERM, drain)
tell(event="ready")
forever()
"""
    )
    await serve.until(serve.supervisor.booted.is_set, "it is ready")
    serve.supervisor.stop()
    await serve.until(lambda: serve.marked("draining"), "it drains")
    assert serve.supervisor.fleet.not_ready() == ["draining"]
    assert not serve.task.done()
    serve.mark("go")
    await serve.task
    assert serve.marked("drained")
    assert serve.lives() == 1


async def test_a_worker_that_ignores_sigterm_is_killed_after_the_bound(start, caplog):
    serve = start(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntell(event='ready')\nforever()", shutdown_wait_time_seconds=0
    )
    await serve.until(serve.supervisor.booted.is_set, "it is ready")
    pid = serve.supervisor._processes[0].pid
    began = time.monotonic()
    serve.supervisor.stop()
    async with asyncio.timeout(60):
        await serve.task
    assert time.monotonic() - began >= 1.0
    assert "1 worker(s) did not end within 1 s: killed" in caplog.text
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_second_stop_is_at_once(start):
    serve = start(
        "signal.signal(signal.SIGTERM, lambda *_: mark('told'))\ntell(event='ready')\nforever()",
        shutdown_wait_time_seconds=600,
    )
    await serve.until(serve.supervisor.booted.is_set, "it is ready")
    serve.supervisor.stop()
    pid = serve.supervisor._processes[0].pid
    await serve.until(lambda: serve.marked("told"), "it was asked to drain")
    assert not serve.task.done()
    serve.supervisor.stop()
    async with asyncio.timeout(60):
        await serve.task
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_stop_while_a_worker_waits_for_its_restart(start, monkeypatch, caplog):
    monkeypatch.setattr(supervisor_module, "_RESTART_FIRST_S", 600.0)
    serve = start("tell(event='ready')\nsys.exit(1)")
    await serve.until(lambda: "starting it again in 600" in caplog.text, "it waits")
    serve.supervisor.stop()
    async with asyncio.timeout(60):
        await serve.task
    assert serve.lives() == 1


async def test_stop_before_anything_is_up(start):
    serve = start("forever()")
    serve.supervisor.stop()
    async with asyncio.timeout(60):
        await serve.task
    assert serve.boots == 0
    socket.create_server(("127.0.0.1", serve.port)).close()


async def test_cancelled_leaves_no_worker(start):
    serve = start("tell(event='ready')\nforever()", workers=2)
    await serve.until(serve.supervisor.booted.is_set, "they are ready")
    pids = [process.pid for process in serve.supervisor._processes.values()]
    serve.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serve.task
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_what_runs_beside_ends_it_when_it_ends(redis_url, namespace, tmp_path):
    (port,) = free_ports(1)
    settings = Settings(
        redis=redis_url, namespace=namespace, bind_address="127.0.0.1", listen_port=port, http_port=0, sweep=False
    )
    ready = "import os, signal, sys, json\n" + PREAMBLE + "tell(event='ready')\nforever()"
    serve = Supervisor(settings, on_boot=lambda: None, worker_command=(sys.executable, "-c", ready, str(tmp_path)))

    async def beside(_):
        await serve.booted.wait()
        raise StartError("the embedded Redis ended")

    with pytest.raises(StartError, match="the embedded Redis ended"):
        async with asyncio.timeout(60):
            await serve.run(signals=False, beside=[beside])


# the port


async def test_a_taken_port_is_a_start_error_that_names_it(start):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(StartError, match=rf"cannot listen on 127\.0\.0\.1:{port}: port taken.*--port"):
            await start("forever()", listen_port=port).task


async def test_a_port_that_others_share_is_taken_too(start):
    """Two sockets with SO_REUSEPORT, as an earlier release had them."""
    (port,) = free_ports(1)
    with socket.socket() as one, socket.socket() as other:
        for theirs in (one, other):
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            theirs.bind(("127.0.0.1", port))
            theirs.listen()
        with pytest.raises(StartError, match="port taken"):
            await start("forever()", listen_port=port).task


async def test_the_port_of_another_front_end_is_taken(start):
    first = start("tell(event='ready')\nforever()", workers=2)
    await first.until(first.supervisor.booted.is_set, "it serves")
    with pytest.raises(StartError, match="port taken"):
        await start("tell(event='ready')\nforever()", listen_port=first.port).task


@pytest.mark.parametrize("host", ["192.0.2.1", "a host.invalid", "no.such.host.invalid", "x" * 64 + ".invalid", "a..b"])
async def test_a_bind_address_that_is_none_is_a_start_error_that_names_it(start, host):
    with pytest.raises(StartError) as raised:
        await start("forever()", bind_address=host).task
    assert str(raised.value).startswith(f"cannot listen on {host}:")
    assert "no such address" in str(raised.value)


async def test_a_taken_http_port_frees_the_listening_port(start):
    with socket.create_server(("127.0.0.1", 0)) as other:
        serve = start("forever()", http_port=other.getsockname()[1])
        with pytest.raises(StartError, match=r"cannot serve metrics.*--http-port"):
            await serve.task
    assert sorted(p.name for p in serve.folder.iterdir()) == []
    socket.create_server(("127.0.0.1", serve.port)).close()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("unix:///no/such/redis.sock", "Redis is away"),
        ("http://x", "is none of redis://"),
        ("redis://:pw@[::1", "cannot be read: write the characters"),
    ],
)
async def test_a_redis_that_cannot_be_used_is_a_start_error(start, url, said):
    with pytest.raises(StartError, match=said) as raised:
        await start("forever()", redis=url).task
    assert "pw" not in str(raised.value)


# as it is run


def test_workers_that_cannot_start_are_253_with_their_reason(tmp_path, redis_url):
    serve = Serving(
        tmp_path, redis_url, booted=False, workers=2,
        tls_server_mode="enforcing", tls_server_cert_path=tmp_path / "none.pem",
        tls_server_key_path=tmp_path / "none.pem", tls_config_file="",
    )  # fmt: skip
    try:
        assert serve.process.wait(60) == 253
    finally:
        serve.close()
    assert "cannot start: " in serve.log
    assert "none.pem" in serve.log
    assert "Traceback" not in serve.log


def test_a_bind_address_that_is_none_is_253(tmp_path, redis_url):
    done = subprocess.run(
        [
            sys.executable, "-m", "mqregistry", "serve", "--redis", redis_url, "--host", "192.0.2.1", "--http-port",
            "0",
            "--port", "9",
        ],
        capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 253
    assert "cannot listen on 192.0.2.1:9: this machine has no such address" in done.stderr
