"""Plans against real front ends that share a Redis: everything goes as planned, and nobody stays behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys

import msgspec
import pytest
from click.testing import CliRunner

from mqregistry.cli import cli
from mqregistry.client.connection import PeerConnection
from mqregistry.client.questions import ask_route
from mqregistry.config.settings import Settings
from mqregistry.protocol.bodies.route import decode_cluster_info
from mqregistry.protocol.codes import RequestCode
from mqregistry.protocol.command import Command
from mqregistry.protocol.headers import WipeWritePerm
from mqregistry.simulate.broker import Administrator, SimulatedServer, reconnecting
from mqregistry.simulate.day import DayShape, OpKind
from mqregistry.simulate.plan import make_plan
from mqregistry.simulate.run import Simulation
from mqregistry.store.store import Store
from mqregistry.worker.sweeper import Sweeper
from tests.client.fake_name_server import FakeNameServer, route_of
from tests.server.harness import FrontEnd, wait_until
from tests.simulate_oracle.day import play
from tests.waiting import until

SHAPE = DayShape(duration_ms=7_500, servers=2, brokers=6, topics=24, clients=8, lookups_per_s=40.0)


@pytest.fixture
def front_ends(redis_url, namespace):
    """Two that share their tables."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(contextlib.closing(FrontEnd(redis_url, namespace, lookup_counts_interval_ms=500)))
            for _ in range(2)
        ]


@contextlib.asynccontextmanager
async def sweeping(redis_url, namespace):
    """The sweeper that these front ends have not."""
    stop, store = asyncio.Event(), Store(redis_url, namespace)
    task = asyncio.create_task(Sweeper(store, Settings()).run(stop))
    try:
        yield
    finally:
        stop.set()
        await task
        await store.close()


def servers(front_ends):
    return [("127.0.0.1", front_end.port) for front_end in front_ends]


async def rows(port):
    """What a name server shows."""
    connection = await PeerConnection.connect("127.0.0.1", port)
    answer = await connection.request(RequestCode.GET_BROKER_CLUSTER_INFO)
    await connection.close()
    return decode_cluster_info(answer.body)[0]


async def test_a_day_goes_as_planned_and_redis_says_the_same(front_ends, redis_url, namespace):
    simulation = Simulation(make_plan(SHAPE), servers(front_ends))
    shown = {}

    async def look():
        shown.update(await rows(front_ends[0].port))

    async with sweeping(redis_url, namespace):
        day = await play(simulation, asyncio.Event(), redis=(redis_url, namespace), flap_ms=500, before_leaving=look)
    assert day.outcome.faults == []
    assert day.truth.differences == []
    assert day.outcome.is_complete
    assert set(day.outcome.done) == set(OpKind)
    assert shown == {}
    tables = day.truth.figures
    assert {row["broker_name"] for row in tables["broker"]} == {broker.name for broker in simulation.plan.brokers}
    hours = [row for row in tables["broker"] if row["grain"] == "hour"]
    planned = [op.kind for op in simulation.plan.ops]
    for column, kind in (("closes", OpKind.CLOSE), ("expiries", OpKind.EXPIRE), ("unregistrations", OpKind.LEAVE)):
        assert sum(row[column] for row in hours) == planned.count(kind) > 0
    asked = [row for table in ("topic", "missing_topic") for row in tables[table] if row["grain"] == "hour"]
    assert 0 < sum(row["lookups"] for row in asked) <= planned.count(OpKind.LOOKUP)  # the last come after the end


async def test_breaking_off_leaves_nobody_behind(front_ends, redis_url, namespace):
    simulation = Simulation(make_plan(msgspec.structs.replace(SHAPE, duration_ms=60_000)), servers(front_ends))
    stop = asyncio.Event()

    async def soon():
        await until(lambda: simulation.outcome.done[OpKind.BEAT] >= 20, "it runs")
        assert await rows(front_ends[1].port)
        stop.set()

    async with asyncio.timeout(30):
        _, day = await asyncio.gather(soon(), play(simulation, stop, redis=(redis_url, namespace)))
    assert day.outcome.faults == []
    assert not day.outcome.is_complete
    assert day.truth is None
    assert await rows(front_ends[0].port) == await rows(front_ends[1].port) == {}


