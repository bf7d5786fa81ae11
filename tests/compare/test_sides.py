"""A name server as a side: it is found out what it is, anew with each connection."""

from __future__ import annotations

from mqregistry.cli.outside.sides import NameServerSide
from mqregistry.client.addresses import NameServerAddress
from mqregistry.protocol.command import Command
from mqregistry.protocol.watch import ROUTE_WATCH
from tests.client.fake_name_server import FakeNameServer

from .java_like import answer_as_java, tables_of


async def look(side):
    listed = await side.list_names(None)
    return await side.look(listed.topics, ["ORDER_TOPIC_CONFIG"])


async def test_a_server_that_takes_the_place_of_another_is_known_for_what_it_is():
    async with FakeNameServer() as server:
        answer_as_java(server, tables_of())
        side = NameServerSide(NameServerAddress("127.0.0.1", server.port, ""), timeout_s=20, tls=None)
        assert (await look(side)).is_java
        assert (await look(side)).is_java
        assert side.what == "Java NameServer 5.3.3"
        assert [one.code for one in server.requests].count(ROUTE_WATCH) == 1
        await server.stop()
        answer_as_java(server, tables_of(), version=513)
        usual = server.answer

        async def answer_as_ours(request):
            return Command(code=0, version=513) if request.code == ROUTE_WATCH else await usual(request)

        server.answer = answer_as_ours
        await server.start()
        assert not (await look(side)).is_java
        assert side.what == "front end, as 5.5.0"
        await side.close()
