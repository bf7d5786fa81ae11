"""``up``: everything in one command, and all of it gone at the end."""

from __future__ import annotations

import json
import signal
import socket
import urllib.request

import psutil
import pytest

from bench.servers.processes import free_port
from mqregistry.client.connection import PeerConnection
from mqregistry.config.settings import Settings
from mqregistry.protocol.codes import RequestCode, ResponseCode
from mqregistry.protocol.headers import GetKVConfig, PutKVConfig
from mqregistry.server.process.supervisor import boot_line
from tests.server.harness import wait_until

BOOT_LINE = boot_line(Settings())


def alive(family):
    return [process for process in family if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_up_ctrl_c_leaves_nothing_behind(start_up, home, number):
    process, port = start_up("--workers", "2", "--set", "shutdownWaitTimeSeconds=300")
    family = process.family()
    assert len(family) == 4  # itself, Redis, two workers
    assert (home / "run" / "mqregistry" / f"{process.popen.pid}.json").is_file()
    assert process.end(number) == 0
    assert not alive(family)
    assert process.out == BOOT_LINE + "\n"
    assert not list((home / "run" / "mqregistry").iterdir())
    assert not (home / "data" / "up.json").exists()
    with socket.create_server(("127.0.0.1", port)):  # free again
        pass


def test_up_killed_takes_everything_with_it(start_up):
    process, _ = start_up()
    family = process.family()
    process.popen.kill()
    wait_until(lambda: not alive(family), "its Redis and its worker are gone")


def test_up_keeps_its_data(start_up, run):
    async def ask(port, code, header):
        connection = await PeerConnection.connect("127.0.0.1", port)
        answer = await connection.request(code, header.to_ext_fields())
        await connection.close()
        assert answer.code == 0
        return answer.ext_fields

    process, port = start_up()
    run(ask(port, RequestCode.PUT_KV_CONFIG, PutKVConfig("ns", "key", "kept")))
    process.end()
    _, port = start_up()
    assert run(ask(port, RequestCode.GET_KV_CONFIG, GetKVConfig("ns", "key"))) == {"value": "kept"}


def test_up_twice_on_one_folder_names_the_first(start_up, finished, home):
    first, port = start_up()
    second = finished("up", "--data-dir", str(home / "data"))
    assert second.returncode == 253
    assert f"process {first.popen.pid}, name server on 127.0.0.1:{port}" in second.stderr
    assert "--data-dir" in second.stderr


def test_up_again_after_a_crash_ignores_what_it_left(start_up, command, home):
    process, _ = start_up()
    family = process.family()
    process.popen.kill()
    process.wait()
    wait_until(lambda: not alive(family), "all is gone")
    state = home / "run" / "mqregistry" / f"{process.popen.pid}.json"
    assert state.is_file()
    assert "no 'mqregistry up' runs here" in command("clusters", expect=1).output
    assert not state.exists()
    start_up()
    command("clusters")


def test_up_on_a_taken_port_could_not_start(finished, home):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = finished("up", "--port", str(port), "--data-dir", str(home / "d"), "--http-port", "0")
    assert result.returncode == 253
    assert f"cannot start: cannot listen on 127.0.0.1:{port}: port taken" in result.stderr
    assert result.stdout == ""


def test_up_redis_killed_is_started_again(start_up, run):
    async def accepted():
        connection = await PeerConnection.connect("127.0.0.1", port)
        answer = await connection.request(RequestCode.PUT_KV_CONFIG, PutKVConfig("ns", "key", "v").to_ext_fields())
        await connection.close()
        return answer.code == ResponseCode.SUCCESS

    process, port = start_up()
    (redis,) = [one for one in process.family() if one.name() in ("redis-server", "valkey-server")]
    redis.kill()
    process.wait_for("[redis] killed by SIGKILL; starting it again")
    wait_until(lambda: run(accepted()), "a write is accepted")
    assert process.end() == 0
    assert "just started" not in process.err


def test_up_log_names_the_part_of_each_line(start_up):
    process, port = start_up()
    assert process.end() == 0
    lines = process.err.splitlines()
    assert any("[supervisor] front end" in line and f"127.0.0.1:{port}" in line for line in lines)
    assert any("[worker 1] " in line and "drained" in line for line in lines)


def test_up_log_file_takes_the_log(start_up, home):
    process, _ = start_up("--log-file", str(home / "up.log"))
    process.end()
    assert process.err == ""
    assert "[supervisor] SIGINT: draining" in (home / "up.log").read_text()


def test_up_unwritable_log_file_could_not_start(finished, home):
    result = finished("up", "--data-dir", str(home / "d"), "--log-file", "/nowhere/up.log")
    assert (result.returncode, "cannot write the log file /nowhere/up.log" in result.stderr) == (253, True)


def test_up_unwritable_data_folder_could_not_start(finished):
    result = finished("up", "--data-dir", "/proc/nowhere")
    assert (result.returncode, "cannot use the data folder /proc/nowhere" in result.stderr) == (253, True)


def test_up_loads_a_java_properties_file(start, home):
    file = home / "namesrv.properties"
    file.write_text("rocketmqHome=/opt\nserverWorkerThreads=8\nbindAdress=1\nhttpPort=0\n")
    process = start("up", "--data-dir", str(home / "data"), "-c", str(file), MQREGISTRY_PORT="0")
    assert process.wait() == 253
    assert process.out == ""
    assert "MQREGISTRY_PORT='0'" in process.err
    process = start("up", "--data-dir", str(home / "data"), "-c", str(file), MQREGISTRY_PORT=str(free_port()))
    process.wait_for(BOOT_LINE)
    assert process.out.splitlines() == [f"load config properties file OK, {file}", BOOT_LINE]
    assert f"{file}:3: unknown key 'bindAdress'; did you mean bindAddress?" in process.err
    assert "rocketmqHome" not in process.err


def test_up_state_file_tells_where_it_is(start_up, home):
    process, port = start_up("--namespace", "mine")
    state = json.loads((home / "data" / "up.json").read_text())
    assert state == {
        "kind": "up",
        "pid": process.popen.pid,
        "redis": f"unix://{home}/data/redis.sock",
        "namespace": "mine",
        "host": "127.0.0.1",
        "port": port,
        "http_port": 0,
        "data_dir": str(home / "data"),
    }


def test_serve_and_sweep_without_redis_say_what_to_give(finished):
    for name in ("serve", "sweep"):
        result = finished(name)
        assert (result.returncode, "--redis redis://HOST:PORT" in result.stderr) == (253, True)


def test_serve_on_a_redis_that_is_away_could_not_start(finished, home):
    for name in ("serve", "sweep"):
        result = finished(name, "--no-wait", "--redis", f"unix://{home}/nobody.sock", "--log-level", "error")
        assert result.returncode == 253, result.stderr
        assert result.stderr.startswith("mqregistry: cannot start: ")
        assert "nobody.sock" in result.stderr
        assert "Traceback" not in result.stderr


def test_serve_and_sweep_run_on_one_redis(start, redis_url, namespace):
    shared = ("--redis", redis_url, "--namespace", namespace)
    serve = start("serve", *shared, "--no-sweep", "--host", "127.0.0.1", "--port", str(free_port()), "--http-port", "0")
    sweep = start("sweep", *shared)
    serve.wait_for(BOOT_LINE)
    sweep.wait_for("[sweeper] sweeping namespace")
    assert serve.end() == 0
    assert sweep.end(signal.SIGTERM) == 0


def test_up_with_the_console_says_where_it_is_and_ends_it_too(start_up):
    process, port = start_up("--console")
    process.wait_for(f"The console is at http://127.0.0.1:{port + 4}/")
    family = process.family()
    assert len(family) == 4  # itself, Redis, a worker, the console
    with urllib.request.urlopen(f"http://127.0.0.1:{port + 4}/") as page:
        assert b"mqregistry" in page.read()
    assert process.end() == 0
    assert not alive(family)
