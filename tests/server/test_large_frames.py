"""Large frames take turns: a few are read, the others stay in their sockets until one is answered, lost or slow."""

from __future__ import annotations

import asyncio
import math
import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from mqregistry.protocol.command import Command, encode_command
from mqregistry.server.net.connection import ServerConnection
from mqregistry.server.net.connections import ConnectionLimits
from mqregistry.server.net.large_frames import LARGE_FRAME_BYTES, LargeFrames

from .pair import Pair, Wire, java

AT_ONCE = 2
PATIENCE_S = 1.0
SIZE = 100


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Turns:
    """The turnstile alone, with senders that are numbers."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.frames = LargeFrames(self.clock, at_once=AT_ONCE, turn_bytes=AT_ONCE * SIZE, patience_s=PATIENCE_S)
        self.going: list[int] = []

    def enter(self, *senders: int) -> None:
        for sender in senders:
            if self.frames.enter(sender, lambda sender=sender: self.going.append(sender), "", SIZE):  # type: ignore[misc]
                self.going.append(sender)


@pytest.fixture
def turns() -> Turns:
    return Turns()


def test_a_few_at_once_then_one_for_each_that_leaves(turns: Turns) -> None:
    turns.enter(1, 2, 3, 4, 5)
    assert (turns.going, len(turns.frames._waiting)) == ([1, 2], 3)
    turns.frames.leave(2)
    assert turns.going == [1, 2, 3]
    turns.frames.leave(4)  # it hung up while it waited
    assert turns.going == [1, 2, 3]
    turns.frames.leave(1)
    turns.frames.leave(3)
    turns.frames.leave(5)
    assert (turns.going, len(turns.frames._waiting)) == ([1, 2, 3, 5], 0)


def test_leaving_without_having_entered_frees_nothing(turns: Turns) -> None:
    turns.enter(1, 2, 3)
    turns.frames.leave(9)
    turns.frames.leave(1)
    turns.frames.leave(1)
    turns.enter(4)
    assert turns.going == [1, 2, 3]


def test_who_takes_too_long_loses_the_turn_and_who_waits_too_long_gets_one(turns: Turns) -> None:
    turns.enter(1, 2)
    turns.clock.now_s += PATIENCE_S / 2
    turns.enter(3, 4, 5, 6, 7)
    turns.frames.tick()
    assert turns.going == [1, 2]
    turns.clock.now_s += PATIENCE_S / 2
    turns.frames.tick()
    assert turns.going == [1, 2, 3, 4]
    turns.clock.now_s += PATIENCE_S / 2
    turns.frames.tick()
    assert turns.going == [1, 2, 3, 4, 5, 6, 7]
    turns.frames.leave(1)  # later, and once more: nothing
    assert len(turns.frames._waiting) == 0


def test_more_have_a_turn_when_their_frames_are_smaller() -> None:
    frames = LargeFrames(Clock(), at_once=2, turn_bytes=200)
    going: list[int] = []
    for sender, size in enumerate((1000, 40, 60, 10)):  # no frame counts more than half
        if frames.enter(sender, lambda sender=sender: going.append(sender), "", size):  # type: ignore[misc]
            going.append(sender)
    assert (going, len(frames._waiting)) == ([0, 1, 2], 1)
    frames.leave(2)
    assert going == [0, 1, 2, 3]
    assert not frames.enter(4, lambda: going.append(4), "", 60)
    assert not frames.enter(5, lambda: going.append(5), "", 1), "it does not go past one that waits"
    frames.leave(1)
    assert going == [0, 1, 2, 3, 4, 5]


def test_who_waits_too_long_waits_on_without_memory_for_its_frame() -> None:
    clock, room = Clock(), [250]
    frames = LargeFrames(clock, at_once=1, turn_bytes=100, patience_s=PATIENCE_S, room_bytes=lambda: room[0])
    going: list[int] = []
    for sender in range(6):
        frames.enter(sender, lambda sender=sender: going.append(sender), "", 100)  # type: ignore[misc]
    clock.now_s += PATIENCE_S
    frames.tick()
    assert going == [1, 2, 3], "1 has the turn of 0, which took too long; and there is room for two"
    room[0] = 0
    clock.now_s += PATIENCE_S
    frames.tick()
    assert going == [1, 2, 3, 4], "turns go on"


def test_the_frames_of_one_address_have_room_in_its_share_together() -> None:
    clock = Clock()
    frames = LargeFrames(clock, at_once=AT_ONCE, turn_bytes=AT_ONCE, patience_s=PATIENCE_S, share_bytes=100)
    going: list[str] = []

    def enter(sender: str, size: int) -> None:
        if frames.enter(sender, lambda: going.append(sender), sender.rstrip("0123456789"), size):
            going.append(sender)

    enter("a1", 90)
    enter("a2", 60)
    enter("a3", 70)
    enter("a4", 12)
    enter("a5", 15)
    assert (going, frames.crowded, len(frames._waiting)) == (["a1"], ["a"], 0)
    clock.now_s += 2 * PATIENCE_S
    frames.tick()
    assert going == ["a1"], "patience is with those of other addresses"
    enter("b1", 60)
    enter("a6", 10)
    assert (going, len(frames._waiting)) == (["a1", "b1", "a6"], 0)
    frames.leave("a4")  # it hung up while it waited
    assert going == ["a1", "b1", "a6"]
    frames.leave("a1")
    assert (going, len(frames._waiting)) == (["a1", "b1", "a6"], 2), "a5, because it is small, then a2"
    frames.leave("b1")
    frames.leave("a6")
    assert (going.pop(2), going, frames.crowded) == ("a6", ["a1", "b1", "a5", "a2"], ["a"])
    frames.leave("a5")
    assert frames.crowded == ["a"]
    frames.leave("a2")
    assert (going.pop(), frames.crowded) == ("a3", [])
    frames.leave("a3")
    del going[:]
    enter("c1", 200)  # alone it may be larger
    enter("c2", 1)
    enter("d1", 1)
    enter("d2", 1)
    assert (going, frames.crowded, len(frames._waiting)) == (["c1", "d1"], ["c"], 1)
    frames.leave("c1")
    assert (going, frames.crowded, len(frames._waiting)) == (["c1", "d1", "d2"], [], 1)
    for sender in ("d1", "c2", "d2", "d2"):
        frames.leave(sender)
    assert (going[3:], frames._bytes, frames._with_address) == (["c2"], {}, {})


def test_an_address_without_a_share_is_not_bound() -> None:
    frames = LargeFrames(Clock(), at_once=AT_ONCE, share_bytes=100)
    assert frames.enter(1, lambda: None, "", 90)
    assert frames.enter(2, lambda: None, "", 90)


def test_who_goes_on_may_leave_at_once() -> None:
    frames = LargeFrames(Clock(), at_once=1, turn_bytes=1)
    gone: list[int] = []

    def leaves(sender: int) -> None:
        gone.append(sender)
        frames.leave(sender)

    assert frames.enter(0, lambda: None, "", 1)
    for sender in range(1, 50):
        frames.enter(sender, lambda sender=sender: leaves(sender), "", 1)  # type: ignore[misc]
    frames.leave(0)
    assert (gone, len(frames._waiting)) == (list(range(1, 50)), 0)


class Paused(Wire):
    """A transport that knows whether it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.paused = False

    def pause_reading(self) -> None:
        assert not self.paused
        self.paused = True

    def resume_reading(self) -> None:
        assert self.paused
        self.paused = False


