"""One client connection: bytes in, frames out of them, reads answered at once, writes one after the other.

Every whole frame of one read is answered in one write. Bounds: see :class:`Limits`; what goes over one is
closed with a log line, and the process lives on.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from registry.errors import RegistryError, RemoteProtocolError, StoreUnavailable
from registry.protocol.codes import FLAG_ONEWAY, FLAG_RESPONSE, RequestCode, ResponseCode
from registry.protocol.command import Command, decode_command
from registry.protocol.frame import FrameReader, is_frame
from registry.protocol.watch import ROUTE_WATCH, WatchAnswer
from registry.server.front_end import FrontEnd
from registry.server.known import KnownLookups
from registry.server.large_frames import LARGE_FRAME_BYTES, LargeFrames
from registry.server.reads import reads
from registry.server.writes import Write, writes

logger = logging.getLogger(__name__)

# From this version on clients and brokers know code 1500 and go to another name server (semantics: > V5_3_1).
_KNOWS_GO_AWAY = 476
# Answers of one read are written in pieces of about this size, so that a client that does not read shows early.
_WRITE_BYTES = 1 << 20
_LOOKUP = int(RequestCode.GET_ROUTEINFO_BY_TOPIC)


class Limits(NamedTuple):
    """What one worker grants its clients.

    held_bytes: partial frames and waiting writes of all connections together; queued_writes: of one connection
    before its reading pauses.
    """

    idle_s: float = 120.0
    slow_client_s: float = 30.0
    connections: int = 20_000
    in_flight: int = 10_000
    held_bytes: int = 256 << 20
    queued_writes: int = 64
    write_buffer_bytes: int = 4 << 20


class Connections:
    """Every connection of this worker, a coarse clock, and the bounds that concern them all."""

    def __init__(self, front_end: FrontEnd, limits: Limits) -> None:
        self.front_end = front_end
        self.limits = limits
        behaviour = front_end.behaviour
        self.reads = reads(behaviour)
        self.writes = writes(behaviour)
        self.known = KnownLookups(front_end)
        self.decode: Callable[[bytes], Command | None] = decode_command
        if behaviour.keeps_empty_binary_fields or behaviour.closes_on_empty_header:
            self.decode = partial(
                decode_command,
                keep_empty_fields=behaviour.keeps_empty_binary_fields,
                refuse_empty_header=behaviour.closes_on_empty_header,
            )
        self.all: set[Connection] = set()
        self.clock_s = asyncio.get_running_loop().time()
        self.held_bytes = 0
        self.large_frames = LargeFrames(lambda: self.clock_s)

    def __call__(self) -> Connection:
        """A protocol factory, as ``loop.create_server`` wants it."""
        return Connection(self)

    async def tick(self) -> None:
        """Advance the clock; close what idles or does not read. Runs for ever."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(0.5)
            self.clock_s = now = loop.time()
            self.front_end.view.watches.expire(now)
            self.large_frames.tick()
            idle_before, slow_before = now - self.limits.idle_s, now - self.limits.slow_client_s
            for connection in list(self.all):
                if connection.paused_at_s is not None and connection.paused_at_s < slow_before:
                    self.front_end.counters.slow_clients += 1
                    connection.abort(f"it has not read its answers for {self.limits.slow_client_s:g} s")
                elif connection.active_at_s < idle_before:
                    connection.close(f"idle for {self.limits.idle_s:g} s")

    @property
    def busy(self) -> bool:
        """Whether any request is still being worked on."""
        return self.front_end.in_flight > 0


