"""Answers one request of a connection: a read at once, a write later; a refused request gets the reason."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter

from ...errors import RateExceeded, RegistryError, RemoteProtocolError
from ...protocol.codes import FLAG_ONEWAY, FLAG_RESPONSE, RequestCode, ResponseCode, with_name
from ...protocol.command import Command
from ...protocol.frame import LENGTH_BYTES
from ...protocol.watch import ROUTE_WATCH, WatchRequest
from ...request_rights import NO_BODY_BYTES, REQUESTS, too_long
from ..auth.refusal import Refusal
from ..requests.context import RequestContext
from ..requests.early_lookups import EarlyLookups
from ..requests.lookup_cache import LookupCache
from ..requests.reads import reads
from ..requests.writes import writes
from ..view.freshness import Freshness
from .connection_interface import OpenConnection

logger = logging.getLogger(__name__)

# From this version on clients and brokers know code 1500 and change to another name server (later than V5_3_1).
_KNOWS_GO_AWAY = 476
_LOADING = Freshness.LOADING
_LOOKUP = int(RequestCode.GET_ROUTEINFO_BY_TOPIC)


class TablesAwaited(Exception):
    """A request needs the tables, which are still being read; ``early``: lets the connection wait for them."""

    def __init__(self, early: EarlyLookups) -> None:
        super().__init__()
        self.early = early


class Answering:
    """The handlers of one worker's requests, and the checks before them.

    Args:
        known: learns the lookups that are answered here.
        in_flight: the most writes of all connections together; more are refused.
        decode: decodes one frame, or only its head.
        not_sent_away: called with each connection that sends a request while draining, and whose client is too old for
            code 1500 (GO_AWAY).
    """

    def __init__(
        self, context: RequestContext, known: LookupCache, in_flight: int, decode: Callable[[bytes], Command],
        not_sent_away: Callable[[OpenConnection], None],
    ) -> None:  # fmt: skip
        self._context = context
        self._known = known
        self._in_flight = in_flight
        self._decode = decode
        self._not_sent_away = not_sent_away
        self.reads = reads(context.behaviour)
        self.writes = writes(context.behaviour)
        self.early: EarlyLookups | None = None
        """Set while the tables are read for the first time, if that takes long."""

    def answer(self, asker: OpenConnection, command: Command, frame: bytes) -> bytes | None:
        """The answer, also to a one-way request; None: the answer comes later, or never.

        Args:
            frame: the bytes of the command, from its mark word on.

        Raises:
            TablesAwaited: the tables are missing; nothing was done.
        """
        context, code, opaque = self._context, command.code, command.opaque
        if opaque is None:
            opaque = context.next_opaque()
        if len(command.body) > NO_BODY_BYTES:
            known = REQUESTS.get(code)
            if known is not None and len(command.body) > known.body_bytes:
                refused = context.replies.system_error(opaque, too_long(code, len(command.body)))
                context.counters.answered(code, refused)
                return refused
        if context.draining or context.authorization is not None or context.view.freshness is _LOADING:
            if self.early is not None and not context.draining:
                self._answer_early(self.early, asker, command, opaque, len(frame))
                return None
            refusal = self._refusal(asker, command, opaque)
            if refusal is not None:
                context.counters.answered(code, refusal)
                return refusal
        read = self.reads.get(code)
        if read is not None:
            since_s = perf_counter() if code != _LOOKUP else 0.0
            try:
                answer = read(context, command, opaque)
                if code == _LOOKUP and answer is not None:  # the handler has counted it
                    context.answers.note_asked(command.ext_fields, asker.asked.note)
                    if context.lookup_counts.in_vain:
                        context.lookup_counts.asked_by(asker.host)
                    if context.authorization is None or context.authorization.keeps:
                        self._known.learn(frame, command)
                    return answer
            except RegistryError as error:
                answer = context.replies.system_error(opaque, str(error))
            except Exception as error:  # after a defect here, other clients must still get their answers
                logger.exception("request %s of %s failed", with_name(code, RequestCode), asker.address)
                answer = context.replies.system_error(opaque, f"{type(error).__name__}: {error}")
            if answer is not None:
                context.counters.answered(code, answer)
                if since_s:
                    context.counters.took("read", since_s)
                return answer
        answer = self._begin(asker, command, opaque, len(frame))
        if answer is not None:
            context.counters.answered(code, answer)
        return answer

    def of_head(self, asker: OpenConnection, head: bytes, announced_bytes: int) -> bytes | None:
        """The refusal of a request whose body has not come yet; None: its header is no reason to refuse it.

        Empty bytes: the frame is to be skipped without an answer.

        Args:
            head: mark word and header of the frame. announced_bytes: the frame's size with its length word.

        Raises:
            RemoteProtocolError: the header cannot be decoded.
        """
        command = self._decode(head)
        if command.flag & FLAG_RESPONSE:
            return b""
        answer = self._of_head(asker, command, announced_bytes - LENGTH_BYTES - len(head))
        if answer is not None:
            self._context.counters.answered(command.code, answer)
        return b"" if answer is not None and command.flag & FLAG_ONEWAY else answer

    def _of_head(self, asker: OpenConnection, command: Command, body_bytes: int) -> bytes | None:
        context, code = self._context, command.code
        opaque = command.opaque if command.opaque is not None else context.next_opaque()
        known = REQUESTS.get(code)
        if body_bytes > (NO_BODY_BYTES if known is None else known.body_bytes):
            if known is None:
                return self._begin(asker, command, opaque, 0)
            return context.replies.system_error(opaque, too_long(code, body_bytes))
        authorization = context.authorization
        refusal = authorization.of_head(command, asker) if authorization is not None and code in self.writes else None
        return None if refusal is None else self._refused_write(asker, command, opaque, refusal)

    def _refusal(self, asker: OpenConnection, command: Command, opaque: int) -> bytes | None:
        """Refuse a request while draining, without tables, or if the rules forbid the read; None: it may go on."""
        context, authorization = self._context, self._context.authorization
        if context.draining:
            if command.version >= _KNOWS_GO_AWAY:
                return context.replies.go_away.reply(opaque)
            self._not_sent_away(asker)
        if context.view.freshness is _LOADING:
            return context.replies.no_tables_yet.reply(opaque)
        if authorization is not None and command.code in self.reads:
            refusal = authorization.of_read(command, asker)
            if refusal is not None:
                return context.replies.no_permission(opaque, refusal.text)
            if asker.known is not self._known and authorization.may_ask_open(asker):
                asker.known = self._known
        return None

    def _answer_early(
        self, early: EarlyLookups, asker: OpenConnection, command: Command, opaque: int, frame_bytes: int
    ) -> None:  # fmt: skip
        """Queue a lookup that is answered before the tables are read.

        Raises:
            TablesAwaited: it is no lookup, too many requests wait, or rules are enforced (they need the tables).
        """
        context = self._context
        enforces = context.authorization is not None and context.authorization.enforces
        if (
            command.code != _LOOKUP or enforces or context.in_flight >= self._in_flight
            or not context.rates.begun(asker.host, self._in_flight)
        ):  # fmt: skip
            raise TablesAwaited(early)
        asker.queue(early.lookup, command, opaque, frame_bytes)

    def _refused_write(self, asker: OpenConnection, command: Command, opaque: int, refusal: Refusal) -> bytes:
        """The answer to a write that the rules refuse before it is queued; count it for the limit of its address."""
        context = self._context
        if command.code == RequestCode.REGISTER_BROKER:
            context.counters.registrations_refused += 1
        try:
            context.rates.check_refused(command.code, asker.host)
        except RateExceeded as error:
            return context.replies.reply(opaque, ResponseCode.SYSTEM_BUSY, str(error))
        return context.replies.no_permission(opaque, refusal.text)

    def _begin(self, asker: OpenConnection, command: Command, opaque: int, frame_bytes: int) -> bytes | None:
        """Queue a write or hold a route watch; returns an answer if the request is refused or unknown."""
        context, authorization = self._context, self._context.authorization
        write = self.writes.get(command.code)
        if write is not None:
            refusal = authorization.of_small_write(command, asker) if authorization is not None else None
            if refusal is not None:
                return self._refused_write(asker, command, opaque, refusal)
            if context.in_flight >= self._in_flight or not context.rates.begun(asker.host, self._in_flight):
                return context.replies.overloaded.reply(opaque)
            asker.queue(write, command, opaque, frame_bytes)
            return None
        if command.code == ROUTE_WATCH and not command.flag & FLAG_ONEWAY:
            try:
                request = WatchRequest.decode(command.ext_fields, command.body)
                refusal = authorization.of_read(command, asker, request.topics) if authorization is not None else None
                if refusal is not None:
                    return context.replies.no_permission(opaque, refusal.text)
                context.watches.watch(asker, request, opaque, asker.active_at_s)
            except RemoteProtocolError as error:
                return context.replies.system_error(opaque, str(error))
            return None
        return context.replies.reply(
            opaque, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported"
        )
