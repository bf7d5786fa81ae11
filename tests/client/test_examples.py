"""Every example of the documentation runs as a script, against a real front end, and holds under mypy --strict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from bench.servers.processes import free_port
from tests.certificates import Authority
from tests.server.harness import Broker, FrontEnd, wait_until

from .registrar_bed import brokers_at, queues_at

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"), "ca")


@pytest.fixture
def front_end(redis_url, namespace, authority):
    pair = authority.sign("front-end")
    front_end = FrontEnd(redis_url, namespace, tls_server_cert_path=str(pair.cert), tls_server_key_path=str(pair.key))
    yield front_end
    front_end.close()


@pytest.fixture
def brokers(front_end):
    """Two brokers, with the topics that the examples ask for."""
    with front_end.client() as one, front_end.client() as two:
        for client, name, port in ((one, "broker-a", 10911), (two, "broker-b", 10921)):
            broker = Broker(name, f"10.0.0.1:{port}", topics={"orders": (4, 4, 6), "bills": (2, 2, 6)})
            assert client.register(broker).code == 0
        wait_until(lambda: queues_at(front_end.port, "bills").keys() == {"broker-a", "broker-b"}, "both are known")
        yield


NEITHER = "the name server knows neither the topic no-such-topic nor TBW102\n"


def run(name, *arguments, env=None, says=""):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        capture_output=True, text=True, timeout=60, cwd=EXAMPLES, env={**os.environ, **(env or {})},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, says), done.stderr
    return done.stdout


def address(front_end):
    return f"127.0.0.1:{front_end.port}"


def test_routes(front_end, brokers):
    out = run("routes.py", address(front_end), says=NEITHER)
    assert "orders is at broker-a, broker-b\n" in out
    assert "send to MessageQueue(topic='orders', broker_name='broker-" in out
    one, other = [line.split("broker_name='")[1][:8] for line in out.splitlines() if "send to" in line]
    assert {one, other} == {"broker-a", "broker-b"}
    assert f"at 10.0.0.1:{10911 if one == 'broker-a' else 10921}\n" in out
    assert out.count("read from MessageQueue(topic='bills', broker_name='broker-") == 4
    assert "error: no name server knows topic 'no-such-topic'" in out


def test_routes_by_the_environment(front_end, brokers):
    assert "orders is at broker-a, broker-b\n" in run(
        "routes.py", env={"NAMESRV_ADDR": address(front_end)}, says=NEITHER
    )


def test_routes_sync(front_end, brokers):
    out = run("routes_sync.py", address(front_end))
    assert out.startswith("send to MessageQueue(topic='orders', broker_name='broker-")
    assert out.count("a thread sends to MessageQueue(topic='orders'") == 4


def test_routes_tls(front_end, brokers, authority):
    assert run("routes_tls.py", str(authority.cert), address(front_end)) == "['broker-a', 'broker-b']\n"


@pytest.mark.parametrize("name", ["broker.py", "broker_sync.py"])
def test_broker(front_end, name):
    out = run(name, address(front_end))
    last = out.splitlines()[-1]
    assert last.startswith(f"{address(front_end)}: registered , DataVersion(counter=1,"), out
    assert queues_at(front_end.port, "refunds") == {}  # it has left
    assert brokers_at(front_end.port) == {}


def test_broker_redis(front_end, redis_url, namespace):
    out = run("broker_redis.py", redis_url, namespace)
    assert f"namespace {namespace}: registered" in out
    wait_until(lambda: brokers_at(front_end.port) == {}, "it has left")


def test_worker(front_end, brokers):
    """Two of them share the queues, and one is told to end."""
    shares = []
    for number in ("0", "1"):
        process = subprocess.Popen([sys.executable, str(EXAMPLES / "worker.py"), "orders", number, "2",
                                    address(front_end)], stdout=subprocess.PIPE, text=True)  # fmt: skip
        with process:
            shares.append(process.stdout.readline().removeprefix("reads ").split())
            process.terminate()
            assert process.stdout.read() == "stopped\n"
        assert process.returncode == 0
    both = sorted(name.rstrip(",") for share in shares for name in share)
    assert both == [f"broker-{letter}/{queue}" for letter in "ab" for queue in range(4)]


def test_fastapi_app(front_end, brokers, tmp_path):
    port, application = free_port(), Path("fastapi_app.py").stem + ":app"
    process = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "--port", str(port), "--log-level", "warning", application],
        cwd=EXAMPLES, env={**os.environ, "NAMESRV_ADDR": address(front_end), "ROUTES_FILE": str(tmp_path / "routes")},
    )  # fmt: skip

    def asked(path, data=None):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", data, timeout=60) as answer:
                return json.load(answer)
        except OSError:
            return None

    with process:
        try:
            wait_until(lambda: (asked("/healthz") or {}).get("routes") == ["orders"], "it knows its route")
            placed = [asked("/orders", b"") for _ in range(8)]
        finally:
            process.terminate()
    assert {(one["broker"], one["address"]) for one in placed} == {
        ("broker-a", "10.0.0.1:10911"), ("broker-b", "10.0.0.1:10921"),
    }  # fmt: skip
    assert "orders" in (tmp_path / "routes").read_text()


def test_every_example_is_run_here():
    tested = Path(__file__).read_text() + (ROOT / "tests" / "testing" / "test_testing.py").read_text()
    assert [path.name for path in sorted(EXAMPLES.glob("*.py")) if f'"{path.name}"' not in tested] == []


def test_the_examples_hold_under_mypy_strict():
    """As an application's own code does that imports the installed package (py.typed)."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent",
         *map(str, sorted(EXAMPLES.glob("*.py")))],
        capture_output=True, text=True, timeout=110, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