class Connection(asyncio.Protocol):
    """The protocol object of one connection."""

    __slots__ = (
        "_backlog", "_closing", "_connections", "_front_end", "_held", "_large", "_lost", "_reader", "_reading_paused",
        "_transport", "_waits", "_writer", "_writes", "active_at_s", "address", "channel", "paused_at_s",
    )  # fmt: skip

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._front_end = connections.front_end
        self._reader = FrameReader()
        self._transport: Any = None
        self._backlog: list[bytes] = []
        self._writes: deque[tuple[Write, Command, int]] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._held = 0
        self._closing = self._lost = self._reading_paused = False
        self._large = self._waits = False
        self.channel = self._front_end.channels.new_channel()
        self.address = "?"
        self.active_at_s = connections.clock_s
        self.paused_at_s: float | None = None

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Taken in, or turned away when there are too many."""
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.address = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer or "?")
        connections = self._connections
        if len(connections.all) >= connections.limits.connections:
            self.abort(f"more than {connections.limits.connections} connections")
            return
        connections.all.add(self)
        self._transport.set_write_buffer_limits(high=connections.limits.write_buffer_bytes)

    def data_received(self, data: bytes) -> None:
        """Answer every whole frame; keep the rest."""
        if self._closing:
            return
        connections = self._connections
        self.active_at_s = connections.clock_s
        if not self._reader.pending and not self._backlog:
            answer = connections.known.answer(data)
            if answer is not None:
                self._transport.write(answer)
                return
        self._receive(data)

    def _receive(self, data: bytes) -> None:
        reader = self._reader
        out: list[bytes] = []
        if not reader.pending and not self._backlog:
            if is_frame(data):  # one, and whole, as most come
                self._answer([data[4:]], out)
                return
            data = data[self._connections.known.answer_several(data, out, _WRITE_BYTES) :]
        frames = reader.feed(data)
        if reader.pending_bytes or self._held:
            self._hold(reader.pending_bytes)
        if self._backlog:
            self._backlog += frames
        elif frames or out:
            self._answer(frames, out)
        if self._large or reader.announced_bytes >= LARGE_FRAME_BYTES:
            self._look_at_large_frame()
        if reader.error is not None and not self._backlog:
            self.refuse(reader.error)

    def pause_writing(self) -> None:
        """The client does not read: neither do we."""
        if self.paused_at_s is None:
            self.paused_at_s = self._connections.clock_s
        self._pause_reading()

    def resume_writing(self) -> None:
        """It reads again."""
        self.paused_at_s = None
        self.active_at_s = self._connections.clock_s
        frames, self._backlog = self._backlog, []
        if frames:
            self._answer(frames, [])
        if self._reader.error is not None and not self._backlog:
            self.refuse(self._reader.error)
        self._resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """Gone; its brokers lose their channel once its last write is done."""
        self._lost = self._closing = True
        self._connections.all.discard(self)
        self._front_end.view.watches.gone(self)
        self._backlog.clear()
        self._reader = FrameReader()
        self._look_at_large_frame()
        self._hold(0)
        self._transport = None  # nothing is sent any more; under TLS, the two hold each other
        if self._writer is None:
            self._front_end.channels.closed(self)

    def use_transport(self, transport: Any) -> None:
        """From now on answers go out here: TLS has been put between this and the socket."""
        self._transport = transport

    # closing

    @property
    def closing(self) -> bool:
        """Whether it is closed or about to be."""
        return self._closing

    def close(self, reason: str) -> None:
        """Hang up after what is written has gone out."""
        if not self._closing:
            logger.info("closing the connection of %s: %s", self.address, reason)
            self._closing = True
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Hang up now."""
        if not self._lost:
            logger.warning("dropping the connection of %s: %s", self.address, reason)
            self._closing = True
            self._transport.abort()

    def refuse(self, error: RemoteProtocolError) -> None:
        """Hang up, and count it: what came is not what this server speaks."""
        if not self._closing:
            self._front_end.counters.bad_frames += 1
            self.close(f"bad frame: {error}")

    # requests

    def _answer(self, frames: list[bytes], out: list[bytes]) -> None:
        """Answer these frames; ``out`` has what was answered already."""
        out_bytes = sum(map(len, out)) if out else 0
        connections = self._connections
        for number, frame in enumerate(frames):
            try:
                command = connections.decode(frame)
            except RemoteProtocolError as error:
                self._send(out)
                self.refuse(error)
                return
            if command is None or command.flag & FLAG_RESPONSE:
                continue
            answer = self._read_or_queue(command)
            if answer is not None:
                if command.code == _LOOKUP:
                    connections.known.learn(frame, command)
                out.append(answer)
                out_bytes += len(answer)
                if out_bytes >= _WRITE_BYTES:
                    self._send(out)
                    out, out_bytes = [], 0
                    if self.paused_at_s is not None:
                        self._backlog = frames[number + 1 :] + self._backlog
                        return
        self._send(out)

    def _read_or_queue(self, command: Command) -> bytes | None:
        front_end = self._front_end
        front_end.counters.requests += 1
        opaque = command.opaque
        if opaque is None:
            opaque = front_end.next_opaque()
        if front_end.draining and command.version >= _KNOWS_GO_AWAY:
            return None if command.flag & FLAG_ONEWAY else front_end.replies.go_away.reply(opaque)
        read = self._connections.reads.get(command.code)
        if read is not None:
            answer: bytes | None
            try:
                answer = read(front_end, command, opaque)
            except RegistryError as error:
                answer = front_end.replies.system_error(opaque, str(error))
            except Exception as error:  # a defect of ours must not take the other clients' answers along
                logger.exception("request %d of %s failed", command.code, self.address)
                answer = front_end.replies.system_error(opaque, f"{type(error).__name__}: {error}")
            if answer is not None:
                return None if command.flag & FLAG_ONEWAY else answer
        write = self._connections.writes.get(command.code)
        if write is not None:
            if front_end.in_flight < self._connections.limits.in_flight:
                self._queue(write, command, opaque)
                return None
            answer = front_end.replies.overloaded.reply(opaque)
        elif command.code == ROUTE_WATCH and not command.flag & FLAG_ONEWAY:
            return self._watch(command, opaque)
        else:
            answer = front_end.replies.reply(
                opaque, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported"
            )
        return None if command.flag & FLAG_ONEWAY else answer

    def _watch(self, command: Command, opaque: int) -> bytes | None:
        try:
            self._front_end.view.watches.watch(self, command, opaque, self._connections.clock_s)
        except RemoteProtocolError as error:
            return self._front_end.replies.system_error(opaque, str(error))
        return None

    def answer_watch(self, opaque: int, answer: WatchAnswer | None) -> None:
        """Answer a held request; None: go away. Nothing when the connection is gone."""
        if self._closing:
            return
        replies = self._front_end.replies
        if answer is None:
            self._send([replies.go_away.reply(opaque)])
        else:
            ext_fields, body = answer.encode()
            self._send([replies.reply(opaque, ext_fields=ext_fields, body=body)])

    def _send(self, out: list[bytes]) -> None:
        if out and not self._lost:
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    # writes: in the order in which they came, one at a time

    def _queue(self, write: Write, command: Command, opaque: int) -> None:
        self._front_end.in_flight += 1
        self._writes.append((write, command, opaque))
        if command.body:
            self._hold(self._reader.pending_bytes)
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._run_writes())
        if len(self._writes) >= self._connections.limits.queued_writes:
            self._pause_reading()

    async def _run_writes(self) -> None:
        writes = self._writes
        try:
            while writes:
                write, command, opaque = writes[0]
                answer = await self._run_write(write, command, opaque)
                writes.popleft()
                self._front_end.in_flight -= 1
                if not command.flag & FLAG_ONEWAY:
                    self._send([answer])
                if command.body:
                    self._hold(self._reader.pending_bytes)
                    self._look_at_large_frame()
                if self._reading_paused and len(writes) < self._connections.limits.queued_writes // 2:
                    self._resume_reading()
        finally:
            self._front_end.in_flight -= len(writes)
            writes.clear()
            self._writer = None
            if self._lost:
                self._front_end.channels.closed(self)

    async def _run_write(self, write: Write, command: Command, opaque: int) -> bytes:
        try:
            return await write(self._front_end, command, opaque, self)
        except RegistryError as error:
            # Known failures with a text of their own: bad input, Redis away.
            if command.code == 103:
                self._front_end.counters.registrations_error += 1
            # Redis away is said once, by the follower; not again for each broker that tries meanwhile
            away = isinstance(error, StoreUnavailable) and self._front_end.health.away
            logger.log(
                logging.DEBUG if away else logging.WARNING, "request %d of %s: %s", command.code, self.address, error
            )
            return self._front_end.replies.system_error(opaque, str(error))
        except Exception as error:  # a defect of ours: the broker gets an error and tries again
            if command.code == 103:
                self._front_end.counters.registrations_error += 1
            logger.exception("request %d of %s failed", command.code, self.address)
            return self._front_end.replies.system_error(opaque, f"{type(error).__name__}: {error}")

    # bounds

    def _hold(self, partial_bytes: int) -> None:
        """Account for what this connection makes us keep: its unfinished frame and its waiting writes."""
        held = partial_bytes + sum(len(command.body) for _, command, _ in self._writes)
        connections = self._connections
        connections.held_bytes += held - self._held
        self._held = held
        if connections.held_bytes > connections.limits.held_bytes and held and not self._closing:
            self.abort(f"all connections together hold more than {connections.limits.held_bytes} unfinished bytes")

    def _look_at_large_frame(self) -> None:
        """Take a turn when one has begun, and give it back when none is being received or worked on."""
        begun = self._reader.announced_bytes >= LARGE_FRAME_BYTES
        if begun and not self._large and not self._closing:
            self._large = True
            if not self._connections.large_frames.enter(self, self._turn_has_come):
                self._waits = True
                self._pause_reading()
        elif self._large and not begun and (self._lost or not self._writes):
            self._large = self._waits = False
            self._connections.large_frames.leave(self)

    def _turn_has_come(self) -> None:
        self._waits = False
        self._resume_reading()

    def _pause_reading(self) -> None:
        if not self._reading_paused and not self._closing:
            self._reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._reading_paused and self.paused_at_s is None and not self._waits and not self._closing:
            self._reading_paused = False
            self._transport.resume_reading()
