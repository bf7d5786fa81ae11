"""RouteClient and `route --namesrv` against stock Java NameServers, and against ours: the same behaviour."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from mqregistry.client.routes.client import RouteClient
from tests.server.harness import Broker, Client
from tests.waiting import until

from .conftest import VERSIONS, ended_with_test, release_or_skip
from .name_servers import OURS, JavaNameServers, OurNameServers

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

A = Broker("broker-a", "127.0.0.1:10911", topics={"t": (4, 4, 6), "read-only": (4, 4, 4), "TBW102": (8, 8, 7)})
SLAVE = Broker("broker-a", "127.0.0.1:10912", broker_id=1, topics={})
B = Broker("broker-b", "127.0.0.1:10921", topics={"t": (2, 2, 6), "u": (4, 4, 6)})


@pytest.fixture(scope="module", params=[*VERSIONS, OURS])
def name_server(request, tmp_path_factory):
    for processes in ended_with_test(tmp_path_factory.mktemp("name-server")):
        if request.param == OURS:
            yield OurNameServers().start(processes)
        else:
            yield JavaNameServers(lambda: release_or_skip(request.param), request.param).start(processes)


def sizes(info):
    names = [queue.broker_name for queue in info.queues]
    return {name: names.count(name) for name in names}


async def test_a_route_client_follows_it(name_server):
    first, second = Client(name_server.port), Client(name_server.port)
    with first, second:
        for broker in (A, SLAVE):
            assert (await asyncio.to_thread(first.register, broker)).code == 0
        changes = []
        # a name server that does not announce changes is polled; ours announces them
        options = {"poll_first_s": 0.001, "poll_every_s": 0.2, "push_answer_s": 1.0}
        async with RouteClient(name_server.addr, **options) as client:
            client.on_route_change(changes.append)
            assert sizes(await client.publish_info("t")) == {"broker-a": 4}
            assert sizes(await client.publish_info("new")) == {"broker-a": 4}, "of TBW102, at most 4"
            assert not (await client.publish_info("read-only")).is_ok
            assert len(await client.subscribe_info("read-only")) == 4
            assert client.unknown_topics == {"new"}
            assert client.tables.broker_addrs == {"broker-a": {0: A.addr, 1: SLAVE.addr}}
            assert client.find_broker_addr_in_subscribe("broker-a", 1).broker_addr == SLAVE.addr
            assert (await asyncio.to_thread(second.register, B)).code == 0
            await until(lambda: sizes(client.tables.publish_infos["t"]) == {"broker-a": 4, "broker-b": 2})
            second.close()  # its brokers go at once
            await until(lambda: sizes(client.tables.publish_infos["t"]) == {"broker-a": 4})
            await until(lambda: "broker-b" not in client.tables.broker_addrs)
            assert [change.topic for change in changes].count("t") == 3


def test_the_command_line_shows_a_route_of_it(name_server):
    def route(*arguments):
        command = [sys.executable, "-m", "mqregistry", "route", *arguments, "--namesrv", name_server.addr]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    with Client(name_server.port) as broker:
        for one in (A, SLAVE):
            assert broker.register(one).code == 0
        assert route("t").stdout.splitlines() == [
            "topic t",
            "BROKER NAME  CLUSTER  READ  WRITE  PERM  ID  ADDRESS",
            "broker-a     c1          4      4  6 RW   0  127.0.0.1:10911",
            "                                          1  127.0.0.1:10912",
        ]
        unknown = route("nowhere")
        assert (unknown.returncode, unknown.stderr) == (
            1, f"Error: no topic 'nowhere' at name server {name_server.addr}\nSee: mqregistry help no-route\n",
        )  # fmt: skip
