"""Answers repeated lookups without decoding: the request frame without its opaque is the cache key.

A client's lookups of a topic are equal frames, except for the opaque. The cache splits a frame at the digits of its
opaque, looks up the rest, and copies the digits into the kept answer for the topic: no JSON, no command, no handler.
:mod:`mqregistry.server.net.connection` decodes and answers a frame that is not in the cache, and every frame while the
worker is draining. :meth:`LookupCache.learn` gets each lookup that was allowed and answered.

Why the cache and the handler (``reads.get_routeinfo_by_topic``) give the same bytes:

* Only the digits after the last ``"opaque":`` of a learned frame are its opaque: ``_is_plain`` has put two other
  numbers in their place, and each time only the opaque of the decoded command changed.
* The handler answers with the body of the ``KeptAnswer`` of the topic and the JSON form. The cache takes the body from
  the same object, so code that changes a route need not know the cache. Both answer in every state of the view.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection
from typing import Final

import msgspec

from ...protocol.codes import Encoding
from ...protocol.command import Command, decode_command, encode_command
from ...protocol.lenient_json import REFUSALS
from ..auth.caller import Signer
from ..view.freshness import Freshness
from ..view.route_answers import KeptAnswer
from .context import RequestContext
from .reads import quoted_wanted

# Frames of lookups have about 150 bytes; a topic's name has 255 at most.
MAX_FRAME_BYTES: Final = 1023
# The cache has two generations; when the newer generation is full, the older one is dropped. Each has room for this
# number of lookups of 250 bytes, or for one lookup of each topic if there are more topics.
MAX_KNOWN: Final = 100_000
_MAX_HEADS: Final = 10_000

_FRESH: Final = Freshness.FRESH
_NAME: Final = b'"opaque":'
_MAX_OPAQUE: Final = b"2147483647"
_HEAD: Final = struct.Struct(">II")
_LENGTH: Final = struct.Struct(">I")
# Frame size -> the first bytes of a frame with a JSON header and no body.
_BEGINNINGS: Final = tuple(_HEAD.pack(max(0, size - 4), max(0, size - 8)) for size in range(MAX_FRAME_BYTES + 1))
_PLAIN_FIELDS: Final = frozenset(
    ("code", "extFields", "flag", "language", "opaque", "remark", "serializeTypeCurrentRPC", "version")
)
# The last three are the fields of RocketMQ's ACL: a user's equal lookups have equal signatures. Signed lookups are
# forgotten when the rules change.
_PLAIN_EXT_FIELDS: Final = frozenset(("topic", "acceptStandardJsonOnly", "AccessKey", "Signature", "SecurityToken"))
NoteAsked = Callable[[KeptAnswer], object]
_PROBES: Final = (1, 2**31 - 1)  # the numbers that _is_plain puts in the place of the opaque
_SEAM: Final = b"\0"  # stands in a key where the opaque was; JSON never has this byte


class LookupCache:
    """The repeated lookups of one worker: kept answers by request frame without opaque.

    Args:
        context: has the kept answers. While its replies have binary headers, no lookup is learned.
    """

    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self._view = context.view
        self._answers = context.answers
        self._counters = context.counters
        self._max_known = MAX_KNOWN
        self._quoted_wanted = quoted_wanted(context.behaviour)
        success = context.replies.success
        self._prefix, self._suffix, self._fixed_bytes = success.prefix, success.suffix, success.fixed_bytes
        # The bytes before the opaque of an answer: by the opaque's number of digits, then by the size of the body.
        self._heads: tuple[dict[int, bytes], ...] = tuple({} for _ in range(len(_MAX_OPAQUE) + 1))
        self._learns = context.replies.encoding == Encoding.JSON
        self._newer: dict[bytes, KeptAnswer] = {}
        self._older: dict[bytes, KeptAnswer] = {}
        self._signed: dict[bytes, Signer] = {}  # key of a signed lookup -> who signed it
        self._used: set[Signer] = set()

    def __len__(self) -> int:
        return len(self._newer) + len(self._older)

    def answer(self, data: bytes, asked: NoteAsked) -> bytes | None:
        """The answer to ``data``; None: it is not one whole frame of a learned lookup, or the answer is not encoded.

        Args:
            asked: called with the kept answer.
        """
        size = len(data)
        if size > MAX_FRAME_BYTES or not data.startswith(_BEGINNINGS[size]):
            return None
        # split from the end: in most clients' headers the opaque is near it
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
        if body is None or self._context.draining:
            return None
        digits_bytes = len(digits)
        # a number as in JSON, and an int32
        if not digits.isdigit() or digits < b"1":
            return None
        if digits_bytes > 9 and (digits_bytes > 10 or digits > _MAX_OPAQUE):
            return None
        kept.asked += 1
        asked(kept)
        self._counters.lookups_known += 1
        if self._view.freshness is not _FRESH:
            self._counters.stale_answers += 1
        head = self._heads[digits_bytes].get(len(body)) or self._head(digits_bytes, len(body))
        return b"".join((head, digits, self._suffix, body))

    def answer_several(self, data: bytes, out: list[bytes], max_bytes: int, asked: NoteAsked) -> int:
        """Answer the frames at the beginning of ``data``, if there are several, up to the first unknown frame.

        Args:
            out: gets the answers.
            max_bytes: no further frame is answered when the answers have this size.

        Returns:
            the size of the frames that were answered.
        """
        at, end, out_bytes = 0, len(data), 0
        while end - at > 8 and out_bytes < max_bytes:
            (length,) = _LENGTH.unpack_from(data, at)
            stop = at + 4 + length
            if stop > end or length >= end - 4:
                break
            answer = self.answer(data[at:stop], asked)
            if answer is None:
                break
            out.append(answer)
            out_bytes += len(answer)
            at = stop
        return at

    def learn(self, frame: bytes, command: Command) -> None:
        """Remember an answered lookup if its answer is kept, and was asked for before.

        Args:
            frame: without its length, so from its mark word on. command: the decoded frame.
        """
        ext, answers = command.ext_fields, self._answers
        topic = ext.get("topic") if ext else None
        if not ext or topic is None or (topic not in answers.quoted and topic not in answers.bare):
            return
        kept = (answers.quoted if self._quoted_wanted(command) else answers.bare).get(topic)
        if kept is None or kept.asked < 2 or not self._learns or not _is_plain(frame, command):
            return
        front, _, rest = frame.rpartition(_NAME)
        key = _SEAM.join((front[4:], rest.partition(b",")[2]))
        self._keep(key, kept)
        authorization = self._context.authorization
        if authorization is not None and authorization.signer is not None:
            self._signed[key] = authorization.signer

    def used(self) -> Collection[Signer]:
        """The signers of the lookups that this cache answered since the last call.

        To be called once a minute: each call begins a new generation if any lookup is signed, so the cache forgets
        lookups that no client repeats within two minutes. Cost: 0.1 µs for each signed lookup.
        """
        if self._signed:
            self._begin_generation()
        used, self._used = self._used, set()
        return used

    def clear(self) -> None:
        """Forget every lookup: new rules may refuse it."""
        self._begin_generation()
        self._newer, self._older, self._signed = {}, {}, {}

    def _begin_generation(self) -> None:
        newer, signed = self._newer, self._signed
        self._older, self._newer = newer, {}
        if signed:
            self._signed = {key: signer for key, signer in signed.items() if key in newer}
            self._used.update(self._signed.values())

    def _head(self, digits_bytes: int, body_bytes: int) -> bytes:
        heads = self._heads[digits_bytes]
        if len(heads) >= _MAX_HEADS:
            heads.clear()
        header_bytes = self._fixed_bytes + digits_bytes
        head = heads[body_bytes] = _HEAD.pack(4 + header_bytes + body_bytes, header_bytes) + self._prefix
        return head

    def _keep(self, key: bytes, kept: KeptAnswer) -> None:
        if len(self._newer) >= max(self._max_known, len(self._view.tables.topics)):
            signer = self._signed.get(key)
            self._begin_generation()
            if signer is not None:
                self._signed[key] = signer
        self._newer[key] = kept


def _is_plain(frame: bytes, command: Command) -> bool:
    """Whether the digits after the last ``"opaque":`` are the command's opaque, and the frame has only known fields."""
    ext = command.ext_fields or {}
    if command.flag or command.body or command.encoding != Encoding.JSON or not ext.keys() <= _PLAIN_EXT_FIELDS:
        return False
    if len(frame) + 4 > MAX_FRAME_BYTES:
        return False
    if encode_command(command)[4:] == frame:
        return True  # a header as Java writes it: the text "opaque": can occur before the opaque, but not after it
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
