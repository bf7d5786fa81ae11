"""The command: where it listens, the stream of an open page, Redis that goes away, and its end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx
import psutil
import pytest

from mqregistry.embedded import EmbeddedRedis
from mqregistry.store.store import Store
from tests.cli.processes import Process
from tests.conftest import NO_FSYNC
from tests.store.bed import Bed

from .conftest import Running


class Stream:
    """Events of an open page."""

    def __init__(self, http, url, **headers):
        self._opened = http.stream("GET", url, headers=headers, timeout=60)
        self.seen = []

    async def __aenter__(self):
        self._lines = (await self._opened.__aenter__()).aiter_lines()
        return self

    async def __aexit__(self, *_):
        await self._opened.__aexit__(None, None, None)

    async def until(self, holds):
        """The first event that holds: (name, id, data)."""
        name, event_id, data = "", "", []
        async with asyncio.timeout(60):
            async for line in self._lines:
                field, _, value = line.partition(": ")
                if field == "event":
                    name = value
                elif field == "id":
                    event_id = value
                elif field == "data":
                    data.append(value)
                elif not line:
                    event = name, event_id, "\n".join(data)
                    name, event_id, data = "", "", []
                    self.seen.append(event)
                    if holds(event):
                        return event
        raise AssertionError(f"the stream ended: {self.seen}")

    async def until_end(self):
        """It ends as a whole answer."""
        async with asyncio.timeout(60):
            async for _ in self._lines:
                pass


def test_an_open_page_hears_which_change_the_tables_have_and_by_which_words(module_runner, module_bed, running):
    async def work():
        bed = module_bed
        async with httpx.AsyncClient() as http, Stream(http, f"{running.url}/events") as stream:
            _, _, data = await stream.until(lambda event: event[0] == "state")
            first = json.loads(data)
            assert "up to date" in first["status"]
            await bed.kv.put("ns", "one", "1")
            seq = (await bed.head()).seq
            await stream.until(
                lambda event: json.loads(event[2])["position"] == f"{(first['position']).split(':')[0]}:{seq}"
            )
            async with httpx.AsyncClient() as other:
                assert f'data-position="{first["position"].split(":")[0]}:{seq}"' in (await other.get(running.url)).text

    module_runner.run(work())


def test_redis_away_is_said_and_over_when_it_is_back(module_runner, tmp_path):
    async def work(server):
        async with Store(server.url, "away") as store:
            await store.connect()
            await Bed(store).register()
        process, ending = await asyncio.to_thread(Running, server.url, "away", tmp_path), None
        try:
            async with httpx.AsyncClient() as http, Stream(http, f"{process.url}/events") as stream:
                await stream.until(lambda event: "up to date" in event[2])
                server.stop()
                await stream.until(lambda event: "stale since" in event[2])
                page = (await http.get(process.url + "/brokers")).text
                assert "stale since" in page
                now = (await http.get(process.url + "/")).text
                assert "This page shows the state of" in now
                assert (await http.get(process.url + "/healthz")).status_code == 503
                assert (await http.get(process.url + "/changes")).status_code == 200
                server.start()
                await stream.until(lambda event: "up to date" in event[2])
                assert (await http.get(process.url + "/healthz")).status_code == 200
                ending = asyncio.create_task(asyncio.to_thread(process.end))
                await stream.until_end()
        finally:
            assert await (ending or asyncio.to_thread(process.end)) == 0
        assert "Traceback" not in process.err
        assert "Exception" not in process.err

    with tempfile.TemporaryDirectory(prefix="mq") as folder:
        server = EmbeddedRedis(Path(folder), extra=NO_FSYNC)
        server.start()
        try:
            module_runner.run(work(server))
        finally:
            server.stop()


def refused(*options):
    return subprocess.run(
        [sys.executable, "-m", "mqregistry", "console", "--redis", "redis://127.0.0.1:1", *options],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ},
    )  # fmt: skip


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org"])
def test_it_does_not_listen_where_others_reach_it(host):
    found = refused("--host", host)
    assert found.returncode == 2
    assert "without a login: add --login" in found.stderr
    assert "listens on 127.0.0.1 or ::1 alone" in found.stderr


def test_a_port_that_is_taken_is_said(module_bed, running, redis_url, tmp_path):
    port = running.url.rpartition(":")[2]
    found = refused("--redis", redis_url, "--namespace", module_bed.store.namespace, "--port", port)
    assert found.returncode == 253
    assert "the port is taken" in found.stderr


def test_below_a_path_of_a_proxy_every_address_has_it(module_bed, redis_url, tmp_path):
    process = Running(redis_url, module_bed.store.namespace, tmp_path, "--root-path", "/registry")
    try:
        page = httpx.get(process.url + "/brokers").text
        for address in ("/registry/topics", "/registry/static/console.js", "/registry/events"):
            assert f'"{address}' in page
        assert 'aria-current="page">Brokers' in page
        assert (
            httpx.get(process.url.removesuffix("/registry") + "/brokers").status_code == 200
        )  # a proxy that cuts it off
        assert httpx.get(process.url + "/static/console.js").status_code == 200
    finally:
        process.end()


def test_with_wait_it_waits_for_redis_and_for_the_first_front_end(module_runner, tmp_path):
    """As a container does that starts beside them: an end would count as a crash."""

    def waiting(url):
        options = ("--redis", url, "--namespace", "later", "--port", "0", "--checkpoints", str(tmp_path / "kept"))
        process = Process("console", "--wait", *options, env={**os.environ, "HOME": str(tmp_path)})
        try:
            process.wait_for("waiting until it is there")
        except AssertionError:
            process.end(signal.SIGKILL)
            raise
        return process

    async def make(url):
        async with Store(url, "later") as store:
            await store.connect()

    with tempfile.TemporaryDirectory(prefix="mq") as folder:
        server = EmbeddedRedis(Path(folder), extra=NO_FSYNC)
        process = waiting(server.url)
        try:
            server.start()
            module_runner.run(make(server.url))
            process.wait_for("The console is at")
        finally:
            status = process.end()
            server.stop()
    assert (status, process.err.count("waiting until")) == (0, 1)
    assert waiting("redis://127.0.0.1:1").end(signal.SIGTERM) == 0


def test_a_front_end_on_the_same_core_goes_first(store, bed, runner, redis_url, tmp_path):
    runner.run(bed.register(topics=["orders", "bills"]))
    process = Running(redis_url, store.namespace, tmp_path)
    try:
        assert psutil.Process(process.popen.pid).nice() >= 10
    finally:
        process.end()
