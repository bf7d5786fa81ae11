"""The garbage collector looks at everything once at most, and nothing that it does not see stays in memory."""

from __future__ import annotations

import gc
import signal
import sys
from typing import Any

import pytest

from mqregistry.protocol.codes import RequestCode
from mqregistry.protocol.watch import ROUTE_WATCH, WatchRequest
from mqregistry.server.process import memory as collector

from .harness import Broker, FrontEnd


@pytest.mark.parametrize(("long_s", "is_looked_at"), [(0.0, False), (1e9, True)])
def test_what_is_alive_after_a_long_look_is_not_looked_at_again(
    monkeypatch: Any, long_s: float, is_looked_at: bool
) -> None:
    monkeypatch.setattr(collector, "LONG_S", long_s)
    callbacks = list(gc.callbacks)
    alive: list[Any] = [[]]
    collector.freeze_after_long_collections()
    try:
        gc.collect()
        assert any(one is alive for one in gc.get_objects()) == is_looked_at
    finally:
        gc.callbacks[:] = callbacks
        gc.unfreeze()


def test_closed_connections_leave_no_cycles(redis_url: str, namespace: str) -> None:
    """Of brokers, and of clients that looked something up, were told that it is missing, and watch a route."""
    front_end = FrontEnd(redis_url, namespace, command=(sys.executable, "-m", "tests.server.collected"))
    try:
        clients = [front_end.client() for _ in range(100)]
        for number, client in enumerate(clients[:50]):
            assert client.register(Broker(f"broker-{number}", f"127.0.0.1:{number}", topics=["t", "u"])).code == 0
        for client in clients:
            assert [client.route(topic).code for topic in ("t", "none", "t")] == [0, 17, 0]
            assert client.request(RequestCode.GET_KV_CONFIG, {"namespace": "n", "key": "k"}).code == 22
            client.send(ROUTE_WATCH, *WatchRequest(frozenset("t"), 60_000, None).encode())
        front_end.kill(signal.SIGUSR1)
        front_end.wait_until(lambda: "frozen" in front_end.log, "nothing is looked at")
        for client in clients:
            client.close()
        front_end.wait_until(lambda: front_end.poll().get("connections") == 0, "all are closed")
        front_end.kill(signal.SIGUSR2)
        front_end.wait_until(lambda: "garbage: " in front_end.log, "it looked")
        assert "garbage: []." in front_end.log
    finally:
        front_end.close()
