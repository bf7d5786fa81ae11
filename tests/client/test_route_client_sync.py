"""RouteClient for programs without an event loop."""

from __future__ import annotations

import threading

import pytest

from mqregistry import client
from mqregistry.client import RouteClientSync
from mqregistry.client.routes.tables import FoundBroker
from mqregistry.errors import ClientClosed, ConfigError, NoRoute, PeerUnavailable
from tests.server.harness import wait_until

from .fake_name_server import route_of
from .threads import exit_code_of_fork, serving_in_thread


@pytest.fixture
def server():
    before = set(threading.enumerate())
    with serving_in_thread({"t": route_of("a", "b"), "u": route_of("a")}) as server:
        yield server
    assert set(threading.enumerate()) <= before


def opened(server, **options):
    return RouteClientSync(server.address, **{"push": False, "poll_first_s": 0.001, "poll_every_s": 0.01, **options})


def test_everything_that_a_route_client_does(server):
    with opened(server) as client:
        assert len(client.publish_info("t").queues) == 8
        assert len(client.subscribe_info("u")) == 4
        assert client.select_queue("t", "a").broker_name == "b"
        assert client.find_broker_addr_in_publish("b") == "10.0.0.2:10911"
        assert client.find_broker_addr_in_subscribe("b", 1) == FoundBroker("10.0.0.2:10911", False)
        assert client.lookup("t") == client.routes["t"]
        assert client.lookup("nowhere") is None
        assert not client.update("t")
        with pytest.raises(NoRoute, match="no name server knows topic 'nowhere'"):
            client.select_queue("nowhere")
        client.report("a", failed=True)
        client.forget("t", "u", "nowhere")
        assert client.routes == {}
        client.publish("t")
        client.subscribe("u")
        wait_until(lambda: set(client.routes) == {"t", "u"}, "asked for in the background")


def test_changes_are_told_in_the_background_thread(server):
    told = []
    with opened(server) as client:
        end = client.on_route_change(lambda change: told.append((threading.current_thread(), change)))
        client.publish_info("t")
        server.routes["t"] = route_of("c")
        wait_until(lambda: len(told) == 2, "told")
        assert {thread for thread, _ in told}.isdisjoint({threading.main_thread()})
        assert client.publish_info("t").queues[0].broker_name == "c"
        end()
        server.routes["t"] = route_of("d")
        wait_until(lambda: "d" in client.routes["t"].broker_rows, "changed")
        assert len(told) == 2


def test_a_listener_may_read_what_is_known_but_not_wait(server):
    seen = []

    def listener(change):
        seen.append(client.publish_info(change.topic).is_ok)
        try:
            client.publish_info("unknown")
        except RuntimeError as error:
            seen.append(str(error))

    with opened(server) as client:
        client.on_route_change(listener)
        client.publish_info("t")
    assert seen[0] is True
    assert "must not call it" in seen[1]


def test_many_threads_take_queues_in_turn(server):
    taken, lock = [], threading.Lock()

    def take():
        for _ in range(200):
            queue = client.select_queue("t")
            with lock:
                taken.append(queue)

    with opened(server) as client:
        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(taken) == 800
    assert {taken.count(queue) for queue in set(taken)} == {100}


def test_closed_not_open_or_wrong(server, monkeypatch):
    client = opened(server)
    with pytest.raises(ClientClosed):
        client.publish_info("t")
    with client:
        assert client.publish_info("t").is_ok
    for use in (client.publish_info, client.select_queue, client.find_broker_addr_in_publish, client.publish):
        with pytest.raises(ClientClosed):
            use("t")
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(ConfigError):
        RouteClientSync()


def test_no_name_server_there():
    with RouteClientSync("127.0.0.1:1", push=False) as client:
        assert not client.publish_info("t").is_ok
        with pytest.raises(PeerUnavailable):
            client.lookup("t")


def test_a_forked_child_is_told_instead_of_growing_old(server):
    with opened(server) as client:
        client.publish_info("t")

        def child():
            with pytest.raises(ClientClosed):
                client.publish_info("t")  # known, and still refused
            with opened(server) as own:
                assert own.publish_info("t").is_ok

        assert exit_code_of_fork(child) == 0
        server.routes["t"] = route_of("c")
        wait_until(lambda: "c" in client.routes["t"].broker_rows, "the parent goes on")


def test_the_public_interface():
    for name in client.__all__:
        assert getattr(client, name).__name__ == name
    assert set(client.__all__) == set(client._MODULES) == set(dir(client))
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = client.Nothing


def test_name_servers_of_an_event_loop_are_refused():
    with pytest.raises(ConfigError, match="give its addresses instead"):
        RouteClientSync(client.NameServers("127.0.0.1:1"))