def four_peers() -> list[Any]:
    """Four connections of one worker, two of which may send a large frame at a time."""
    connections = Pair().slow.connections
    connections.large_frames = LargeFrames(lambda: connections.clock_s, at_once=AT_ONCE, turn_bytes=LARGE_FRAME_BYTES)
    made = []
    for _ in range(2 * AT_ONCE):
        wire, connection = Paused(), ServerConnection(connections)
        connection.connection_made(wire)  # type: ignore[arg-type]
        made.append(SimpleNamespace(wire=wire, connection=connection, connections=connections))
    return made


# A write; here it fails, for there is no store, and that is an answer too.
LARGE = encode_command(Command(code=103, opaque=7, body=bytes(LARGE_FRAME_BYTES)))
HALF = LARGE_FRAME_BYTES // 2


async def until(probe: Callable[[], object]) -> None:
    for _ in range(1_000):  # turns of the loop; nothing here waits for anybody else
        if probe():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to be")


async def until_answered(peer: Any) -> None:
    await until(lambda: peer.wire.written)


async def test_others_are_not_read_until_one_is_answered() -> None:
    peers = four_peers()
    for peer in peers:
        peer.connection.data_received(LARGE[:HALF])
    assert [peer.wire.paused for peer in peers] == [False, False, True, True]
    peers[0].connection.data_received(LARGE[HALF:])
    assert [peer.wire.paused for peer in peers] == [False, False, True, True]
    await until_answered(peers[0])
    assert [peer.wire.paused for peer in peers] == [False, False, False, True]
    for peer in (peers[2], peers[1], peers[3]):
        assert not peer.wire.paused
        peer.connection.data_received(LARGE[HALF:])
        await until_answered(peer)
    assert not any(peer.wire.paused for peer in peers)


