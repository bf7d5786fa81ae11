"""Two front ends that get the same changes and bytes: one knows lookups by their bytes, one never learns any.

What they write, whether they hang up, and what they count must be equal. No sockets, no Redis.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from mqregistry.behaviour import FIVE, Behaviour
from mqregistry.config.settings import Settings
from mqregistry.errors import StoreUnavailable
from mqregistry.model import BrokerRow, QueueData
from mqregistry.protocol.command import Command, encode_command
from mqregistry.server.counting.counters import Counters
from mqregistry.server.net.connection import ServerConnection
from mqregistry.server.net.connections import ConnectionLimits, Connections
from mqregistry.server.requests.context import RequestContext
from mqregistry.server.view.freshness import Freshness
from mqregistry.server.view.view import View
from mqregistry.tables.tables import Tables

# So many times as many generated examples; by hand.
TIMES = int(os.environ.get("MQREGISTRY_TEST_TIMES", "1"))
TOPICS = ("TopicA", "orders", "a,,b", 'quo"te', "back\\slash", "ü", '"opaque":7,', "x\x00y")


class Wire:
    """A transport that keeps what was written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        assert data
        self.written.append(data)

    def close(self) -> None:
        self.closed = True

    abort = close

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading

    def set_protocol(self, protocol: Any) -> None:
        pass

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else None

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int) -> None:
        pass


class RedisAway:
    """Stores that cannot do anything."""

    def __getattr__(self, name: str) -> Any:
        raise StoreUnavailable(f"Redis is away: {name}")


class Side:
    """A front end, and one connection to it."""

    def __init__(self, behaviour: Behaviour, options: Settings, *, knows: bool) -> None:
        self.view = view = View()
        view.freshness = Freshness.FRESH
        away: Any = RedisAway()
        channels: Any = SimpleNamespace(
            new_channel=object, closed=lambda connection: None, by=lambda connection, caller: None
        )
        self.front_end = RequestContext(options, view, away, away, channels, Counters(), away)
        self.connections = Connections(self.front_end, ConnectionLimits())
        if not knows:
            self.connections.known.learn = lambda frame, command: None  # type: ignore[method-assign]
        self.reconnect()

    def reconnect(self) -> None:
        self.wire = Wire()
        self.connection = ServerConnection(self.connections)
        self.connection.connection_made(self.wire)  # type: ignore[arg-type]

    @property
    def hits(self) -> int:
        return self.front_end.counters.lookups_known


class Pair:
    """Both sides."""

    def __init__(self, behaviour=FIVE, **options: Any) -> None:
        settings = Settings(compat=behaviour.compat, **options)
        self.quick, self.slow = (Side(behaviour, settings, knows=knows) for knows in (True, False))
        self.sides = (self.quick, self.slow)
        self.views = (self.quick.view, self.slow.view)

    def fill(self, topics: Iterable[str] = TOPICS) -> None:
        for view in self.views:
            fill(view.tables, topics)

    def reconnect(self) -> None:
        for side in self.sides:
            side.reconnect()

    def feed(self, data: bytes) -> bytes:
        """One read of a socket; what was answered."""
        answers = []
        for side in self.sides:
            before = len(side.wire.written)
            if data:
                side.connection.data_received(data)
            answers.append(b"".join(side.wire.written[before:]))
            assert len(side.wire.written) <= before + 1, "one write a read"
        assert answers[0] == answers[1]
        assert self.quick.wire.closed == self.slow.wire.closed
        assert self.quick.connection.closing == self.slow.connection.closing
        return answers[0]

    def check_counts(self) -> None:
        reports = [side.front_end.counters.report() for side in self.sides]
        assert reports[0] == reports[1]
        drained = [side.front_end.lookup_counts.drain() for side in self.sides]
        assert drained[0] == drained[1]

    def learn(self, frame: bytes) -> None:
        """Ask until it is known, if it ever will be."""
        for _ in range(4):
            self.feed(frame)


def fill(tables: Tables, topics: Iterable[str]) -> None:
    tables.brokers["broker-a"] = BrokerRow("c1", {0: "1.1.1.1:10911", 1: "1.1.1.2:10911"}, "z1", True)
    tables.brokers["broker-b"] = BrokerRow("c1", {1: "1.1.1.3:10911"}, "z2", True)
    tables.clusters["c1"] = {"broker-a", "broker-b"}
    for topic in topics:
        for name in ("broker-a", "broker-b"):
            tables.set_queue_data(topic, name, QueueData(8, 8, 6, 0))


def framed(header: bytes, body: bytes = b"", mark: int = 0) -> bytes:
    return struct.pack(">II", 4 + len(header) + len(body), mark << 24 | len(header)) + header + body


def java(topic="TopicA", opaque=1, version=479, **ext: str) -> bytes:
    return encode_command(Command(code=105, opaque=opaque, version=version, ext_fields={"topic": topic, **ext}))


# As clients write them, {} in place of the opaque and of the topic.
CLIENTS = {
    "java": b'{"code":105,"extFields":{"topic":"%b"},"flag":0,"language":"JAVA","opaque":%d,'
    b'"serializeTypeCurrentRPC":"JSON","version":479}',
    "java-4": b'{"code":105,"extFields":{"topic":"%b"},"flag":0,"language":"JAVA","opaque":%d,'
    b'"serializeTypeCurrentRPC":"JSON","version":373}',
    "cpp": b'{"code":105,"extFields":{"topic":"%b"},"flag":0,"language":"CPP","opaque":%d,"remark":"","version":325}\n',
    "standard-json": b'{"code":105,"extFields":{"acceptStandardJsonOnly":"true","topic":"%b"},"flag":0,'
    b'"language":"CPP","opaque":%d,"remark":"","version":325}',
    "signed": b'{"code":105,"extFields":{"AccessKey":"rocketmq2","SecurityToken":"sts","Signature":"LJ0f5c3eXQ/mVJrA=",'
    b'"topic":"%b"},"flag":0,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":479}',
}
OTHER_ORDER = {
    "go": b'{"code":105,"language":"GO","version":317,"opaque":%d,"flag":0,"remark":"","extFields":{"topic":"%b"}}',
    "node": b'{"code":105,"language":"NODE_JS","version":401,"opaque":%d,"flag":0,"extFields":{"topic":"%b"}}',
    "null-remark": b'{"code":105,"language":"RUST","version":405,"opaque":%d,"flag":0,"remark":null,'
    b'"extFields":{"topic":"%b"},"serializeTypeCurrentRPC":"JSON"}',
}


def request(client: str, topic: bytes, opaque: int) -> bytes:
    if client in CLIENTS:
        return framed(CLIENTS[client] % (topic, opaque))
    return framed(OTHER_ORDER[client] % (opaque, topic))
