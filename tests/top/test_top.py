"""``mqregistry top``: what it shows of a real registry, its keys, Redis that goes away, and a real terminal."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

import pytest

pytest.importorskip("textual", reason="no textual: pip install -e '.[top]'")

from textual.widgets import DataTable, Input, RichLog, Static

from mqregistry.embedded import EmbeddedRedis
from mqregistry.store.store import Store
from mqregistry.store.streams import StreamStore, lookup_entries
from mqregistry.top.app import Top
from mqregistry.top.watched import WINDOW_MS, Watched
from tests.conftest import NO_FSYNC
from tests.store.bed import Bed, registration
from tests.store.test_processes import worker


def rows(app):
    table = app.query_one("#brokers", DataTable)
    return [[str(cell) for cell in table.get_row_at(number)] for number in range(table.row_count)]


def words(app, name):
    return str(app.query_one(name, Static).render())


def log(app):
    return [line.text for line in app.query_one("#changes", RichLog).lines]


async def until(pilot, holds):
    async with asyncio.timeout(20):
        while not holds():
            await pilot.pause(0.02)


@contextlib.asynccontextmanager
async def screen(store, **options):
    app = Top(Watched(store), f"{store.namespace} at redis://here", **options)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "broker" in words(app, "#state"))
        yield app, pilot


async def test_brokers_are_sorted_by_the_time_that_they_have_left(bed):
    await bed.register("10.0.0.1:10911", "broker-a")
    await bed.let_pass(30_000)
    await bed.leases.renew("w1", process=worker(), lease_ms=600_000)
    await bed.register("10.0.0.2:10911", "broker-b", 1, heartbeat_timeout_ms=20_000)
    await bed.register("10.0.0.3:10911", "broker-c")
    async with screen(bed.store) as (app, pilot):
        await until(pilot, lambda: len(rows(app)) == 3)
        assert [row[1] for row in rows(app)] == ["broker-b", "broker-a", "broker-c"]
        assert [row[2] for row in rows(app)] == ["1", "M", "M"]
        left = [int(row[0].removesuffix("s")) for row in rows(app)]
        assert left == sorted(left)
        assert 0 < left[0] <= 20
        assert "3 brokers, 3 names, 1 front end" in words(app, "#state")
        await bed.let_pass(25_000)
        await until(pilot, lambda: rows(app)[0][0] == "overdue")


async def test_at_80_columns_the_broker_name_is_whole_in_the_table_and_in_its_change(bed):
    name = "payments-broker-of-the-second-zone"
    await bed.register("10.100.200.103:10911", name, cluster="ProductionClusterOfTheSecondDataCentreInTheEast")
    async with screen(bed.store) as (app, pilot):
        await until(pilot, lambda: rows(app))
        shown = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
        table = next(line for line in shown.splitlines() if "10.100.200.103" in line and "registered" not in line)
        assert f" {name} " in table
        assert log(app)[0].index("broker_registered") < log(app)[0].index(name) < log(app)[0].index("by ")


async def test_a_change_scrolls_by_with_its_author_and_hostile_names_stay_text(bed):
    await bed.kv.put("ns", "before", "1")
    async with screen(bed.store) as (app, pilot):
        await until(pilot, lambda: log(app))
        assert re.match(r"\d\d:\d\d:\d\d kv_put ns/before = 1; by ", log(app)[0])
        await bed.register("10.0.0.9:10911", "[bold]\x1b[2Jname", topics=[f"t{n}" for n in range(1200)])
        await until(pilot, lambda: len(log(app)) == 2)
        assert re.match(r"\d\d:\d\d:\d\d broker_registered", log(app)[1])
        assert "[bold]\\x1b[2Jname" in log(app)[1]
        assert "1200 topic(s)" in log(app)[1]
        await until(pilot, lambda: rows(app))
        assert rows(app)[0][1] == "[bold]\\x1b[2Jname"


async def test_rates_are_those_of_the_last_minute(bed):
    streams = StreamStore(bed.store)
    await bed.register("10.0.0.1:10911")
    for _ in range(5):
        await bed.fe1.register(registration("10.0.0.1:10911"))
    (entry,) = lookup_entries({"t1": 590}, {"typo": 10})
    await streams.write_lookups("fe1", "w1", 1, 10_000, [entry])
    watched = Watched(bed.store)
    rates = (await watched.look()).rates
    assert rates.lookups == pytest.approx(10)
    assert rates.missing == pytest.approx(10 / 60)
    assert rates.heartbeats == rates.registrations == pytest.approx(6 / 60)
    assert rates.changes == pytest.approx(1 / 60)
    await streams.write_lookups("fe1", "w1", 2, 10_000, lookup_entries({"t1": 600}, {}))
    assert (await watched.look()).rates.lookups == pytest.approx(20)
    await bed.let_pass(WINDOW_MS + 1000)
    assert set((await watched.look()).rates) == {0}
    async with screen(bed.store) as (app, pilot):
        await until(pilot, lambda: "a second: lookups 0" in words(app, "#rates"))


async def test_a_pause_holds_everything_and_a_filter_hides_what_does_not_fit(bed):
    await bed.register("10.0.0.1:10911", "broker-a")
    async with screen(bed.store) as (app, pilot):
        await until(pilot, lambda: len(rows(app)) == 1)
        await pilot.press("p")
        assert "PAUSED" in words(app, "#state")
        await bed.register("10.0.0.2:10911", "broker-b")
        seq = (await bed.head()).seq
        await until(pilot, lambda: app._changes and app._changes[-1].seq == seq)
        assert (len(rows(app)), len(log(app))) == (1, 1)
        await pilot.press("p")
        await until(pilot, lambda: len(rows(app)) == 2 and len(log(app)) == 2)
        await pilot.press("slash", *"oker-b")
        await until(pilot, lambda: len(rows(app)) == 1)
        assert rows(app)[0][1] == "broker-b"
        assert len(log(app)) == 1
        assert "1 of 2 brokers with 'oker-b', Escape shows all" in words(app, "#more")
        await pilot.press("enter")
        assert not app.query_one("#filter", Input).has_focus
        await pilot.press("escape")
        await until(pilot, lambda: len(rows(app)) == 2)
        await pilot.press("q")
    assert app.return_code == 0


async def test_redis_away_is_said_in_words_and_another_epoch_begins_anew():
    with tempfile.TemporaryDirectory(prefix="mq") as folder:
        server = EmbeddedRedis(Path(folder), extra=NO_FSYNC)
        with server:
            async with Store(server.url, "looked-at", timeout_ms=2000) as store:
                await store.connect()
                bed = Bed(store)
                await bed.register("10.0.0.1:10911", "broker-a")
                async with screen(store) as (app, pilot):
                    await until(pilot, lambda: len(rows(app)) == 1)
                    server.stop()
                    await until(pilot, lambda: "AWAY since" in words(app, "#state"))
                    assert "Redis does not answer" in words(app, "#state")
                    assert app.query_one("#state").has_class("away")
                    assert len(rows(app)) == 1
                    server.start()
                    await until(pilot, lambda: "AWAY" not in words(app, "#state"))
                    assert "-- Redis answers again" in log(app)
                    await bed.redis("FLUSHALL")
                    await until(pilot, lambda: "Redis was emptied" in words(app, "#state"))
                    await store.connect()
                    await Bed(store).register("10.0.0.2:10911", "broker-new")
                    await until(pilot, lambda: [row[1] for row in rows(app)] == ["broker-new"])
                    assert any("Redis was emptied" in line for line in log(app))


def in_terminal(*arguments, keys=(), timeout_s=40):
    """The command in a terminal of 80 x 24; keys: (what it must have shown, what is typed then). Status and output."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "mqregistry", "top", *arguments], stdin=slave, stdout=slave, stderr=slave,
        start_new_session=True, env={**os.environ, "TERM": "xterm-256color"},
    )  # fmt: skip
    os.close(slave)
    out, waiting, deadline = b"", list(keys), time.monotonic() + timeout_s
    try:
        while time.monotonic() < deadline:
            if select.select([master], [], [], 0.1)[0]:
                try:
                    out += os.read(master, 65536)
                except OSError:  # it closed the terminal
                    break
            if waiting and waiting[0][0] in out:
                os.write(master, waiting.pop(0)[1])
        return process.wait(60), out
    finally:
        process.kill()
        process.wait()
        os.close(master)


