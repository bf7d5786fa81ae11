"""Splits a byte stream into remoting frames.

A frame is a length word (int32, the bytes that follow it), a mark word (the serializer byte and the 24-bit
header length), the header and the body.
"""

from __future__ import annotations

import struct
from typing import Final

from ..errors import RemoteProtocolError

MAX_FRAME_BYTES: Final = 16 * 1024 * 1024
"""The longest frame that the Java server takes, length word included (frameMaxLength)."""

LENGTH_BYTES: Final = 4
_MARK_BYTES: Final = 4
_MAX_LENGTH: Final = MAX_FRAME_BYTES - LENGTH_BYTES
_LENGTH_WORD: Final = struct.Struct(">i")
# Shorter pieces of a frame are joined when they arrive: a list of single bytes takes forty times their memory.
_SMALL_BYTES: Final = 4096


def is_frame(data: bytes) -> bool:
    """Whether ``data`` is exactly one whole frame, including its length word."""
    size = len(data)
    return 2 * LENGTH_BYTES <= size <= MAX_FRAME_BYTES and _LENGTH_WORD.unpack_from(data)[0] == size - LENGTH_BYTES


class FrameReader:
    """Collects the bytes that a connection receives, and returns whole frames.

    An invalid frame length ends the stream: ``feed`` returns the frames before it and sets ``error``, and each later
    ``feed`` raises this error. A caller answers the returned frames, then checks ``error``, and closes the connection.

    Cost: every byte of a frame is copied once; twice if it arrived in pieces below 4 KiB.
    """

    __slots__ = ("_head_given", "_skip", "announced_bytes", "error", "pending", "pending_bytes", "too_long")

    def __init__(self) -> None:
        self.error: RemoteProtocolError | None = None
        """Why the stream ended, or None; its ``closes`` is true."""
        self.too_long: tuple[int, bytes] | None = None
        """The length of a frame that was too long and ended the stream, and its bytes that had come."""
        self.pending: list[bytes | bytearray] = []
        """The pieces of the unfinished frame, length word first; empty when there is none. Callers only read it."""
        self.pending_bytes = 0
        """The number of bytes in ``pending``."""
        self.announced_bytes = 0
        """Size of the unfinished frame, length word included; 0 while its length word is incomplete."""
        self._head_given = False
        self._skip = 0  # bytes of a skipped frame that are still to come

    def head(self) -> bytes | None:
        """Mark word and header of the unfinished frame; None: they are incomplete, or an earlier call returned them."""
        if self._head_given or self.pending_bytes < LENGTH_BYTES + _MARK_BYTES:
            return None
        first = b"".join(self.pending[:2]) if len(self.pending[0]) < 2 * LENGTH_BYTES else self.pending[0]
        size = 2 * LENGTH_BYTES + int.from_bytes(first[LENGTH_BYTES + 1 : 2 * LENGTH_BYTES], "big")
        if size > self.pending_bytes or size >= self.announced_bytes:
            return None
        self._head_given = True
        return b"".join(self.pending)[LENGTH_BYTES:size]

    def skip(self) -> None:
        """Skip the unfinished frame: drop the bytes that came, and the bytes that are still to come."""
        self._skip = self.announced_bytes - self.pending_bytes
        self._forget()
        self.pending = [b""]  # not empty, because the frame is still unfinished

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes of the stream.

        Args:
            data: any number of bytes, cut anywhere.

        Returns:
            the frames that are complete now, in order, each without its length word: it begins with the mark word and
            has at least 4 bytes.

        Raises:
            RemoteProtocolError: the stream had ended with ``error`` before this call.
        Source: LengthFieldBasedFrameDecoder as NettyDecoder sets it up; the limits are measured.
        """
        if self.error is not None:
            raise self.error
        frames: list[bytes] = []
        at = self._finish_pending(data, frames) if self.pending else 0
        end = len(data)
        while self.error is None and end - at >= LENGTH_BYTES:
            (length,) = _LENGTH_WORD.unpack_from(data, at)
            stop = at + LENGTH_BYTES + length
            if not _MARK_BYTES <= length <= _MAX_LENGTH:
                self._refuse(length, data[at + LENGTH_BYTES :])
                return frames
            if stop > end:
                self.announced_bytes = stop - at
                break
            frames.append(data[at + LENGTH_BYTES : stop])
            at = stop
        if at < end and self.error is None:
            self._hold(data[at:] if at else data)
        return frames

    def _finish_pending(self, data: bytes, frames: list[bytes]) -> int:
        """Add ``data`` to the unfinished frame; returns how many bytes of ``data`` belong to it."""
        at = 0
        if self._skip:
            at = min(self._skip, len(data))
            self._skip -= at
            if not self._skip:
                self._forget()
            return at
        if not self.announced_bytes:
            at = LENGTH_BYTES - self.pending_bytes
            self._hold(data[:at])
            if self.pending_bytes < LENGTH_BYTES:
                return len(data)
            (length,) = _LENGTH_WORD.unpack(b"".join(self.pending))
            if not _MARK_BYTES <= length <= _MAX_LENGTH:
                self._refuse(length, data[at:])
                return at
            self.announced_bytes = LENGTH_BYTES + length
        missing = self.announced_bytes - self.pending_bytes
        if len(data) - at < missing:
            self._hold(data[at:] if at else data)
            return len(data)
        first, *others = self.pending  # the first has the whole length word, because short pieces are joined
        frames.append(b"".join((memoryview(first)[LENGTH_BYTES:], *others, memoryview(data)[at : at + missing])))
        self._forget()
        return at + missing

    def _hold(self, data: bytes) -> None:
        self.pending_bytes += len(data)
        last = self.pending[-1] if self.pending else None
        if isinstance(last, bytearray) and len(last) < _SMALL_BYTES:
            last += data
        else:
            self.pending.append(bytearray(data) if len(data) < _SMALL_BYTES else data)

    def _forget(self) -> None:
        self.pending = []
        self.pending_bytes = self.announced_bytes = 0
        self._head_given = False

    def _refuse(self, length: int, came: bytes) -> None:
        self._forget()
        if length > _MAX_LENGTH:
            self.too_long = length, came
        self.error = RemoteProtocolError(
            f"frame length {length} is not between {_MARK_BYTES} and {_MAX_LENGTH}", closes=True
        )
