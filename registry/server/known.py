"""Lookups known by their bytes: clients send the same frame for a topic each time, but for the opaque.

A frame is split at its opaque's digits, what is left of it is looked up, and the digits are copied into the answer that
the view keeps for the topic: no JSON, no command, no handler. What is not known, and whatever is not as usual (no sight
of Redis, draining), goes the long way through :mod:`registry.server.connection`, which shows each lookup that it has
answered to :meth:`KnownLookups.learn`.

Why the answer is the same, byte for byte: what is learned is valid JSON in which these digits, and nothing else, are
the opaque (two other numbers in their place make the same command with that opaque), so any other number there, written
as JSON has it, makes the same command too. And the long way answers that command with the body that the view's kept
answer for its topic and form has, as long as there is one: it is taken from there here too, at the moment of the
answer, so that what changes a route needs to know nothing of this.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from registry.protocol.codes import Encoding
from registry.protocol.command import Command, decode_command, encode_command
from registry.protocol.lenient_json import REFUSALS
from registry.server.front_end import FrontEnd
from registry.server.reads import quoted_wanted
from registry.server.view import KeptAnswer

# Frames of lookups have about 150 bytes; a topic's name has 255 at most.
MAX_FRAME_BYTES: Final = 1023
# Two generations of so many lookups, or of as many as there are topics, 250 bytes each: the older goes when the newer
# one is full. With 160,000 topics and room for 100,000, a quarter of the lookups would go the long way.
MAX_KNOWN: Final = 100_000
_MAX_HEADS: Final = 10_000

_NAME: Final = b'"opaque":'
_MAX_OPAQUE: Final = b"2147483647"
_HEAD: Final = struct.Struct(">II")
_LENGTH: Final = struct.Struct(">I")
# By size: how a frame of a JSON header and no body begins.
_BEGINNINGS: Final = tuple(_HEAD.pack(max(0, size - 4), max(0, size - 8)) for size in range(MAX_FRAME_BYTES + 1))
_PLAIN_FIELDS: Final = frozenset(
    ("code", "extFields", "flag", "language", "opaque", "remark", "serializeTypeCurrentRPC", "version")
)
_PLAIN_EXT_FIELDS: Final = frozenset(("topic", "acceptStandardJsonOnly"))
_PROBES: Final = (1, 2**31 - 1)
# Between what stands before the opaque and what stands after it, in a key; JSON has it in no text and nowhere else.
_SEAM: Final = b"\0"


class KnownLookups:
    """The lookups that one worker knows by their bytes.

    Args:
        front_end: whose view is asked. When its replies have binary headers, nothing is learned.
        max_known: see MAX_KNOWN; more when there are more topics.
    """

    def __init__(self, front_end: FrontEnd, max_known: int = MAX_KNOWN) -> None:
        self._front_end = front_end
        self._view = front_end.view
        self._counters = front_end.counters
        self._max_known = max_known
        self._quoted_wanted = quoted_wanted(front_end.behaviour)
        success = front_end.replies.success
        self._prefix, self._suffix, self._fixed_bytes = success.prefix, success.suffix, success.fixed_bytes
        # What stands before the opaque in an answer, by its digits and the size of the body.
        self._heads: tuple[dict[int, bytes], ...] = tuple({} for _ in range(len(_MAX_OPAQUE) + 1))
        self._learns = front_end.replies.encoding == Encoding.JSON
        self._newer: dict[bytes, KeptAnswer] = {}
        self._older: dict[bytes, KeptAnswer] = {}

    def __len__(self) -> int:
        return len(self._newer) + len(self._older)

    def answer(self, data: bytes) -> bytes | None:
        """The answer to ``data`` if that is one whole frame, known, and its answer is at hand; else None."""
        size = len(data)
        if size > MAX_FRAME_BYTES or not data.startswith(_BEGINNINGS[size]):
            return None
        # the last one: in most clients' headers the opaque stands near the end
        front, _, rest = data.rpartition(_NAME)
        digits, _, back = rest.partition(b",")
        key = _SEAM.join((front[8:], back))
        kept = self._newer.get(key)
        if kept is None:
            kept = self._older.get(key)
            if kept is None:
                return None
            self._keep(key, kept)
        body = kept.body
        if body is None or not self._view.fresh or self._front_end.draining:
            return None
        digits_bytes = len(digits)
        # as JSON writes a number, and an int32
        if not digits.isdigit() or digits < b"1":
            return None
        if digits_bytes > 9 and (digits_bytes > 10 or digits > _MAX_OPAQUE):
            return None
        kept.asked += 1
        self._counters.lookups_known += 1
        head = self._heads[digits_bytes].get(len(body)) or self._head(digits_bytes, len(body))
        return b"".join((head, digits, self._suffix, body))

    def answer_several(self, data: bytes, out: list[bytes], max_bytes: int) -> int:
        """The same for the frames with which ``data`` begins, if it is more than one.

        Args:
            out: gets the answers.
            max_bytes: no further ones when they have as many.

        Returns:
            the size of what was answered; the first frame after it is not known, or not whole.
        """
        at, end, out_bytes = 0, len(data), 0
        while end - at > 8 and out_bytes < max_bytes:
            (length,) = _LENGTH.unpack_from(data, at)
            stop = at + 4 + length
            if stop > end or length >= end - 4:
                break
            answer = self.answer(data[at:stop])
            if answer is None:
                break
            out.append(answer)
            out_bytes += len(answer)
            at = stop
        return at

    def learn(self, frame: bytes, command: Command) -> None:
        """Look at a lookup that was answered the long way.

        Args:
            frame: from its mark word on. command: what it was decoded to.
        """
        ext, view = command.ext_fields, self._view
        topic = ext.get("topic") if ext else None
        if not ext or topic is None or (topic not in view.quoted and topic not in view.bare):
            return
        kept = (view.quoted if self._quoted_wanted(command) else view.bare).get(topic)
        # A topic that is asked for only once is not worth the room.
        if kept is None or kept.asked < 2 or not self._learns or not _is_plain(frame, command):
            return
        front, _, rest = frame.rpartition(_NAME)
        self._keep(_SEAM.join((front[4:], rest.partition(b",")[2])), kept)

    def _head(self, digits_bytes: int, body_bytes: int) -> bytes:
        heads = self._heads[digits_bytes]
        if len(heads) >= _MAX_HEADS:
            heads.clear()
        header_bytes = self._fixed_bytes + digits_bytes
        head = heads[body_bytes] = _HEAD.pack(4 + header_bytes + body_bytes, header_bytes) + self._prefix
        return head

    def _keep(self, key: bytes, kept: KeptAnswer) -> None:
        if len(self._newer) >= max(self._max_known, len(self._view.served.topics)):
            self._older, self._newer = self._newer, {}
        self._newer[key] = kept


def _is_plain(frame: bytes, command: Command) -> bool:
    """Whether the digits after the last ``"opaque":`` are the command's opaque, and nothing else is out of the way."""
    ext = command.ext_fields or {}
    if command.flag or command.body or command.encoding != Encoding.JSON or not ext.keys() <= _PLAIN_EXT_FIELDS:
        return False
    if len(frame) + 4 > MAX_FRAME_BYTES:
        return False
    if encode_command(command)[4:] == frame:
        return True  # as Java writes it: a header in which the opaque's name can stand before it, but not after it
    front, _, rest = frame.rpartition(_NAME)
    digits, comma, back = rest.partition(b",")
    if not comma or not digits.isdigit():
        return False
    try:
        fields = msgspec.json.decode(frame[4:])
    except REFUSALS:
        return False
    if not isinstance(fields, dict) or not fields.keys() <= _PLAIN_FIELDS:
        return False
    for opaque in _PROBES:
        header = b"%b%b%d,%b" % (front[4:], _NAME, opaque, back)
        if decode_command(_LENGTH.pack(len(header)) + header) != msgspec.structs.replace(command, opaque=opaque):
            return False
    return True
