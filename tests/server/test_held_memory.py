"""What clients make a worker hold is bounded, and whoever holds the most goes; the others see nothing of it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import struct
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from mqregistry.protocol.bodies.register import measuring
from mqregistry.protocol.bodies.register_compressed import BodySize
from mqregistry.protocol.codes import RequestCode
from mqregistry.protocol.command import Command, encode_command
from mqregistry.protocol.slices import finish
from mqregistry.server.net.connections import ConnectionLimits
from mqregistry.server.net.held_memory import STALLED_S, HeldMemory
from mqregistry.server.requests.decoding_turns import LARGE_AT_ONCE, DecodingTurns
from mqregistry.server.requests.registration import register_broker
from mqregistry.store.route_writes import NO_CHANNEL, HeartbeatReply

from .harness import Broker
from .pair import Pair

MB = 1 << 20


class Client:
    def __init__(self, held: HeldMemory, host: str) -> None:
        self.held, self.host = held, host
        self.dropped = ""
        self.stalled = 0

    def stalled_bytes(self, before_s: float) -> int:
        return self.stalled if before_s == 7.0 - STALLED_S else 0

    def drop(self, reason: str) -> None:
        self.dropped = reason
        self.held.holds(self, 0)


def test_the_largest_holder_goes_then_the_one_that_has_held_longest() -> None:
    held = HeldMemory(160)
    clients = [Client(held, f"10.0.0.{n}") for n in range(12)]
    for client, size in zip(clients, (10, 15, 15, *[14] * 8), strict=False):
        held.holds(client, size)
    held.holds(clients[11], 12)
    assert [n for n, client in enumerate(clients) if client.dropped] == [1]
    assert held.bytes == 149
    held.holds(clients[11], 0)
    held.holds(clients[0], 0)
    assert held.bytes == 127


def test_an_address_with_more_than_its_share_goes_before_a_larger_holder_of_another() -> None:
    held = HeldMemory(160)
    other, hogs = Client(held, "10.0.0.1"), [Client(held, "10.0.0.2") for _ in range(15)]
    held.holds(other, 19)
    for hog in hogs:
        held.holds(hog, 10)
    assert not other.dropped
    assert [n for n, hog in enumerate(hogs) if hog.dropped] == [0, 1]


def test_whoever_alone_holds_too_much_goes() -> None:
    held = HeldMemory(160)
    client = Client(held, "10.0.0.1")
    held.holds(client, 161)
    assert "it holds 161" in client.dropped
    assert held.bytes == 0


def stalling(held: HeldMemory, host: str, *sizes: int) -> list[Client]:
    clients = [Client(held, host) for _ in sizes]
    for client, size in zip(clients, sizes, strict=True):
        held.holds(client, size)
        client.stalled = size
    return clients


def dropped(*clients: Client) -> list[bool]:
    return [bool(client.dropped) for client in clients]


def test_an_address_keeps_no_more_than_its_share_of_what_makes_no_progress() -> None:
    """B5: the largest goes, of those of one size the oldest, until the rest is an eighth."""
    held = HeldMemory(80)
    theirs = stalling(held, "10.0.0.2", 2, 5, 5, 3)
    (working,) = stalling(held, "10.0.0.2", 4)
    working.stalled = 0
    other = stalling(held, "10.0.0.1", 5, 5)
    held.tick(6.9)
    assert not any(dropped(*theirs, working, *other))
    held.tick(7.0)
    assert dropped(*theirs, working, *other) == [False, True, True, False, False, False, False]
    assert "10.0.0.2 holds 19 bytes" in theirs[1].dropped
    assert "its share is 10; it holds 5, and made no progress for 3 s" in theirs[1].dropped


def test_within_its_share_an_address_is_left_alone_unless_others_of_it_wait() -> None:
    held = HeldMemory(80)
    theirs = stalling(held, "10.0.0.2", 4, 6)
    (other,) = stalling(held, "10.0.0.1", 6)
    held.tick(7.0)
    assert not any(dropped(*theirs, other))
    held.tick(7.0, ["10.0.0.2"])
    assert dropped(*theirs, other) == [True, True, False]


def test_a_gateway_of_unlimited_addresses_has_no_share_and_a_network_of_ipv6_has_one() -> None:
    def account_of(host: str) -> str:
        return host.partition("::")[0]

    held = HeldMemory(80, account_of, lambda host: "" if host.startswith("127.") else account_of(host))
    (gateway,) = stalling(held, "127.0.0.1", 20)
    theirs = [*stalling(held, "2001:db8::1", 6), *stalling(held, "2001:db8::2", 5)]
    held.tick(7.0)
    assert dropped(gateway, *theirs) == [False, True, False]


# over the wire


def unfinished(
    front_end: Any, host: str, size: int = 15 * MB, frame_bytes: int = 16_000_000, wait_s: float = 10.0
) -> socket.socket:
    """A connection that holds so many bytes of a frame, that is not read any more, or that was dropped meanwhile."""
    connection = socket.create_connection(("127.0.0.1", front_end.port), 10, (host, 0))
    connection.settimeout(wait_s)
    try:
        # of a registration: other requests are refused by their headers
        head = encode_command(Command(code=103, opaque=1, version=479, ext_fields={}))[4:]
        connection.sendall(struct.pack(">i", frame_bytes) + head)
        connection.sendall(b"x" * (size - len(head)))
    except OSError:
        pass
    return connection


def test_unfinished_frames_that_fill_the_memory_keep_no_broker_out(front_end: Any) -> None:
    mine = unfinished(front_end, "127.0.0.1", 15 * MB + 1)  # larger than each of theirs
    theirs = [unfinished(front_end, "127.0.0.2") for _ in range(20)]
    try:
        front_end.wait_until(lambda: "bytes of unfinished frames" in front_end.log, "some of theirs were dropped")
        theirs += [unfinished(front_end, "127.0.0.2", 40_000) for _ in range(40)]  # and no gap is left
        with front_end.client() as client:
            for _ in range(3):  # they are read meanwhile
                assert client.route("topic").code == 17
        for n in range(10):
            broker = Broker(f"broker-{n}", f"127.0.0.1:{11000 + n}", topics=[f"topic-{i}" for i in range(1000)])
            with front_end.client() as client:
                assert client.register(broker).code == 0
        assert "dropping the connection of 127.0.0.1" not in front_end.log
        mine.settimeout(0.2)
        with pytest.raises(TimeoutError):
            mine.recv(1)
    finally:
        for connection in (mine, *theirs):
            connection.close()
    front_end.wait_until(lambda: front_end.poll().get("held_bytes", -1) == 0, "all was given back")


def test_an_address_holds_no_more_than_its_share(front_end_with: Any) -> None:
    """B5: 17 unfinished frames of one address; the others, and others of the same address, get in."""
    front_end = front_end_with(unlimited_addresses="")
    # two of them leave no room for a third, however small it is
    theirs = [
        unfinished(front_end, "127.0.0.2", frame_bytes=16_777_208, wait_s=10.0 if n < 2 else 0.1) for n in range(17)
    ]
    most = 0
    try:
        front_end.wait_until(lambda: front_end.poll().get("held_bytes", 0) > 30 * MB, "they hold what they may")
        for host, brokers in (("127.0.0.1", 5), ("127.0.0.2", 2)):
            for n in range(brokers):  # of 290 kB, and so they take turns
                broker = Broker(f"{host}-{n}", f"{host}:{11000 + n}", topics=[f"topic-{i}" for i in range(2000)])
                with front_end.client(timeout_s=30, host=host) as client:
                    assert client.register(broker).code == 0
                most = max(most, front_end.poll().get("held_bytes", 0))
        assert "made no progress for 3 s" in front_end.log
        assert "all clients together" not in front_end.log
        assert "dropping the connection of 127.0.0.1:" not in front_end.log
        assert most < 32 * MB + 17 * 300_000
    finally:
        for connection in theirs:
            connection.close()
    front_end.wait_until(lambda: front_end.poll().get("held_bytes", -1) == 0, "all was given back")


def test_a_fleet_behind_one_address_is_delayed_but_not_dropped(front_end_with: Any) -> None:
    """200 brokers of 290 kB at once, nearly twice the share: each is taken in."""
    front_end = front_end_with(unlimited_addresses="")
    ext, body = Broker(topics=[f"topic-{i}" for i in range(2000)]).registration()
    clients = [front_end.client(timeout_s=60, host="127.0.0.2") for _ in range(200)]
    try:
        with ThreadPoolExecutor(len(clients)) as threads:

            def register(n: int) -> int:
                return clients[n].request(103, ext | {"brokerName": f"b{n}", "brokerAddr": f"a:{n}"}, body).code

            assert set(threads.map(register, range(len(clients)))) == {0}
        assert "dropping" not in front_end.log
    finally:
        for client in clients:
            client.close()


def test_what_many_brokers_send_in_one_moment_waits_in_their_sockets(front_end: Any) -> None:
    """1,000 registrations of 60 kB are there when it looks: of new connections, then of connections that it knows."""
    process, many = psutil.Process(front_end.process.pid), 1000
    ext, body = Broker(topics=[f"topic-{i}" for i in range(380)]).registration()
    assert 58_000 < len(body) < 62_000, "it fits into a socket"
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(front_end.client(timeout_s=60)) for _ in range(many)]
        assert clients[0].request(103, ext, body).code == 0
        for _ in range(2):
            before = process.memory_info().rss
            front_end.kill(signal.SIGSTOP)
            for client in clients:
                client.send(103, ext, body)
            with open(f"/proc/{process.pid}/clear_refs", "w") as refs:
                refs.write("5")
            front_end.kill(signal.SIGCONT)
            assert {client.receive().code for client in clients} == {0}
            grown = _most_memory(process) - before
            print(f"grown by {grown / MB:.1f} MB")
            assert grown < many * len(body) // 3


def test_answers_that_nobody_reads_are_counted(front_end: Any) -> None:
    with front_end.client() as broker, front_end.client() as client:
        broker.register(Broker(topics=[f"a-rather-long-topic-name-{i:04}" for i in range(2000)]))
        for _ in range(200):
            client.send(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        front_end.wait_until(lambda: front_end.poll().get("held_bytes", -1) > 1 * MB, "they are counted")
        for _ in range(200):
            assert client.receive() is not None
        front_end.wait_until(lambda: front_end.poll().get("held_bytes", -1) == 0, "they were read")


def _length(part: bytes) -> bytes:
    return struct.pack(">i", len(part)) + part


def _bad_last_line(topics: int, name_bytes: int) -> bytes:
    """A compressed body of so many topics, the last of which is none: all are decoded, and nothing is stored."""
    lines = [_length(b"%06d" % n + b"x" * (name_bytes - 6) + b" 4 4 6 SINGLE_TAG") for n in range(topics - 1)]
    return zlib.compress(_length(b"{}") + struct.pack(">i", topics) + b"".join(lines) + _length(b"none"))


def _most_memory(process: psutil.Process) -> int:
    with open(f"/proc/{process.pid}/status") as status:
        (line,) = (line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(lambda: _bad_last_line(100_000, 255), id="long names"),
        pytest.param(lambda: _bad_last_line(100_000, 6), id="short names"),
        pytest.param(
            lambda: (
                b'{"topicConfigSerializeWrapper":{"topicConfigTable":{%b,"":{}}}}'
                % b",".join(b'"%06x":{"perm":6}' % n for n in range(99_000))
            ),
            id="JSON",
        ),
    ],
)
def test_decoded_registrations_take_no_more_than_64_mib_at_a_time(front_end: Any, body: Callable[[], bytes]) -> None:
    """B4: eight at once, each of which is decoded whole and then refused."""
    process, sent = psutil.Process(front_end.process.pid), body()
    with front_end.client() as client:
        client.register(Broker())
    before = process.memory_info().rss
    with open(f"/proc/{process.pid}/clear_refs", "w") as refs:
        refs.write("5")  # so that the peak is that of this test
    clients = [front_end.client(timeout_s=60) for _ in range(8)]
    try:
        for n, client in enumerate(clients):
            ext, _ = Broker(f"broker-{n}", f"127.0.0.1:{11000 + n}").registration()
            client.send(RequestCode.REGISTER_BROKER, ext | {"bodyCrc32": "0"}, sent)
        for client in clients:
            assert client.receive().code == 1
    finally:
        for client in clients:
            client.close()
    grown = _most_memory(process) - before - 8 * len(sent)  # the frames themselves are counted elsewhere
    print(f"grown by {grown / MB:.1f} MB")
    assert grown < 64 * MB


# within the process


class StuckStore:
    """Redis that does not answer until it is freed."""

    def __init__(self) -> None:
        self.free = asyncio.Event()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def later(*_: object, **__: object) -> int:
            await self.free.wait()
            return 0

        return later


async def test_headers_of_waiting_requests_count_and_a_dropped_connection_lets_go_of_all() -> None:
    pair = Pair()
    side = pair.quick
    side.connections.limits = ConnectionLimits(queued_writes=1000)
    side.connections.held = HeldMemory(3 * MB)
    side.front_end.routes = StuckStore()  # type: ignore[assignment]
    ext = {f"field-{n}": "" for n in range(1000)} | {"brokerName": "broker-a"}
    frame = encode_command(Command(code=205, opaque=1, version=479, ext_fields=ext))
    for _ in range(10):
        side.connection.data_received(frame)
    await asyncio.sleep(0)
    assert side.connections.held.bytes > 10 * 200_000
    assert side.front_end.in_flight == 10
    for _ in range(10):
        side.connection.data_received(frame)
    assert side.wire.closed
    assert side.connections.held.bytes == side.front_end.in_flight == 0
    side.connection.connection_lost(None)
    await asyncio.sleep(0)
    assert side.connections.held.bytes == side.front_end.in_flight == 0


async def test_a_connection_with_large_requests_in_the_queue_is_not_read() -> None:
    """A writer that sends one large request behind the other does not fill the share of its address."""
    side = Pair().quick
    side.connections.limits = ConnectionLimits(queued_bytes=MB)
    side.front_end.routes = may_answer = StuckStore()  # type: ignore[assignment]
    reading: list[bool] = []
    side.wire.pause_reading = lambda: reading.append(False)  # type: ignore[method-assign]
    side.wire.resume_reading = lambda: reading.append(True)  # type: ignore[method-assign]
    body = b'{"queueDatas":[{"brokerName":"b"}]' + b" " * (MB // 2 - 100) + b"}"
    frame = encode_command(Command(code=217, opaque=1, version=479, ext_fields={"topic": "t"}, body=body))
    side.connection.data_received(frame)
    assert reading == []
    side.connection.data_received(frame)
    assert reading == [False]
    may_answer.free.set()
    async with asyncio.timeout(60):
        while side.front_end.in_flight:  # noqa: ASYNC110 (two answers, each within some steps)
            await asyncio.sleep(0)
    assert reading == [False, True]


async def test_a_frame_is_whole_in_time_or_the_connection_is_dropped() -> None:
    pair = Pair()
    side = pair.quick
    side.connections.limits = ConnectionLimits(frame_s=0.3)
    ticks = asyncio.create_task(side.connections.tick())
    side.connection.data_received(struct.pack(">i", 100) + b"x" * 10)
    try:
        async with asyncio.timeout(60):
            while not side.wire.closed:
                await asyncio.sleep(0.05)
                side.connection.active_at_s = side.connections.clock_s
    finally:
        ticks.cancel()


async def test_a_frame_that_goes_on_is_never_hung_up_on() -> None:
    """Slow, and others of its address wait: it is as a registration behind a NAT, or on a starved machine."""
    side = Pair().quick
    connections, connection = side.connections, side.connection
    connection.data_received(struct.pack(">i", 10 << 20) + b"x" * 1000)
    for _ in range(40):
        connections.clock_s += 2.5
        connection.data_received(b"x" * (64 << 10))
        assert connection.stalled_bytes(connections.clock_s - STALLED_S) == 0
    for _ in range(3):  # some bytes now and then are no progress
        connections.clock_s += 2.5
        connection.data_received(b"x" * 1000)
    assert connection.stalled_bytes(connections.clock_s - STALLED_S) > 0


async def test_the_time_in_which_this_worker_stands_still_is_nobodys() -> None:
    connections = Pair().quick.connections
    began_s = connections.clock_s
    now = asyncio.get_running_loop().time()
    for late_s in (0.5, 60, 0.5):
        now += late_s
        connections._turn_clock(now)
    assert 1.9 <= connections.clock_s - began_s <= 2.1


async def test_the_time_in_which_the_server_does_not_read_is_not_the_clients() -> None:
    side = Pair().quick
    side.connection.data_received(struct.pack(">i", 100) + b"x" * 10)
    assert side.connection.frame_since_s == side.connections.clock_s
    side.connection.pause_writing()
    side.connections.clock_s += 100
    assert side.connection.frame_since_s == float("inf")
    side.connection.resume_writing()
    assert side.connection.frame_since_s == side.connections.clock_s


async def test_a_huge_registration_is_decoded_beside_no_other_large_one() -> None:
    turns, going = DecodingTurns(), []
    may_go = {name: asyncio.Event() for name in ("one", "huge", "other huge", "small")}

    async def decode(name: str, size: int) -> None:
        async with turns.turn(BodySize(size, 0)):
            going.append(name)
            await may_go[name].wait()
            going.remove(name)

    tasks = [
        asyncio.create_task(decode(*one))
        for one in (("one", MB), ("huge", 60 * MB), ("other huge", 60 * MB), ("small", 100))
    ]
    assert LARGE_AT_ONCE == 2

    async def until(expected: list[str]) -> None:
        async with asyncio.timeout(60):
            while sorted(going) != sorted(expected):  # noqa: ASYNC110 (three changes, each within some steps)
                await asyncio.sleep(0)

    await until(["one", "small"])
    may_go["one"].set()
    await until(["huge", "small"])
    may_go["huge"].set()
    await until(["other huge", "small"])
    may_go["other huge"].set()
    may_go["small"].set()
    await asyncio.gather(*tasks)
    assert going == []


async def test_others_are_served_after_each_slice_of_many_works() -> None:
    turns, done = DecodingTurns(), []

    def slices(name: int):
        for _ in range(5):
            done.append(name)
            yield
        done.append(name)

    works = asyncio.gather(*(turns.work("", slices(name)) for name in range(8)))
    seen = 0
    async with asyncio.timeout(60):
        while not works.done():
            await asyncio.sleep(0)
            assert len(done) - seen <= 1, "several slices without a pause"
            seen = len(done)
    assert sorted(done) == sorted(6 * [*range(8)])
    assert done[:8] == [*range(8)], "each has its turn"


def measured(body: bytes, *, compressed: bool) -> BodySize:
    return finish(measuring(body, compressed=compressed))


FRONT = struct.pack(">i", 2) + b"{}" + struct.pack(">i", 77)


@pytest.mark.parametrize(
    ("body", "compressed", "expected"),
    [
        (b'{"a":{}}', False, (8, 2)),
        (zlib.compress(b"\0" * 10_000_000), False, (10_000_000, 0)),
        (zlib.compress(FRONT + b"x" * 9_999_990), True, (10_000_000, 77)),
        (zlib.compress(FRONT + b"x" * 99_990)[:-4], True, (100_000, 77)),
        (zlib.compress(struct.pack(">i", -1) * 2), True, (8, 0)),
        (zlib.compress(b"\x7f" * 100), True, (100, 0)),
        (b"no zlib", True, (0, 0)),
        (b"", True, (0, 0)),
    ],
)
def test_the_size_of_a_text_is_that_after_inflating(body: bytes, compressed: bool, expected: tuple[int, int]) -> None:
    assert measured(body, compressed=compressed) == expected


def test_the_size_of_a_bomb_is_looked_at_only_as_far_as_it_may_go() -> None:
    body = zlib.compress(b"\0" * (200 * MB), 9)
    assert 64 * MB < measured(body, compressed=True).text_bytes < 66 * MB


async def test_a_compressed_registration_takes_the_turn_of_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    context: Any = Pair().quick.front_end
    asked: list[BodySize] = []

    async def heartbeat(*_: object) -> HeartbeatReply:
        return HeartbeatReply(False, 0)

    def turn(size: BodySize) -> None:
        asked.append(size)
        raise LookupError

    context.routes = SimpleNamespace(heartbeat=heartbeat)
    monkeypatch.setattr(context.decoding_turns, "turn", turn)
    ext, _ = Broker().registration()
    body = zlib.compress(b" " * MB)
    command = Command(code=103, opaque=1, version=479, ext_fields=ext | {"bodyCrc32": "0"}, body=body)
    peer: Any = SimpleNamespace(channel=NO_CHANNEL, host="10.0.0.1", caller=None)
    with pytest.raises(LookupError):
        await register_broker(context, command, 1, peer)
    assert [one.text_bytes for one in asked] == [MB]


async def test_waiting_for_a_turn_may_end_for_many_at_the_moment_in_which_another_turn_ends() -> None:
    """As when connections go away together: the room is free again, and nobody is given a turn that he left."""
    turns, size, end = DecodingTurns(), BodySize(60 * MB, 0), asyncio.Event()  # each takes all of the room

    async def hold() -> None:
        async with turns.turn(size):
            await end.wait()

    first, *waiting = tasks = [asyncio.create_task(hold()) for _ in range(6)]
    await asyncio.sleep(0)
    end.set()  # the first one ends before those that wait are told that they need not
    for task in waiting:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert first.exception() is None
    assert all(task.cancelled() for task in waiting)
    async with asyncio.timeout(60), turns.turn(size) as waited:
        assert not waited