async def test_what_somebody_else_changes_is_told(front_ends, redis_url, namespace):
    calm = msgspec.structs.replace(SHAPE, duration_ms=2_000, incidents=0.0, topics=0, clients=0)
    simulation = Simulation(make_plan(calm), servers(front_ends))
    name = simulation.plan.brokers[0].name

    async def meddle():
        await until(lambda: simulation.outcome.done[OpKind.BEAT] >= 12, "it runs")
        connection = await PeerConnection.connect("127.0.0.1", front_ends[0].port)
        await connection.request(RequestCode.WIPE_WRITE_PERM_OF_BROKER, WipeWritePerm(name).to_ext_fields())
        await connection.close()

    async with asyncio.timeout(30):
        _, day = await asyncio.gather(meddle(), play(simulation, asyncio.Event(), redis=(redis_url, namespace)))
    assert day.outcome.faults == []
    (said,) = day.truth.differences
    assert f"(write_perm_set of {name})" in said


async def test_whom_a_name_server_hung_up_on_is_heard_again():
    """As a Java one does when nothing came for two minutes, which is short where a day is not."""
    async with FakeNameServer({"orders": route_of("a")}) as server:

        async def take(request):
            return await server.usual_answer(request) if request.code == 105 else Command(code=0)

        server.answer = take
        administrator, client = (
            Administrator([address := SimulatedServer("127.0.0.1", server.port)]),
            reconnecting(address),
        )
        await administrator.open()
        for times in (1, 2):
            await administrator.administer(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "orders"})
            assert await ask_route(await client.connected(now=True), "orders")
            assert server.accepted == 2 * times
            for writer in server.connections:
                writer.write_eof()
            await until(lambda: not server.connections, "both have closed theirs, too")
        await asyncio.gather(administrator.close(), client.close())


# the command


def test_dry_run_prints_the_same_plan_each_time():
    def plan(*arguments):
        result = CliRunner().invoke(cli, ["simulate", "--dry-run", "--plan", "-", "--duration", "1h", *arguments])
        assert result.exit_code == 0, result.output
        return result.output

    assert plan("--seed", "7") == plan("--seed", "7") != plan("--seed", "8")
    lines = [json.loads(line) for line in plan("--brokers", "3", "--clusters", "1").splitlines()]
    assert lines[0]["seed"] == 1
    assert [line["name"] for line in lines if "members" in line] == [f"sim-a-broker-0{number}" for number in range(3)]
    assert {"at_ms", "kind"} <= lines[-1].keys()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--duration", "5"], "is no length of time"),
        (["--clusters", "9"], "there are only 8 brokers"),
        (["--timeout", "400"], "need 2000 or more"),
    ],
)
def test_wrong_arguments_are_told(arguments, said):
    result = CliRunner().invoke(cli, ["simulate", "--dry-run", *arguments])
    assert result.exit_code == 2
    assert said in result.output


def test_a_past_is_written_into_a_new_namespace_alone(redis_url, namespace, monkeypatch):
    def write(*arguments):
        return CliRunner().invoke(
            cli,
            ["simulate", "--past", namespace, "--redis", redis_url, "--brokers", "2", "--duration", "10m", *arguments],
        )

    written = write()
    assert (written.exit_code, written.stderr) == (0, "")
    assert "lookups: " in written.output
    again = write()
    assert again.exit_code == 1
    assert "exists already" in str(again.exception)
    monkeypatch.setattr("mqregistry.simulate.past.HEARTBEATS_KEPT", 50)
    too_much = write()
    assert too_much.exit_code == 2
    assert "and Redis keeps 50: a shorter --duration" in too_much.output


def start(servers, *arguments):
    addresses = ";".join(f"{host}:{port}" for host, port in servers)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MQREGISTRY_")}
    return subprocess.Popen(
        [sys.executable, "-m", "mqregistry", "simulate", "-n", addresses,
         "--brokers", "2", "--incidents", "0", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ,
    )  # fmt: skip


def test_command_plays_and_says_what_was_done(front_ends):
    process = start(servers(front_ends), "--duration", "30m")
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert "found" in output
    assert {"beat", "start", "leave"} <= {line.split()[-1] for line in output.splitlines()}


def test_command_fails_where_an_answer_is_not_as_planned(front_ends, run):
    process = start(servers(front_ends), "--topics", "0", "--clients", "0", "--duration", "3h")
    wait_until(lambda: len(run(rows(front_ends[0].port))) == 2, "the brokers are there")
    for front_end in front_ends:
        front_end.process.kill()
        front_end.listener.close()  # or connections would wait in its backlog
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "not as planned: " in errors
    assert "\nmqregistry: not everything was answered as planned\n" in errors


def test_command_says_goodbye_when_interrupted(front_ends, run):
    process = start(servers(front_ends))
    wait_until(lambda: len(run(rows(front_ends[0].port))) == 2, "the brokers are there")
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
    assert "every broker has left" in output
    assert run(rows(front_ends[0].port)) == {}


def test_command_that_finds_no_name_server_says_so():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    process = start([("127.0.0.1", port)])
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert errors.startswith(f"mqregistry: 127.0.0.1:{port}: ")
