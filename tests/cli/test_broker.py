"""``mqregistry broker run``."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import sys

import pytest
from click.testing import CliRunner

from bench.servers.processes import free_port
from mqregistry.cli import cli
from mqregistry.cli.topics_file import parse_topic, read_topics
from mqregistry.client.broker.config import BrokerConfig
from mqregistry.client.broker.system_topics import system_topics
from mqregistry.errors import ConfigError
from mqregistry.model import TopicConfig
from mqregistry.protocol.codes import VERSION_V4_8_0, VERSION_V5_5_0
from tests.client.registrar_bed import brokers_at, queues_at
from tests.server.harness import FrontEnd, wait_until

from .processes import Process


@pytest.fixture(scope="module")
def front_end(redis_url):
    front_end = FrontEnd(redis_url, f"t{secrets.token_hex(5)}")
    yield front_end
    front_end.close()


@pytest.fixture
def run_broker(tmp_path):
    started = []

    def run(*arguments):
        env = {name: value for name, value in os.environ.items() if name != "NAMESRV_ADDR"}
        env |= {"XDG_RUNTIME_DIR": str(tmp_path)}
        started.append(Process("broker", "run", "--name", "broker-a", *arguments, env=env))
        return started[-1]

    yield run
    for process in started:
        process.end(signal.SIGKILL)


def test_says_what_each_name_server_answers_and_leaves_on_ctrl_c(run_broker, front_end, tmp_path):
    topics = tmp_path / "topics.yaml"
    topics.write_text("orders: [4, 4, 6]\nbills: {read: 2, perm: 4}\nrefunds:\n")
    nobody = f"127.0.0.1:{free_port()}"
    servers = f"127.0.0.1:{front_end.port};{nobody}"
    process = run_broker("--topics", str(topics), "--topic", "more:1:2:6", "-n", servers, "--addr", "127.0.0.1:20911")
    process.wait_for("registered after")
    process.wait_for(f"{nobody}  failed after")
    assert process.out.count("nobody listens there") == 1
    assert process.err == ""
    assert process.out.startswith(
        "broker-a (cluster DefaultCluster, id 0, 127.0.0.1:20911): 4 topics and 15 system topics; Ctrl-C leaves\n"
    )
    assert brokers_at(front_end.port) == {"broker-a": {0: "127.0.0.1:20911"}}
    found = {topic: queues_at(front_end.port, topic)["broker-a"] for topic in ("orders", "bills", "refunds", "more")}
    assert found == {"orders": (4, 4, 6), "bills": (2, 8, 4), "refunds": (8, 8, 6), "more": (1, 2, 6)}
    assert process.end() == 0
    assert f"127.0.0.1:{front_end.port}  unregistered\n" in process.out
    assert brokers_at(front_end.port) == {}


@pytest.mark.parametrize("release", ["4.8.0", "5.5.0"])
def test_it_has_the_topics_that_a_java_broker_has_by_itself(run_broker, front_end, release):
    """tests/client/test_system_topics.py compares them with recorded registrations."""
    version = {"4.8.0": VERSION_V4_8_0, "5.5.0": VERSION_V5_5_0}[release]
    config = BrokerConfig(
        broker_name="broker-a", broker_addr="127.0.0.1:10911", cluster_name="DefaultCluster", version=version
    )
    own = {topic.topic_name for topic in system_topics(config)}
    assert {"TBW102", "SELF_TEST_TOPIC", "broker-a", "DefaultCluster", "OFFSET_MOVED_EVENT"} < own
    for options, expected in (((), {*own, "orders"}), (("--no-system-topics",), {"orders"})):
        process = run_broker("--topic", "orders", "-n", f"127.0.0.1:{front_end.port}", "--release", release, *options)
        process.wait_for("registered after")
        with front_end.client() as client:
            assert {*json.loads(client.request(206).body)["topicList"]} == expected
        assert process.end() == 0


def test_json_period_and_all_the_forms(run_broker, front_end):
    process = run_broker(
        "--topic", "a", "--topic", "b", "-n", f"127.0.0.1:{front_end.port}", "--json", "-v", "--period", "0.05",
        "--binary", "--compressed", "--need-register", "--release", "5.3.3", "--acting-master", "--zone", "z",
    )  # fmt: skip
    process.wait_for('"status":"unchanged"')
    assert process.end(signal.SIGTERM) == 0
    lines = [json.loads(line) for line in process.out.splitlines()]
    assert {line["server"] for line in lines} == {f"127.0.0.1:{front_end.port}"}
    assert [lines[0]["status"], lines[-1]["status"]] == ["registered", "unregistered"]


def test_writes_to_redis_itself(run_broker, front_end, redis_url):
    process = run_broker("--topic", "a", "--redis", redis_url, "--namespace", front_end.settings.namespace)
    process.wait_for("registered after")
    wait_until(lambda: brokers_at(front_end.port), "the front end has it")
    assert process.end() == 0
    assert "unregistered" in process.out
    wait_until(lambda: brokers_at(front_end.port) == {}, "and has it no more")


def test_nobody_who_takes_it_is_a_failure(run_broker):
    process = run_broker("--topic", "a", "-n", f"127.0.0.1:{free_port()}")
    process.wait_for("failed after")
    assert process.end() == 1
    assert "no name server accepted the registration" in process.err


def test_ctrl_c_does_not_wait_for_name_servers(run_broker, silent_listener):
    process = run_broker("--topic", "a", "-n", f"127.0.0.1:{silent_listener}", "--timeout", "3600")
    process.wait_for("Ctrl-C leaves")
    wait_until(lambda: len(process.family()[0].net_connections()) > 0, "it is connected")
    assert process.end() == 1


@pytest.fixture
def silent_listener():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--topic", "a"], "name the servers to register at"),
        (["--topic", "a:b", "-n", "127.0.0.1:1"], "NAME:READ:WRITE:PERM"),
        (["--addr", "nowhere", "-n", "127.0.0.1:1"], "not host:port"),
        (["-n", "127.0.0.1:port"], "is no name server address"),
        (["--redis", "http://x"], "is none of redis://"),
    ],
)
def test_wrong_usage(arguments, message, tmp_path):
    env = {"XDG_RUNTIME_DIR": str(tmp_path), "NAMESRV_ADDR": "", "TMPDIR": str(tmp_path)}
    result = CliRunner(env=env).invoke(cli, ["broker", "run", "--name", "b", *arguments])
    assert result.exit_code == 2, result.output
    assert message in result.output


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("t", TopicConfig("t", 8, 8, 6)),
        ("t:4", TopicConfig("t", 4, 4, 6)),
        ("t:4:2", TopicConfig("t", 4, 2, 6)),
        ("t:4:2:4", TopicConfig("t", 4, 2, 4)),
        ("t:4:2:6:1", TopicConfig("t", 4, 2, 6, 1)),
    ],
)
def test_a_topic_of_the_command_line(text, topic):
    assert parse_topic(text) == topic


@pytest.mark.parametrize("text", ["", ":4", "t:", "t:x", "t:-1", "t:1:1:1:1:1"])
def test_what_is_no_topic(text):
    with pytest.raises(ConfigError):
        parse_topic(text)


JAVA = {
    "dataVersion": {"counter": 3},
    "topicConfigTable": {
        "t": {"topicName": "t", "readQueueNums": 4, "writeQueueNums": 2, "perm": 4, "topicSysFlag": 1, "order": False}
    },
}


@pytest.mark.parametrize(
    ("name", "text", "topics"),
    [
        ("a.json", '["t", "u:1:1:4"]', [TopicConfig("t", 8, 8, 6), TopicConfig("u", 1, 1, 4)]),
        ("a.json", '{"t": [4, 2]}', [TopicConfig("t", 4, 2, 6)]),
        ("topics.json", json.dumps(JAVA), [TopicConfig("t", 4, 2, 4, 1)]),
        ("a.yml", "- t\n- u\n", [TopicConfig("t", 8, 8, 6), TopicConfig("u", 8, 8, 6)]),
    ],
)
def test_files_of_topics(tmp_path, name, text, topics):
    (tmp_path / name).write_text(text)
    assert read_topics(tmp_path / name) == topics


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "{", "Expecting property name"),
        ("a.json", "7", "neither a table nor a list"),
        ("a.json", '{"t": [4, "2"]}', "topic t"),
        ("a.json", '{"t": [true]}', "topic t"),
        ("a.yaml", "t: 4:4:6", "topic t"),  # YAML reads a number of base 60
        ("a.yaml", "t: [4", "no YAML"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=message) as raised:
        read_topics(tmp_path / name)
    assert str(tmp_path / name) in str(raised.value)


def test_yaml_without_its_library_says_what_to_do(tmp_path, monkeypatch):
    (tmp_path / "a.yaml").write_text("t:\n")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ConfigError, match=r"mqregistry\[yaml\]"):
        read_topics(tmp_path / "a.yaml")
