"""``cache_file``: routes of last time while no name server answers, and a file that nothing can break."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from mqregistry.client import RouteClientSync
from mqregistry.client.routes.client import RouteClient
from mqregistry.client.routes.route_file import KEPT_MS, RouteFile
from mqregistry.errors import NoRoute
from tests.waiting import until

from .fake_name_server import FakeNameServer, route_of

NOBODY = "127.0.0.1:1"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "routes.json"


def client_of(address, file, **options):
    return RouteClient(address, cache_file=file, push=False, poll_first_s=0.001, **{"poll_every_s": 0.02, **options})


async def one_life(file, routes, *topics):
    async with FakeNameServer(routes) as server, client_of(server.address, file) as client:
        for topic in topics:
            await client.publish_info(topic)


async def test_routes_of_last_time_serve_until_a_name_server_answers(file, caplog):
    route = route_of("a", "b", order_topic_conf="a:2;b:2")
    await one_life(file, {"t": route}, "t")
    assert (file.stat().st_mode & 0o777, [path.name for path in file.parent.iterdir()]) == (0o600, ["routes.json"])
    server = FakeNameServer({"t": route})
    async with server:
        pass  # its port is free again, and known
    told = []
    async with client_of(server.address, file, backoff_first_s=0.01, backoff_most_s=0.02) as client:
        client.on_route_change(told.append)
        assert (await client.select_queue("t")).broker_name in ("a", "b")
        assert await client.subscribe_info("t"), "of the same route, also when it is used for reading later"
        assert client.stale_topics == {"t"}
        assert [(change.before, change.route, change.is_stale) for change in told] == [(None, route, True)]
        with pytest.raises(NoRoute, match="no name server answers"):
            await client.select_queue("u")
        await server.start()
        await until(lambda: not client.stale_topics)
        assert [(change.before, change.route, change.is_stale) for change in told[1:]] == [(route, route, False)]
    await server.stop()
    assert caplog.text.count("the route of t is that of the file, which a name server told at 20") == 1


async def test_a_name_server_that_answers_is_believed_and_the_file_is_not(file):
    await one_life(file, {"t": route_of("a"), "gone": route_of("a")}, "t", "gone")
    routes = {"t": route_of("b")}
    async with FakeNameServer(routes) as server, client_of(server.address, file, poll_every_s=60) as client:
        assert [queue.broker_name for queue in (await client.publish_info("t")).queues[:1]] == ["b"]
        assert not (await client.publish_info("gone")).is_ok
        assert client.stale_topics == set()
    assert json.loads(file.read_text())["routes"].keys() == {"t"}


async def test_topics_that_are_not_used_this_time_are_kept_for_a_month(file):
    await one_life(file, {"a": route_of("a"), "old": route_of("a")}, "a", "old")
    content = json.loads(file.read_text())
    content["routes"]["old"]["at_ms"] -= KEPT_MS
    file.write_text(json.dumps(content))
    await one_life(file, {"b": route_of("a")}, "b")
    assert json.loads(file.read_text())["routes"].keys() == {"a", "b"}


async def test_changes_are_written_while_the_client_runs(file, monkeypatch):
    monkeypatch.setattr("mqregistry.client.routes.client._WRITE_AFTER_S", 0.0)
    async with FakeNameServer({"t": route_of("a")}) as server, client_of(server.address, file) as client:
        await client.publish_info("t")
        await until(lambda: file.exists() and "10.0.0.1" in file.read_text())
        server.routes["t"] = route_of("a", addrs={0: "10.9.9.9:10911"})
        await until(lambda: "10.9.9.9" in file.read_text())
        client.forget("t")
    assert json.loads(file.read_text())["routes"] == {}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "truncated"), (b"{", "truncated"), (b"\xff\xfe", ""), (b"[]", "Expected `object`"),
        (b'{"format":2,"routes":{}}', "Invalid enum value 2"), (b'{"format":1,"routes":{"t":{"at_ms":1}}}', "route"),
        (b'{"format":1,"routes":{"t":{"at_ms":"x","route":{}}}}', "Expected `int`"),
    ],
)  # fmt: skip
async def test_a_file_that_is_broken_is_told_and_ignored(file, content, why, caplog):
    file.write_bytes(content)
    async with FakeNameServer({"t": route_of("a")}) as server, client_of(server.address, file) as client:
        assert (await client.publish_info("t")).is_ok
    (said,) = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert f"the file of routes {file} cannot be used: " in said
    assert why in said
    assert json.loads(file.read_text())["routes"].keys() == {"t"}


async def test_a_file_that_cannot_be_written_is_told_once_and_stops_nothing(tmp_path, caplog):
    file = tmp_path / "no-such-folder" / "routes.json"
    async with FakeNameServer({"t": route_of("a")}) as server, client_of(server.address, file) as client:
        await client.publish_info("t")
        for _ in range(2):
            client._file.keep("t", client.routes["t"])
            client._file.write()
        assert (await client.publish_info("t")).is_ok
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == [
        f"the file of routes {file} cannot be written: No such file or directory"
    ]


async def test_a_write_that_fails_half_way_leaves_the_old_file(file, monkeypatch):
    await one_life(file, {"t": route_of("a")}, "t")
    before = file.read_bytes()
    routes = RouteFile(file)
    routes.keep("u", route_of("a"))
    monkeypatch.setattr("os.fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    await asyncio.to_thread(routes.write)
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["routes.json"]


def test_a_client_without_an_event_loop_has_it_too(file, run):
    run(one_life(file, {"t": route_of("a")}, "t"))
    with RouteClientSync(NOBODY, cache_file=file, push=False) as client:
        assert client.select_queue("t").broker_name == "a"
        assert client.stale_topics == {"t"}


async def test_the_log_says_which_topic_is_unknown_and_what_changed(caplog):
    caplog.set_level(logging.INFO)
    routes = {"t": route_of("a", queues=2)}
    async with FakeNameServer(routes) as server, RouteClient(server.address, push=False, poll_every_s=0.01) as client:
        await client.publish_info("t")
        for _ in range(3):
            await client.publish_info("none")
        server.routes["t"] = route_of("a", queues=2, addrs={0: "10.0.0.7:10911", 1: "10.0.0.8:10911"})
        await until(lambda: len(client.tables.broker_addrs["a"]) == 2)
        del server.routes["t"]
        await until(lambda: "t" in client.unknown_topics)
        assert client.routes["t"]
    said = [record.message for record in caplog.records if record.name.endswith("updates")]
    new = "a 2 read, 2 write, perm 6, at 10.0.0.7:10911 id 0, 10.0.0.8:10911 id 1"
    assert said == [
        "the route of t is known: a 2 read, 2 write, perm 6, at 10.0.0.1:10911 id 0",
        "the name server does not know the topic none",
        "the name server knows neither the topic none nor TBW102",
        f"the route of t changed: it was a 2 read, 2 write, perm 6, at 10.0.0.1:10911 id 0; it is {new}",
        "the name server does not know the topic t; what is known is kept",
    ]
