"""The parent of a front end, with workers that do as they are told."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from registry.config import Settings
from registry.errors import StartError
from registry.server.supervisor import Supervisor, boot_line

from .processes import free_port

READY = ["say", {"event": "ready"}]
STAY = ["stay", None]
FAKE = (sys.executable, str(Path(__file__).with_name("fake_worker.py")))


def status(**fields):
    return ["say", {"event": "status", "ready": True, **fields}]


async def until(condition, what, timeout_s=15.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        await asyncio.sleep(0.01)


def get(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


class Bed:
    """Supervisors of fake workers, on one namespace."""

    def __init__(self, redis_url, namespace, folder, monkeypatch):
        self.folder = folder
        self._settings = {"redis": redis_url, "namespace": namespace, "bind_address": "127.0.0.1", "http_port": 0}
        self._monkeypatch = monkeypatch
        self.boots = 0

    def supervisor(self, *plans, **settings):
        self._monkeypatch.setenv("FAKE_PLAN", json.dumps(plans))
        self._monkeypatch.setenv("FAKE_FOLDER", str(self.folder))
        chosen = Settings(**{**self._settings, "listen_port": free_port(), "sweep": False, **settings})

        def boot():
            self.boots += 1

        return Supervisor(chosen, on_boot=boot, worker_command=FAKE)

    @asynccontextmanager
    async def running(self, supervisor):
        task = asyncio.create_task(supervisor.run(signals=False))
        booted = asyncio.create_task(supervisor.booted.wait())
        try:
            await asyncio.wait([task, booted], return_when=asyncio.FIRST_COMPLETED, timeout=20)
            if task.done():
                await task
            assert supervisor.booted.is_set()
            yield task
        finally:
            booted.cancel()
            supervisor.stop()
            await asyncio.wait([task], timeout=20)
        await task

    def lives(self, index):
        file = self.folder / f"lives-{index}"
        return int(file.read_text() or 0) if file.exists() else 0

    def pid(self, index):
        return int((self.folder / f"pid-{index}").read_text())

    def gone(self, index):
        try:
            os.kill(self.pid(index), 0)
        except ProcessLookupError:
            return True
        return False


@pytest.fixture
def bed(redis_url, namespace, tmp_path, monkeypatch):
    return Bed(redis_url, namespace, tmp_path, monkeypatch)


async def test_supervisor_boots_once_all_workers_answer(bed):
    supervisor = bed.supervisor([[READY, STAY]], workers=3)
    async with bed.running(supervisor):
        assert bed.boots == 1
        assert [bed.lives(index) for index in range(3)] == [1, 1, 1]
    assert all((bed.folder / f"drained-{index}").exists() for index in range(3))
    assert all(bed.gone(index) for index in range(3))


async def test_supervisor_one_worker_not_ready_does_not_boot(bed):
    supervisor = bed.supervisor([[READY, STAY]], [[STAY]], workers=2)
    task = asyncio.create_task(supervisor.run(signals=False))
    await until(lambda: supervisor.fleet.not_ready() == ["worker 2 is not up"], "the first worker is ready")
    assert not bed.boots
    supervisor.stop()
    await task


async def test_supervisor_all_workers_fail_says_why(bed):
    failed = ["say", {"event": "failed", "reason": "the stars are wrong"}]
    with pytest.raises(StartError, match=r"^the stars are wrong$"):
        await bed.supervisor([[failed, ["exit", 253]]], workers=2).run(signals=False)


async def test_supervisor_workers_that_crash_at_start_say_how(bed):
    with pytest.raises(StartError, match=r"exit status 3; killed by SIGKILL|killed by SIGKILL; exit status 3"):
        await bed.supervisor([[["exit", 3]]], [[["kill", 9]]], workers=2).run(signals=False)


async def test_supervisor_one_of_two_fails_at_first_is_tried_again(bed):
    supervisor = bed.supervisor([[READY, STAY]], [[["exit", 1]], [READY, STAY]], workers=2)
    async with bed.running(supervisor):
        assert bed.lives(1) == 2


async def test_supervisor_worker_killed_is_started_again(bed, caplog):
    supervisor = bed.supervisor([[READY, STAY]])
    async with bed.running(supervisor):
        os.kill(bed.pid(0), signal.SIGKILL)
        await until(lambda: bed.lives(0) == 2 and not supervisor.fleet.not_ready(), "it answers again")
        assert bed.boots == 1
    assert "worker 1 ended: killed by SIGKILL; starting it again in 0.1 s" in caplog.text


async def test_supervisor_worker_that_dies_at_once_is_started_ever_more_slowly(bed, caplog):
    supervisor = bed.supervisor([[READY, STAY], [["exit", 7]]])
    async with bed.running(supervisor):
        os.kill(bed.pid(0), signal.SIGKILL)
        await until(lambda: bed.lives(0) == 4, "three more lives")
    pauses = [record.args[2] for record in caplog.records if "starting it again" in record.getMessage()]
    assert pauses[:3] == [0.1, 0.2, 0.4]


async def test_supervisor_dead_worker_keeps_its_connections_for_a_quick_successor(bed):
    supervisor = bed.supervisor([[READY, STAY]])
    async with bed.running(supervisor):
        os.kill(bed.pid(0), signal.SIGKILL)
        socket.create_connection(("127.0.0.1", supervisor.settings.listen_port), timeout=5).close()


async def test_supervisor_worker_that_does_not_come_back_takes_no_connections(bed):
    supervisor = bed.supervisor([[READY, STAY], [["exit", 7]]])
    async with bed.running(supervisor):
        os.kill(bed.pid(0), signal.SIGKILL)
        await until(lambda: bed.lives(0) >= 3, "its successor failed")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", supervisor.settings.listen_port), timeout=5)


async def test_supervisor_deaf_worker_is_killed_after_the_bound(bed, caplog):
    supervisor = bed.supervisor([[["deaf", None], READY, STAY]], shutdown_wait_time_seconds=0)
    async with bed.running(supervisor):
        pass
    assert bed.gone(0)
    assert "1 worker(s) did not end within 1 s: killed" in caplog.text


async def test_supervisor_stopped_twice_ends_at_once(bed):
    supervisor = bed.supervisor([[["deaf", None], READY, STAY]], shutdown_wait_time_seconds=3600)
    async with bed.running(supervisor):
        supervisor.stop()
    assert bed.gone(0)


async def test_supervisor_relays_the_workers_log_with_its_levels(bed, caplog):
    caplog.set_level(logging.INFO)
    lines = ["INFO a - hello", "ERROR b - it broke", "Traceback: more of it"]
    supervisor = bed.supervisor([[*(["log", line] for line in lines), READY, STAY]])
    async with bed.running(supervisor):
        pass
    told = [(r.levelname, r.getMessage()) for r in caplog.records if r.name == "worker 1"]
    assert told == [("INFO", "a - hello"), ("ERROR", "b - it broke"), ("ERROR", "Traceback: more of it")]


async def test_supervisor_unreadable_status_line_is_logged_not_fatal(bed, caplog):
    supervisor = bed.supervisor([[["write", "garbage\n" + "x" * 2_000 + "\n"], READY, STAY]])
    async with bed.running(supervisor):
        pass
    assert "worker 1 says what cannot be read" in caplog.text


async def test_supervisor_port_taken_names_host_port_and_a_way_out(bed):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(StartError, match=rf"127\.0\.0\.1:{port}: port taken.*--port"):
            await bed.supervisor([[READY]], listen_port=port).run(signals=False)


async def test_supervisor_second_front_end_on_the_port_does_not_share_it(bed):
    first = bed.supervisor([[READY, STAY]], workers=2)
    async with bed.running(first):
        with pytest.raises(StartError, match="port taken"):
            await bed.supervisor([[READY, STAY]], listen_port=first.settings.listen_port).run(signals=False)


async def test_supervisor_http_port_taken_names_the_way_out(bed):
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(StartError, match="--http-port"):
        await bed.supervisor([[READY]], http_port=other.getsockname()[1]).run(signals=False)


async def test_supervisor_redis_away_does_not_start(bed, tmp_path):
    with pytest.raises(StartError, match="Redis"):
        await bed.supervisor([[READY]], redis=f"unix://{tmp_path}/nobody.sock").run(signals=False)


async def test_supervisor_strange_host_does_not_start(bed):
    with pytest.raises(StartError, match="no such address"):
        await bed.supervisor([[READY]], bind_address="a host.invalid").run(signals=False)
    with pytest.raises(StartError, match="no such address"):
        await bed.supervisor([[READY]], bind_address="192.0.2.1").run(signals=False)


async def test_http_answers_about_life_readiness_and_metrics(bed):
    port = free_port()
    said = status(topics=7, counters={'lookups_total{result="found"}': 5, "requests_total": 9, "unheard_of": 1},
                  script_times={"heartbeat": [3, 1500.0]})  # fmt: skip
    supervisor = bed.supervisor([[READY, said, STAY]], http_port=port, workers=2)
    async with bed.running(supervisor):
        await until(
            lambda: sum(s.value for s in supervisor.fleet.series() if s.name == "requests_total") == 18, "status"
        )
        assert await asyncio.to_thread(get, port, "/healthz") == (200, "ok\n")
        assert await asyncio.to_thread(get, port, "/readyz") == (200, '{"ready": true, "reasons": []}\n')
        assert (await asyncio.to_thread(get, port, "/else"))[0] == 404
        code, page = await asyncio.to_thread(get, port, "/metrics")
        assert code == 200
        lines = page.splitlines()
        assert 'mqregistry_lookups_total{result="found"} 10.0' in lines
        assert 'mqregistry_script_seconds_sum{script="heartbeat"} 3.0' in lines
        assert "mqregistry_topics 7.0" in lines
        assert "mqregistry_workers 2.0" in lines
        assert "unheard_of" not in page

        os.kill(bed.pid(0), signal.SIGKILL)
        await until(lambda: bed.lives(0) == 2 and not supervisor.fleet.not_ready(), "it answers again")
        await until(
            lambda: sum(s.value for s in supervisor.fleet.series() if s.name == "requests_total") == 27,
            "what the dead worker counted is kept",
        )
        assert "mqregistry_worker_restarts_total 1.0" in (await asyncio.to_thread(get, port, "/metrics"))[1]


async def test_http_not_ready_says_why(bed):
    port = free_port()
    supervisor = bed.supervisor([[READY, STAY]], [[READY, status(ready=False), STAY]], http_port=port, workers=2)
    async with bed.running(supervisor):
        await until(supervisor.fleet.not_ready, "the second worker says no")
        code, page = await asyncio.to_thread(get, port, "/readyz")
        assert (code, json.loads(page)["reasons"]) == (503, ["worker 2 has not read the tables yet"])


async def test_http_many_idle_clients_do_not_stop_it(bed):
    port = free_port()
    supervisor = bed.supervisor([[READY, STAY]], http_port=port)
    async with bed.running(supervisor):
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
        try:
            await until(lambda: len(idle) == 100, "all are connected")
        finally:
            for each in idle:
                each.close()

        def answers():
            try:
                return get(port, "/healthz")[0] == 200
            except OSError:
                return False

        for _ in range(500):
            if await asyncio.to_thread(answers):
                break
        else:
            pytest.fail("it does not answer any more")


def test_boot_line_is_java_s():
    assert boot_line(Settings()) == "The Name Server boot success. serializeType=JSON"
    assert boot_line(Settings(serialize_type="ROCKETMQ")) == "The Name Server boot success. serializeType=ROCKETMQ"
