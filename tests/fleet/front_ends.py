"""Front ends asked in turn, and what stands in their Redis."""

from __future__ import annotations

import json
import re
import struct
import time
from typing import Any

import msgspec
import redis

from mqregistry.events.changes import Parts, decode_change
from mqregistry.tables.tables import Tables
from tests.differential import wire
from tests.differential.normal import CLOCK_WINDOW_MS
from tests.differential.run import Server
from tests.differential.wire import Answer

# Everything that may leave an event.
WRITES = frozenset({100, 102, 103, 104, 205, 216, 217, 318, 327})
# Answered by a script, not from the tables in memory.
SIGNS_OF_LIFE = frozenset({322, 904})
# Where the stamps are kept; no sequence uses this KV namespace.
STAMPS = "stamps of the test"
FENCE_ASKS = 3
# The longest wait for an effect, which comes in milliseconds where the machine has nothing else to do.
EFFECT_S = 60.0
FENCE = re.compile(r"fence\d+")


class Spread:
    """Connections to every front end that act as one: each request goes to the next front end in turn.

    A request is sent when its front end has applied the last write, and not before; if the front ends are `eager`, only
    requests that are answered from the tables wait. Every write is followed, on its own connection, by a *stamp*: a KV
    key with a higher value each time. Who can read the last stamp has applied the write before it, for all changes of a
    namespace have one order. Nothing here sleeps.
    """

    def __init__(self, front_ends: FrontEnds) -> None:
        self.front_ends = front_ends
        self.parts = [wire.Connection(port) for port in front_ends.ports]
        self.asked = self.parts[0]
        self.stamped: int | None = None  # the opaque of a stamp whose answer is still to come

    def send(self, frame: bytes) -> None:
        self.asked = self.parts[self.front_ends.next_turn(len(self.parts))]
        code, oneway = code_of(frame)
        if not self.front_ends.eager or code not in WRITES | SIGNS_OF_LIFE:
            self.front_ends.catch_up(self.asked)
        self.asked.send(frame)
        self.stamped = self.front_ends.stamp(self.asked) if code in WRITES else None
        if oneway:
            self._see_stamp()

    def receive(self, opaque: int) -> Answer | None:
        answer = self.asked.receive(opaque)
        self._see_stamp()
        return answer

    def _see_stamp(self) -> None:
        """The stamp is answered, too: the next one, at another front end, is a later one."""
        if self.stamped is not None:
            self.asked.receive(self.stamped)
            self.stamped = None

    def hang_up(self) -> None:
        for part in self.parts:
            self.front_ends.catch_up(part)
            part.hang_up()

    @property
    def socket(self) -> Spread:
        return self

    def close(self) -> None:
        for part in self.parts:
            part.socket.close()


def code_of(frame: bytes) -> tuple[int, bool]:
    """The request code of a frame that `wire.encode` made, and whether it is oneway."""
    mark = int.from_bytes(frame[4:8], "big")
    if mark >> 24:
        code, flag = struct.unpack_from(">h7xi", frame, 8)
    else:
        header = json.loads(frame[8 : 8 + (mark & 0xFF_FFFF)])
        code, flag = header["code"], header["flag"]
    return code, bool(flag & wire.ONEWAY)


