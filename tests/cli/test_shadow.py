"""``shadow``: a client gets Java's answers; the terminal, JSON and Prometheus tell what ours answers; its usage."""

from __future__ import annotations

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bench.servers.processes import free_port
from tests.client.threads import serving_in_thread
from tests.compare.java_like import answer_as_java, tables_of
from tests.server.harness import Client, wait_until
from tests.server.serving import get

from .test_compare import documented, rows_of_page


@pytest.fixture
def servers():
    with serving_in_thread() as java, serving_in_thread() as ours:
        answer_as_java(java, tables_of(["orders", "lonely"]))
        answer_as_java(ours, tables_of(["orders"]))
        yield java, ours


def started(start, servers, *options):
    java, ours = servers
    port = free_port()
    process = start("shadow", "--port", str(port), "--java", java.address, "--ours", ours.address, "--every", "100ms",
                    "--lasting", "100ms", *options)  # fmt: skip
    process.wait_for("Ctrl-C ends it")
    return process, port


def test_what_ours_answers_otherwise_is_told(start, servers):
    metrics = free_port()
    process, port = started(start, servers, "--listen", str(metrics), "--json")
    with Client(port) as client:
        assert client.route("orders").code == 0
        assert client.route("lonely").code == 0

        def differences():
            return json.loads(process.out.splitlines()[-1])["differences"] if process.out else []

        wait_until(lambda: [one for one in differences() if one["sort"] == "counted"], "it counts")
        page = get(metrics, "/metrics").body.decode()
        found = {(each.name.removeprefix("mqregistry_shadow_"), *each.labels.values()): each.value
                 for family in text_string_to_metric_families(page) for each in family.samples}  # fmt: skip
        assert documented(page) == rows_of_page("mqregistry_shadow_")
        assert found["repeated_total", "105", "same"] == found["repeated_total", "105", "different"] == 1
        assert (found["differences", "counted"], found["connections",], found["ours_up",]) == (1, 1, 1)
        assert found["seconds_count", "Java"] == found["seconds_bucket", "+Inf", "ours"] == 2
    assert process.end() == 1
    (one,) = differences()
    assert (one["name"], one["told"]["ours"]) == ("lonely", None)


def test_on_a_terminal(start, servers):
    process, port = started(start, servers)
    with Client(port) as client:
        client.route("orders")
        wait_until(lambda: "1 read repeated, 1 same, 0 differed at first, 0 meant; Java p50" in process.out, "a line")
    assert process.end() == 0


@pytest.mark.parametrize(("options", "said"), [
    (("--port", "x", "--java", "a:1", "--ours", "b:1"), "--port x: expected PORT or HOST:PORT"),
    (("--port", "1", "--java", "a:b", "--ours", "127.0.0.1:1"), "--java: 'a:b' is no name server address"),
    (("--port", "1", "--java", "127.0.0.1:1;127.0.0.1:2", "--ours", "127.0.0.1:1"), "name one server"),
    (("--port", "1", "--java", "127.0.0.1:1"), "Missing option '--ours'"),
])  # fmt: skip
def test_wrong_usage_is_named(command, options, said):
    assert said in command("shadow", *options, expect=2).stderr


def test_a_port_that_is_taken(command, servers):
    java, ours = servers
    taken = ("--port", str(java.port), "--java", java.address, "--ours", ours.address)
    assert f"cannot listen on {java.port}: " in command("shadow", *taken, expect=1).stderr