async def test_a_lost_connection_gives_its_turn_back() -> None:
    peers = four_peers()
    for peer in peers:
        peer.connection.data_received(LARGE[:HALF])
    peers[2].connection.connection_lost(None)  # it waited: nobody's turn
    assert peers[3].wire.paused
    peers[0].connection.connection_lost(None)
    assert not peers[3].wire.paused


async def test_one_lost_while_its_registration_is_worked_on_gives_its_turn_back() -> None:
    peers = four_peers()
    for peer in peers:
        peer.connection.data_received(LARGE[:HALF])
    peers[0].connection.data_received(LARGE[HALF:])
    peers[0].connection.connection_lost(None)
    assert [peer.wire.paused for peer in peers[1:]] == [False, False, True]
    await until(lambda: not peers[0].connections.context.in_flight)
    assert peers[3].wire.paused  # and not twice


async def test_a_client_that_does_not_read_its_answers_stays_paused_when_its_turn_comes() -> None:
    peers = four_peers()
    for peer in peers:
        peer.connection.data_received(LARGE[:HALF])
    peers[2].connection.pause_writing()
    peers[0].connection.connection_lost(None)
    assert peers[2].wire.paused
    peers[2].connection.resume_writing()
    assert not peers[2].wire.paused
    peers[3].connection.pause_writing()
    peers[3].connection.resume_writing()
    assert peers[3].wire.paused  # its turn has not come


async def test_small_frames_go_past() -> None:
    peers = four_peers()
    for peer in peers[:-1]:
        peer.connection.data_received(LARGE[:HALF])
    peers[3].connection.data_received(java("nothing", 5))
    assert peers[3].wire.written
    assert not peers[3].wire.paused


async def test_a_large_frame_that_asks_for_something_gives_its_turn_back() -> None:
    peers = four_peers()
    large = encode_command(Command(code=206, opaque=7, body=bytes(LARGE_FRAME_BYTES)))
    for peer in peers:
        peer.connection.data_received(large[:HALF])
    for peer in peers:
        assert not peer.wire.paused
        peer.connection.data_received(large[HALF:])
        assert peer.wire.written


async def test_slow_senders_hold_up_nobody_for_long() -> None:
    peers = four_peers()
    for peer in peers:
        peer.connection.data_received(LARGE[:HALF])
    connections = peers[0].connections
    connections.clock_s += 10
    connections.large_frames.tick()
    assert not any(peer.wire.paused for peer in peers)
    for peer in peers:
        peer.connection.data_received(LARGE[HALF:])
        await until_answered(peer)


async def test_a_connection_that_waits_for_its_turn_is_not_idle(monkeypatch):
    """The server reads nothing of it until then, and that may take longer than the limit for idle connections."""
    monkeypatch.setattr("mqregistry.server.net.connections._TICK_S", 0.01)
    side = Pair().quick
    connections, waiting = side.connections, side.connection
    connections.limits = ConnectionLimits(idle_s=0.2, frame_s=1000)
    for sender in range(20):
        connections.large_frames.enter(sender, lambda: None, "", 3 << 20)
    ticks = asyncio.create_task(connections.tick())
    try:
        monkeypatch.setattr(connections.large_frames, "tick", lambda: None)  # those have their turn for long
        waiting.data_received(struct.pack(">i", 1 << 20) + b"x" * 1000)
        assert waiting.frame_since_s == math.inf
        since_s = connections.clock_s
        async with asyncio.timeout(60):
            while connections.clock_s < since_s + 1:  # noqa: ASYNC110 (five times the limit)
                await asyncio.sleep(0.01)
        assert not side.wire.closed
        for sender in range(20):
            connections.large_frames.leave(sender)
        assert waiting.frame_since_s == waiting.active_at_s >= since_s + 1, "idle from then on, not from its last byte"
    finally:
        ticks.cancel()