class FrontEnds(Server):
    """Any number of front ends on one namespace, in the place of one server."""

    def __init__(
        self, name: str, ports: list[int], redis_url: str, namespace: str, *, eager: bool = False, as_48: bool = False
    ) -> None:
        self.ports = ports
        self.eager = eager
        self.redis = redis.Redis.from_url(redis_url, protocol=2)
        self.prefix = f"mq:{{{namespace}}}:"
        self.stamps = 0
        self.pinned: int | None = None  # the front end to ask; None: the next in turn
        self._turn = 0
        self._stamp_opaque = 1 << 24
        # connection (of one front end) by the channel that it has in Redis; learned by whoever registers over it
        self.channels: dict[bytes, wire.Connection] = {}
        self.replayed = Tables()
        self._parts = Parts()
        self._last_id = b"0-0"
        super().__init__(name, ports[0], as_48=as_48)

    def connect(self) -> Any:
        return Spread(self)

    def next_turn(self, of: int) -> int:
        self._turn += 1
        return self._turn % of if self.pinned is None else self.pinned

    # stamps

    def stamp(self, connection: wire.Connection) -> int:
        """Send one behind what was sent last; the opaque of its answer."""
        self.stamps += 1
        self._stamp_opaque += 1
        ext = {"namespace": STAMPS, "key": "k", "value": str(self.stamps)}
        connection.send(wire.encode(100, self._stamp_opaque, ext))
        return self._stamp_opaque

    def catch_up(self, connection: wire.Connection) -> None:
        """Return once the front end at the other end has applied the last write."""
        deadline = time.monotonic() + EFFECT_S
        while self.stamps:
            self._stamp_opaque += 1
            connection.send(wire.encode(101, self._stamp_opaque, {"namespace": STAMPS, "key": "k"}))
            answer = connection.receive(self._stamp_opaque)
            assert answer is not None, f"{self.name} hung up"
            if int((answer.ext or {}).get("value", 0)) >= self.stamps:
                return
            assert time.monotonic() < deadline, f"{self.name} has not applied stamp {self.stamps} in {EFFECT_S} s"

    # closes

    def fence_unregister(self) -> None:
        """Nothing is queued here."""

    def fence_close(self) -> None:
        """Return once every front end has told Redis of the connections that closed before.

        A front end tells in order: a broker that registered at each of them, and whose connections then close, is gone
        when all have told. The one front end is asked as often as three are, so that both streams have equal events.
        """
        self._fences += 1
        name = f"fence{self._fences}"
        ext = {"clusterName": "fence", "brokerName": name, "brokerAddr": f"{name}:1", "brokerId": "0"}
        connection = self.connect()
        for _ in range(FENCE_ASKS):
            self.ask(103, {**ext, "haServerAddr": ""}, connection=connection)
        connection.hang_up()
        deadline = time.monotonic() + EFFECT_S
        while self.redis.exists(f"{self.prefix}broker:{name}"):
            assert time.monotonic() < deadline, f"{self.name} did not remove {name} within {EFFECT_S} s"
        # behind the removal, which no front end need have applied yet
        self.control.parts[0].receive(self.stamp(self.control.parts[0]))

    # channels

    def learn(self, line: Spread, cluster: str | None, addr: str | None) -> None:
        """After a request over `line`: an entry that nobody knows yet is that of the connection asked."""
        self.catch_up(line.asked)
        for value in self.redis.hvals(f"{self.prefix}channels:{cluster}|{addr}"):
            self.channels.setdefault(value, line.asked)

    def would_go(self, line: Spread) -> set[str]:
        """Which brokers have no other connection than this line's: they go when it closes."""
        mine = {value for value, connection in self.channels.items() if connection in line.parts}
        start = len(self.prefix) + len("channels:")
        return {
            key[start:].decode()
            for key in self.redis.scan_iter(f"{self.prefix}channels:*", count=1000)
            if (values := set(self.redis.hvals(key))) and values <= mine
        }

    # Redis

    def follow(self) -> list[dict[str, Any]]:
        """The events since this was last asked, which are also applied to `replayed`."""
        entries = self.redis.xrange(f"{self.prefix}changes", min=b"(" + self._last_id)
        events = []
        for entry_id, fields in entries:
            self._last_id = entry_id
            for change in self._parts.add(decode_change(fields[b"e"])):
                self.replayed.apply(change)
            event = msgspec.json.decode(fields[b"e"])
            # a fence may be set up before or after the close that it waits for is told
            if event.get("kv_namespace") == STAMPS or FENCE.fullmatch(event.get("broker_name", "")):
                continue
            if "live" in event:
                event["live"]["timestamp"] = without_clock(event["live"]["timestamp"])
            assert event["by"]["peer"], event
            apart = ("seq", "ms", "rev", "at", "by", "chain", "after")  # of each namespace its own
            events.append({key: value for key, value in event.items() if key not in apart})
        return events

    def live(self) -> dict[str, dict[str, str]]:
        """Live info of every broker, without what differs by its nature."""
        found = {}
        for key in self.redis.scan_iter(f"{self.prefix}live:*", count=1000):
            fields = {field.decode(): value.decode() for field, value in self.redis.hgetall(key).items()}
            for name in ("update_ms", "period_ms", "n", "rev", "closed_at"):
                fields.pop(name, None)
            if "timestamp" in fields:
                fields["timestamp"] = without_clock(fields["timestamp"])
            found[key.decode()[len(self.prefix) :]] = fields
        return found

    def close(self) -> None:
        self.control.close()
        self.redis.close()


def without_clock(timestamp: int | str) -> str:
    """A data version that the server made up holds its clock; generated timestamps are small."""
    return "(the clock)" if abs(int(timestamp) - time.time() * 1000) < CLOCK_WINDOW_MS else str(timestamp)


def plain(tables: Tables) -> dict[str, Any]:
    """The contents, without the stamps, and without the revisions of rows, which count what happened before."""
    rows = {name: msgspec.structs.replace(row, rev=0) for name, row in tables.brokers.items()}
    kv = {namespace: table for namespace, table in tables.kv.items() if namespace != STAMPS}
    return tables.contents() | {"brokers": rows, "kv": kv}
