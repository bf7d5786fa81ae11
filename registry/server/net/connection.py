"""One client connection: it splits bytes into frames, answers reads at once, and runs writes one after the other.

All whole frames of one read of the socket are answered in one write to it. A connection that exceeds one of the
:class:`~mqregistry.server.net.connections.ConnectionLimits` is closed with a log line.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from typing import Any

from ...errors import RemoteProtocolError
from ...protocol.codes import FLAG_ONEWAY, FLAG_RESPONSE
from ...protocol.command import Command
from ...protocol.frame import FrameReader, is_frame
from ...protocol.watch import ROUTE_WATCH, WatchAnswer
from ..counting.counters import Closed
from ..requests.oversized_frames import oversized_reply
from ..requests.writes import Write
from .answering import TablesAwaited
from .connection_interface import OpenConnection
from .connections import Connections
from .held_memory import request_bytes
from .large_frames import LARGE_FRAME_BYTES
from .run_write import WriteQueue
from .small_reads import LargeFrameSender, switch_protocol

# Answers of one read are written in pieces of about this size: so the worker notices early when a client does not read.
_WRITE_BYTES = 1 << 20
# The most unread answers of a client whose address holds more memory than its share; then its requests are not read.
_SMALL_BUFFER_BYTES = 64 << 10
_PROGRESS_BYTES = 64 << 10  # when a frame has grown by this, its time limit begins again


class ServerConnection(OpenConnection):
    """The protocol object of one connection, as asyncio calls it."""

    __slots__ = (
        "_backlog", "_connections", "_context", "_is_waiting", "_large", "_progress_bytes", "_reader",
        "_reading_paused", "_sends_large", "_skip_bytes", "_waits", "_watched_bytes", "_writes", "closing",
    )  # fmt: skip

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._context = context = connections.context
        super().__init__(context, connections.known_at_first, connections.clock_s)
        self._reader = FrameReader()
        self._backlog: list[bytes] = []
        self._writes = WriteQueue(self._context)
        self._watched_bytes = self._progress_bytes = 0
        self.closing = self._reading_paused = False
        self._large = self._waits = self._sends_large = self._is_waiting = False
        self._skip_bytes = 0  # the rest of a too long frame; without skipping it the client would not get the answer

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register with the worker's connections, or close this one when there are too many."""
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.address = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer or "?")
        self.host = self.address.rpartition(":")[0]
        self.source = peer[0] if isinstance(peer, tuple) else ""
        self._transport.set_write_buffer_limits(high=self._connections.limits.write_buffer_bytes)
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Answer every whole frame, and keep what is left for the next read."""
        if self.closing:
            self._skip(len(data))
            return
        connections = self._connections
        self.active_at_s = connections.clock_s
        if not self._reader.pending and not self._backlog:
            answer = self.known.answer(data, self.asked.note)
            if answer is not None:
                self._transport.write(answer)
                return
        self._receive(data)

    def _receive(self, data: bytes) -> None:
        reader, connections = self._reader, self._connections
        out: list[bytes] = []
        if not reader.pending and not self._backlog:
            if is_frame(data):  # one whole frame: the usual case
                self._answer([data[4:]], out)
                return
            data = data[self.known.answer_several(data, out, _WRITE_BYTES, self.asked.note) :]
        frames = reader.feed(data)
        if reader.pending or self.frame_since_s is not None:
            if not reader.pending:
                self.frame_since_s = None
            elif frames or self.frame_since_s is None or reader.pending_bytes >= self._progress_bytes:
                self.frame_since_s = connections.clock_s
                self._progress_bytes = reader.pending_bytes + _PROGRESS_BYTES
            self._hold()
            if self.closing:
                return
        if self._backlog:
            self._backlog += frames
        elif frames or out:
            self._answer(frames, out)
        # While the tables are read only lookups are answered. They seldom come in pieces: this frame waits.
        if reader.pending and connections.answering.early is not None:
            self._wait_for(connections.answering.early.wait, [])
            return
        if self._large or reader.announced_bytes >= LARGE_FRAME_BYTES:
            self._look_at_head()
            self._look_at_large_frame()
        if reader.error is not None and not self._backlog:
            self.refuse(reader.error)

    def pause_writing(self) -> None:
        """The client does not read its answers: stop reading its requests."""
        if self.paused_at_s is None:
            self.paused_at_s = self._connections.clock_s
        self._pause_reading()
        # later, not inside the write that called this method: measure() may close the connection
        asyncio.get_running_loop().call_soon(self.measure)

    def resume_writing(self) -> None:
        """The client reads again: answer the waiting requests, and resume reading."""
        self.paused_at_s = None
        self.active_at_s = self._connections.clock_s
        self._transport.set_write_buffer_limits(high=self._connections.limits.write_buffer_bytes)
        if not self._is_waiting:
            self.go_on()

    def go_on(self) -> None:
        """Answer the waiting requests, and resume reading."""
        self._is_waiting = False
        frames, self._backlog = self._backlog, []
        if frames and not self.closing:
            self._answer(frames, [])
        if self._reader.error is not None and not self._backlog:
            self.refuse(self._reader.error)
        self._resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the connection; its brokers lose their channel once its last write is done."""
        self.lost = self.closing = self.hung_up = True
        self.was_reset = error is not None
        self._connections.gone(self)
        self._context.watches.gone(self)
        self._backlog.clear()
        self._reader = FrameReader()
        self._look_at_large_frame()
        self.unread_bytes = 0
        self._hold()
        # These may refer back to this connection, and a cycle might never be freed (process/memory.py).
        self._transport = self.verified = self.looked = None
        self.known = self._connections.known_at_first
        if self._writes.task is None:
            self._context.channels.closed(self)

    def measure(self) -> None:
        """Measure the bytes of answers that the client has not read."""
        unread_bytes = self._transport.get_write_buffer_size() if not self.lost else 0
        if self._backlog:
            unread_bytes += sum(map(len, self._backlog))
        if unread_bytes != self.unread_bytes:
            self.unread_bytes = unread_bytes
            self._hold()

    def stalled_bytes(self, before_s: float) -> int:
        """Bytes of a frame that began before this time, and unread answers of a client that was silent since then."""
        unfinished = self._reader.pending_bytes if (self.frame_since_s or math.inf) < before_s else 0
        return unfinished + (self.unread_bytes if self.active_at_s < before_s else 0)

    def use_transport(self, transport: Any) -> None:
        """Write answers to this transport from now on: TLS has been put between the connection and the socket."""
        self._transport = transport

    def close(self, closed_as: Closed, reason: str) -> None:
        """Close the connection after all written bytes are sent; the reason is logged."""
        if not self.closing:
            self._closes(closed_as, "closing", reason, logging.INFO)
            self._transport.close()

    def abort(self, closed_as: Closed, reason: str, level: int = logging.WARNING) -> None:
        """Close the connection at once; the reason is logged."""
        if not self.lost:
            self._closes(self.closed_as if self.closing else closed_as, "dropping", reason, level)
            self._transport.abort()

    def drop(self, reason: str) -> None:
        """Close the connection at once, and free all that it holds, also its writes in progress."""
        self.abort(Closed.MEMORY, reason)
        self._reader = FrameReader()
        self._backlog.clear()
        self._context.watches.gone(self)
        self.unread_bytes = 0
        self._writes.drop(self)
        self._hold()

    def refuse(self, error: RemoteProtocolError, closed_as: Closed = Closed.BAD_FRAME) -> None:
        """Close the connection because of bytes that are no frame, and count this."""
        if self.closing:
            return
        self._context.counters.bad_frames += 1
        length, came = self._reader.too_long or (0, b"")
        answer = oversized_reply(self._context.replies, length, came) if self._reader.error is error else None
        if answer is None:
            self.close(closed_as, f"bad frame: {error}")
            return
        self._closes(closed_as, "closing", f"bad frame: {error}", logging.INFO)
        self._skip_bytes = length - len(came)
        self.frame_since_s = self._connections.clock_s
        self._send([answer])

    def _closes(self, closed_as: Closed, how: str, reason: str, level: int) -> None:
        self.closing, self.closed_as = True, closed_as
        told = f"{how} the connection of {self.address}: {reason}"
        self._context.rates.tell(f"connections closed, {closed_as}", self.host, told, level)

    def _skip(self, count: int) -> None:
        """Skip the bytes of a frame that is too long, and close the connection after the last one."""
        if self._skip_bytes:
            self._skip_bytes = max(0, self._skip_bytes - count)
            if not self._skip_bytes:
                self._transport.close()

    def _answer(self, frames: list[bytes], out: list[bytes]) -> None:
        """Answer these frames, and send the answers after those in ``out``."""
        out_bytes = sum(map(len, out)) if out else 0
        connections = self._connections
        slice_ = connections.loop_time.begin(self.host)
        for number, frame in enumerate(frames):
            if slice_ is not None and slice_.is_over():
                self._send(out)
                self._wait_for(connections.loop_time.wait, frames[number:])
                return
            try:
                command = connections.decode(frame)
            except RemoteProtocolError as error:
                self._send(out)
                self.refuse(error)
                return
            if command.flag & FLAG_RESPONSE:
                continue
            try:
                answer = connections.answering.answer(self, command, frame)
            except TablesAwaited as awaited:
                self._wait_for(awaited.early.wait, frames[number:])
                break
            if answer is not None and not command.flag & FLAG_ONEWAY:
                out.append(answer)
                out_bytes += len(answer)
                if out_bytes >= _WRITE_BYTES:
                    self._send(out)
                    out, out_bytes = [], 0
                    if self.paused_at_s is not None:
                        self._backlog = frames[number + 1 :] + self._backlog
                        return
        self._send(out)
        if slice_ is not None:
            slice_.end()

    def _wait_for(self, wait: Callable[[ServerConnection], None], frames: list[bytes]) -> None:
        """Pause reading, and keep these frames until :meth:`go_on` is called; ``wait``: arranges this call."""
        self._backlog = frames + self._backlog
        if not self._is_waiting:
            self._is_waiting = True
            self._pause_reading()
            wait(self)
        self.measure()

    def hold_watch(self, size: int) -> None:
        """Account for the bytes that a held route watch takes; 0: none is held."""
        if size and not self._connections.held.has_room(self, size - self._watched_bytes):
            raise RemoteProtocolError(f"{self.host} holds as much as its share of the memory allows: poll instead")
        self._watched_bytes = size
        self._hold()

    def answer_watch(self, opaque: int, answer: WatchAnswer | None) -> None:
        """Answer a route watch that was held, unless the connection is gone; None: with GO_AWAY (1500)."""
        if self.closing:
            return
        replies = self._context.replies
        reply = replies.go_away.reply(opaque) if answer is None else replies.watched(opaque, answer)
        self._context.counters.answered(ROUTE_WATCH, reply)
        self._send([reply])

    def _send(self, out: list[bytes]) -> None:
        if out and not self.lost:
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))
            if self._transport.get_write_buffer_size():
                self.measure()
                if not self.lost and not self._connections.held.has_room(self, 0):
                    self._transport.set_write_buffer_limits(high=_SMALL_BUFFER_BYTES)

    def queue(self, write: Write, command: Command, opaque: int, frame_bytes: int) -> None:
        """Execute and answer a write after all earlier writes of this connection."""
        if self.closing:
            return
        self._writes.add(self, write, command, opaque, request_bytes(command, frame_bytes))
        self._hold()
        limits = self._connections.limits
        if len(self._writes) >= limits.queued_writes or self._writes.bytes >= limits.queued_bytes:
            self._pause_reading()

    def write_done(self, command: Command, answer: bytes) -> None:
        """Send the answer of a write; if reading was paused, resume it when few writes are left."""
        if not command.flag & FLAG_ONEWAY:
            self._send([answer])
        self._hold()
        if command.body:
            self._look_at_large_frame()
        limits = self._connections.limits
        few = len(self._writes) < limits.queued_writes // 2 and self._writes.bytes < limits.queued_bytes
        if self._reading_paused and few:
            self._resume_reading()

    def writes_done(self) -> None:
        """Called when no write is left, or when the connection was dropped while one was executed."""
        self._hold()
        if self.lost:
            self._context.channels.closed(self)

    def _hold(self) -> None:
        """Account for the memory that this connection takes; this may drop it or other connections."""
        size = self._reader.pending_bytes + self._writes.bytes + self._watched_bytes + self.unread_bytes
        self._connections.held.holds(self, size)

    def _look_at_head(self) -> None:
        """Refuse a large request if its header is a reason to, and skip the rest of the frame."""
        head = self._reader.head() if not self._backlog and not self.closing else None
        try:
            answer = self._connections.answering.of_head(self, head, self._reader.announced_bytes) if head else None
        except RemoteProtocolError as error:
            self.refuse(error)
            return
        if answer is not None:
            self._reader.skip()
            self._hold()
            self._send([answer] if answer else [])

    def _look_at_large_frame(self) -> None:
        """Ask for a turn when a large frame has begun; give it back when no large frame is received or executed."""
        begun = self._reader.announced_bytes >= LARGE_FRAME_BYTES
        if begun and not self._large and not self.closing:
            self._large = True
            if not (self._sends_large or self.is_tls or self._reading_paused):
                self._sends_large = True
                switch_protocol(self._transport, LargeFrameSender(self))
            account = self._context.rates.limited_account(self.host)
            size = self._reader.announced_bytes
            if not self._connections.large_frames.enter(self, self._turn_has_come, account, size):
                self._waits = True
                self._pause_reading()
        elif self._large and not begun and (self.lost or not self._writes):
            self._large = self._waits = False
            self._connections.large_frames.leave(self)

    @property
    def reads_much(self) -> bool:
        """Whether its large frame may be read now."""
        return self._large and not self._waits

    def _turn_has_come(self) -> None:
        self._waits = False
        self._resume_reading()

    def _pause_reading(self) -> None:
        if not self._reading_paused and not self.closing:
            self._reading_paused = True
            if self.frame_since_s is not None:
                self.frame_since_s = math.inf  # the client's time for the frame stops while we do not read
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        waits = self._waits or self._is_waiting or self.paused_at_s is not None
        if self._reading_paused and not waits and not self.closing:
            self._reading_paused = False
            self.active_at_s = self._connections.clock_s
            if self.frame_since_s is not None:
                self.frame_since_s = self.active_at_s
            self._transport.resume_reading()
