"""``probe``: name servers that answer, that are down, that lack a route, that disagree; as an exporter."""

from __future__ import annotations

import json

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from bench.servers.processes import free_port
from mqregistry.protocol.bodies.route import encode_cluster_info
from mqregistry.protocol.command import Command
from tests.client.fake_name_server import route_of
from tests.client.threads import serving_in_thread
from tests.server.harness import wait_until
from tests.server.serving import get

from .test_compare import documented, rows_of_page


def answering(server, route):
    """Have it answer 106 with what this route has, too."""
    usual = server.usual_answer

    async def answer(request):
        if request.code == 106:
            names = {"c1": list(route.broker_rows)}
            return Command(code=0, body=encode_cluster_info(route.broker_rows, names))
        return await usual(request)

    server.answer = answer
    server.routes["t"] = route


@pytest.fixture
def servers():
    with serving_in_thread() as first, serving_in_thread() as second:
        answering(first, route_of("broker-a", "broker-b"))
        answering(second, route_of("broker-b", "broker-a"))
        yield first, second


def both(servers):
    return ";".join(server.address for server in servers)


def same_route(servers):
    for server in servers:
        answering(server, route_of("broker-a", "broker-b"))


def test_name_servers_that_agree(command, servers):
    same_route(servers)
    lines = command("probe", "-n", both(servers), "--topic", "t").stdout.splitlines()
    assert lines[0].split() == ["NAME", "SERVER", "connect", "MS", "106", "MS", "105", "t", "MS", "STATE"]
    assert {(line.split()[0], line.split()[-1]) for line in lines[1:]} == {(one.address, "ok") for one in servers}
    told = json.loads(command("probe", "-n", both(servers), "--topic", "t", "--json").stdout)
    assert (told["well"], told["differ"], len(told["answers"])) == (True, [], 2)


def test_name_servers_that_do_not_agree(command, servers):
    found = command("probe", "-n", both(servers), "--topic", "t", expect=1)
    assert "they do not agree on 106:" in found.stdout
    assert "they do not agree on 105 t:" in found.stdout


def test_the_order_of_an_answer_is_no_difference(command, servers):
    same_route(servers)
    route = servers[0].routes["t"]
    turned = {name: dict(reversed(getattr(route, name).items())) for name in ("queue_datas", "broker_rows")}
    answering(servers[1], msgspec.structs.replace(route, **turned))
    command("probe", "-n", both(servers), "--topic", "t")


def test_one_that_is_down_and_a_topic_without_route(command, servers):
    same_route(servers)
    down = f"127.0.0.1:{free_port()}"
    found = command("probe", "-n", f"{servers[0].address};{down}", expect=1).stdout
    assert f"{down}  " in found
    assert "ok" in found
    assert "no route of none" in command("probe", "-n", servers[0].address, "--topic", "none", expect=1).stdout


def test_what_is_no_address_is_wrong_usage(command):
    assert "is no name server address" in command("probe", "-n", "a:b", expect=2).stderr
    assert "expected PORT" in command("probe", "-n", "a:1", "--listen", "x", expect=2).stderr


def test_as_an_exporter(start, servers):
    same_route(servers)
    port = free_port()
    process = start("probe", "-n", both(servers), "--topic", "t", "--listen", str(port))
    process.wait_for("Ctrl-C ends it")

    def samples():
        page = get(port, "/metrics").body.decode()
        families = text_string_to_metric_families(page)
        return {(one.name, *one.labels.values()): one.value for family in families for one in family.samples}

    found = samples()
    assert documented(get(port, "/metrics").body.decode()) == rows_of_page("mqregistry_probe_")
    assert found["mqregistry_probe_agree",] == 1
    assert [found["mqregistry_probe_up", one.address] for one in servers] == [1, 1]
    assert found["mqregistry_probe_seconds", "105 t", servers[0].address] > 0
    servers[1].routes.clear()
    wait_until(lambda: samples()["mqregistry_probe_up", servers[1].address] == 0, "it has no route")
    assert get(port, "/").status == 404
    assert process.end() == 0
