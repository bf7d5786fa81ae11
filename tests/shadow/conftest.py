"""A fake Java NameServer, a fake one of ours, and a shadow between clients and them."""

from __future__ import annotations

import contextlib

import pytest

from mqregistry.client.addresses import NameServerAddress
from mqregistry.client.connection import PeerConnection
from mqregistry.shadow.counts import Counts
from mqregistry.shadow.relay import Relay
from mqregistry.shadow.repeats import Repeats
from mqregistry.shadow.tap import Tap
from tests.client.fake_name_server import FakeNameServer
from tests.compare.java_like import answer_as_java, tables_of


class Bed:
    """``java`` and ``ours`` are fakes with ``java_tables`` and ``our_tables``; ``relay`` listens."""

    def __init__(self):
        self.counts = Counts()
        self.java, self.ours = FakeNameServer(), FakeNameServer()
        self.java_tables = answer_as_java(self.java, tables_of())
        self.our_tables = answer_as_java(self.ours, tables_of())
        self.relay = self.repeats = None

    @contextlib.asynccontextmanager
    async def open(self, *, lasting_ms=200, most_per_s=10_000, timeout_s=20.0, tap=None):
        async with self.java, self.ours, contextlib.AsyncExitStack() as stack:
            java, ours = (NameServerAddress("127.0.0.1", each.port, "") for each in (self.java, self.ours))
            self.repeats = await stack.enter_async_context(
                Repeats(java, ours, self.counts, lasting_ms=lasting_ms, most_per_s=most_per_s, timeout_s=timeout_s)
            )
            tap = tap or (lambda: Tap(self.counts, self.repeats.offer))
            self.relay = await stack.enter_async_context(Relay("127.0.0.1", 0, "127.0.0.1", self.java.port, tap))
            yield self

    async def client(self, **options):
        return await PeerConnection.connect("127.0.0.1", self.relay.port, **options)

    @property
    def repeated(self):
        return sum(self.counts.repeated.values())


@pytest.fixture
def bed():
    return Bed()
