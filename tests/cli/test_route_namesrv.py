"""``route --namesrv``: asks a name server, any, instead of reading Redis."""

from __future__ import annotations

import json

import pytest

from mqregistry.model import BrokerRow, QueueData, TopicRoute
from mqregistry.protocol.codes import ResponseCode
from mqregistry.protocol.command import Command
from tests.client.threads import serving_in_thread

ROUTE = TopicRoute(
    {"broker-a": QueueData(4, 4, 6), "broker-b": QueueData(8, 8, 4)},
    {"broker-a": BrokerRow("c1", {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}), "broker-b": BrokerRow("c1", {1: "b:1"})},
    {},
)


@pytest.fixture
def server():
    with serving_in_thread({"topic1": ROUTE}) as server:
        yield server


def test_a_name_servers_route_looks_as_that_of_the_tables(command, server):
    assert command("route", "topic1", "--namesrv", server.address).stdout.splitlines() == [
        "topic topic1",
        "BROKER NAME  CLUSTER  READ  WRITE  PERM  ID  ADDRESS",
        "broker-a     c1          4      4  6 RW   0  10.0.0.1:10911",
        "                                          1  10.0.0.2:10911",
        "broker-b     c1          8      8  4 R    1  b:1",
    ]
    route = json.loads(command("route", "topic1", "--json", "--namesrv", f"127.0.0.1:1;{server.address}").stdout)
    assert [data["brokerName"] for data in route["queueDatas"]] == ["broker-a", "broker-b"]
    assert {one.code for one in server.requests} == {105}, "a stock name server is asked nothing else"


def test_what_can_go_wrong_says_what(command, server):
    result = command("route", "nowhere", "--namesrv", server.address, expect=1)
    assert result.stderr == f"Error: no topic 'nowhere' at name server {server.address}\n"
    result = command("route", "topic1", "--namesrv", "127.0.0.1:1", expect=1)
    assert result.stderr.startswith("Error: cannot ask name server 127.0.0.1:1: 127.0.0.1:1: ")
    assert "Redis" not in result.stderr
    result = command("route", "topic1", "--namesrv", "a:b", expect=2)
    assert "'a:b' is no name server address: expected host:port" in result.stderr
    result = command("route", "topic1", "--namesrv", server.address, "--redis", "redis://127.0.0.1", expect=2)
    assert "--namesrv asks a name server, --redis names tables in Redis: give one of them" in result.stderr


def test_a_code_is_told_with_its_name(command, server):
    async def refuse(_):
        return Command(code=ResponseCode.SYSTEM_ERROR, remark="not now")

    server.answer = refuse
    error = command("route", "topic1", "--namesrv", server.address, expect=1).exception
    assert "the name server answers code 1 (SYSTEM_ERROR): not now" in str(error)


def test_it_needs_no_registry(command, server):
    command("route", "topic1", "--namesrv", server.address, MQREGISTRY_REDIS="redis://127.0.0.1:1")