@pytest.mark.parametrize("key", [b"q", b"\x03"])
def test_in_a_real_terminal_it_shows_the_registry_and_ends_with_a_key(runner, bed, key):
    runner.run(bed.register("10.0.0.1:10911", "broker-a"))
    where = ("--redis", bed.store.url, "--namespace", bed.store.namespace)
    status, out = in_terminal(*where, keys=[(b"10.0.0.1:10911", key)])
    assert status == 0, out
    for text in (b"broker-a", b"1 broker, 1 name", b"broker_registered", b"a second: lookups"):
        assert text in out
    assert out.count(b"\x1b[?1049h") == out.count(b"\x1b[?1049l") == 1  # the screen that was there before is back


def test_it_ends_by_itself_after_as_many_looks_as_were_asked_for(runner, bed):
    status, out = in_terminal("--redis", bed.store.url, "--namespace", bed.store.namespace, "-n", "2")
    assert status == 0, out
    assert b"0 brokers, 0 names" in out


def test_without_a_terminal_it_says_what_needs_none(bed):
    found = subprocess.run(
        [sys.executable, "-m", "mqregistry", "top", "--redis", bed.store.url, "--namespace", bed.store.namespace],
        capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert found.returncode == 2
    assert "top needs a terminal" in found.stderr


def test_a_namespace_that_is_not_there_is_no_screen(redis_url):
    status, out = in_terminal("--redis", redis_url, "--namespace", "nobody-made-this")
    assert status == 1
    assert b"no namespace" in out
    assert b"\x1b[?1049h" not in out
