"""Registers a broker (103): decides what its registration changes, writes that, and answers after the effect.

If a broker repeats its last registration, as it does nearly always, one O(1) script answers. Otherwise the changed part
of its body is decoded and compared with the tables, and the difference is written.

Source: DefaultRequestProcessor.registerBroker and RouteInfoManager.registerBroker of RocketMQ 5.x.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from ...behaviour import FIVE
from ...errors import RateExceeded, RegistrationRejected, RemoteProtocolError, StoreUnavailable
from ...model import ORDER_TOPIC_CONFIG, Registration
from ...protocol.bodies.crc32 import check_crc32
from ...protocol.bodies.register import measuring, null_part
from ...protocol.bodies.register_chunks import ChunkedBody, TopicChunk
from ...protocol.bodies.register_compressed import BodySize, begins_like_zlib
from ...protocol.bodies.register_content import MAX_INFLATED_BYTES
from ...protocol.bodies.tables import encode_kv_table
from ...protocol.codes import ResponseCode
from ...protocol.command import Command
from ...protocol.headers import RegisterBroker
from ...protocol.registration import LARGE_BYTES, cut, dated, decoding, digest_of, sender_of, with_body
from ...protocol.slices import finish
from ...store.route_writes import TOPICS_PER_EVENT, EncodedTopics, HeartbeatReply, Registered
from ...tables.registration import BrokerRole, RegistrationDiff, compare, role_of
from ..auth.peer import Peer
from .chunk_cache import LastBody
from .context import RequestContext, log_write

logger = logging.getLogger(__name__)

# The most attempts while others change the row between comparing and writing.
_ATTEMPTS: Final = 10


class _Request(NamedTuple):
    """One registration while it is executed."""

    context: RequestContext
    command: Command
    header: RegisterBroker
    peer: Peer
    sender: Registration  # the broker as the header describes it, without topics
    who: str  # the name of the broker process in Redis
    digest: str  # equal for equal registrations
    size: BodySize = BodySize(0, 0)  # of the body; 0 until it was measured
    chunked: ChunkedBody | None = None  # the body, once it is cut into chunks

    async def ask(self) -> HeartbeatReply:
        """Ask Redis whether the broker repeats its last registration."""
        sender = self.sender
        return await self.context.decided(
            self.command, self.peer,
            lambda owner: self.context.routes.heartbeat(
                sender.cluster, sender.broker_name, sender.broker_id, sender.broker_addr, self.digest,
                self.peer.channel, len(self.command.body), owner,
            ),
        )  # fmt: skip


async def register_broker(context: RequestContext, command: Command, opaque: int, peer: Peer) -> bytes:
    """Handle a 103; it is answered after this worker's view shows the change.

    Raises:
        RegistrationRejected: the header does not say who the broker is, or the connection has closed.
        RemoteProtocolError: the body cannot be read.
        RateExceeded: the registration changes something, and exceeds an enforced limit.
        StoreUnavailable: Redis is away, or the view does not show the change in time.
    """
    header = RegisterBroker.from_ext_fields(command.ext_fields)
    try:
        sender = sender_of(header)
    except RegistrationRejected:
        if check_crc32(command.body, header.body_crc32):
            raise
        # As in Java, a wrong crc32 is reported before a wrong header.
        context.counters.registrations_refused += 1
        return context.replies.crc_mismatch.reply(opaque)
    who = context.behaviour.who(sender.cluster, sender.broker_addr)
    caller = peer.caller
    digest = (caller.digest if caller is not None else "") or digest_of(command)
    if context.binds_topics(peer):  # after a change of the rules the topics must be checked again
        digest = f"{digest} {context.authorization.policy.revision if context.authorization else 0}"
    # The digest of a dated body covers neither its time nor the header's crc32: even if the digest is that of the last
    # registration, the body may not match its crc32.
    date = dated(command)
    if date and not context.body_crcs.check(digest, command.body, date.end(), header.body_crc32):
        return _crc_mismatch(context, opaque, who, peer)
    context.begin_write()
    request = _Request(context, command, header, peer, sender, who, digest)
    beat = await request.ask()
    if beat.same:
        return _unchanged(request, opaque, beat)
    await _check_rates(request, is_new=beat.data_version is None)
    if not date and not check_crc32(command.body, header.body_crc32):
        return _crc_mismatch(context, opaque, who, peer)
    request = await _measured(request)
    async with context.decoding_turns.turn(request.size) as waited:
        if waited:
            context.begin_write()  # Redis may have gone away meanwhile,
            beat = await request.ask()  # and another front end may have stored the same registration
            if beat.same:
                return _unchanged(request, opaque, beat)
        return await _register_changed(request, opaque, beat)


async def _check_rates(request: _Request, *, is_new: bool) -> None:
    """Refuse a registration that exceeds a limit. A refused broker that is in the tables is refreshed: it is alive."""
    context, sender, peer = request.context, request.sender, request.peer
    try:
        context.rates.check_registration(peer.host, is_new=is_new)
    except RateExceeded:
        context.counters.registrations_refused += 1
        if not is_new:
            await context.touch(request.command, peer, sender.cluster, sender.broker_addr)
        raise


async def _register_changed(request: _Request, opaque: int, beat: HeartbeatReply) -> bytes:
    """Decode a registration that differs from the last one, and write the difference; retry if the row changes."""
    context = request.context
    await context.effect(beat.seq)  # first, before anything is decoded: a waiting registration holds only bytes
    is_new = beat.data_version is None
    if request.chunked is None:
        chunked = cut(request.header, request.command, context.chunks.known, request.size.objects)
        request = request._replace(chunked=chunked)
    registration = await _changed_topics(request, beat)
    is_whole, deletes_missing = False, False
    for _ in range(_ATTEMPTS):
        if registration is None:
            registration = await _decode_whole(request)
            is_whole = True
            if request.size.text_bytes >= LARGE_BYTES:
                await asyncio.sleep(0)  # answer lookups that came meanwhile before the comparison
            null = null_part(request.command.body, request.command.version) if not registration.topics else None
            if null and await _is_void(context, registration, null, beat.seq):
                _not_stored(
                    request, "registrations with null instead of topics", "registered with null instead of topics"
                )
                return _answer(context, opaque)
            if null == "table":
                registration = msgspec.structs.replace(registration, mappings={})
            deletes_missing = context.settings.delete_topic_with_broker_registration and null is None
        result = await _write(request, registration, beat, deletes_missing=deletes_missing)
        if isinstance(result, HeartbeatReply):
            return _unchanged(request, opaque, result)
        if result.compare_with is None:
            return _changed(request, opaque, result, is_new=is_new)
        beat = result.compare_with
        await context.effect(beat.seq)
        if not is_whole:
            registration = None  # the tables no longer hold the last body: decode the whole body
    raise StoreUnavailable(f"others keep changing {request.sender.broker_name}; register again")


async def _measured(request: _Request) -> _Request:
    """Measure the body; nothing is decoded.

    If the broker's last body is known, the body is cut into chunks here: that costs less than to count its objects.
    Other bodies are cut when they are decoded: they may then share chunks with bodies that were decoded before them.

    Raises:
        RemoteProtocolError: the body is larger than allowed.
    """
    context, body, compressed = request.context, request.command.body, request.header.compressed
    if context.chunks.last_body(request.who, context.view.load_id) is not None:
        chunked = cut(request.header, request.command, context.chunks.known)
        if chunked is not None:
            return request._replace(size=BodySize(len(body), chunked.count_objects()), chunked=chunked)
    slices = measuring(body, compressed=compressed)
    inflates = compressed or begins_like_zlib(body)
    size = await context.decoding_turns.work(request.peer.host, slices) if inflates else finish(slices)
    if size.text_bytes > MAX_INFLATED_BYTES:
        raise RemoteProtocolError(f"a body inflates to more than {MAX_INFLATED_BYTES} bytes")
    return request._replace(size=size)


async def _changed_topics(request: _Request, beat: HeartbeatReply) -> Registration | None:
    """The registration with only the topics of the chunks that the broker's last body did not have.

    None: this part would not have the same effect as the whole body, because the tables no longer hold the last body,
    or because the data version is the same, so that not every topic counts. The view has reached ``beat.seq``.
    """
    context, sender, view, chunked = request.context, request.sender, request.context.view, request.chunked
    if chunked is None or context.settings.delete_topic_with_broker_registration or context.binds_topics(request.peer):
        return None  # every topic is needed: to find the missing topics, or to check each by the rules
    last = context.chunks.last_body(request.who, view.load_id)
    row = view.tables.brokers.get(sender.broker_name)
    if last is None or last.broker_name != sender.broker_name or row is None or row.rev != last.rev:
        return None
    names = view.tables.broker_topics.get(sender.broker_name, set())
    work, host = context.decoding_turns.work, request.peer.host
    body = await work(host, chunked.reading_changes(last.chunks, names, context.chunks.known))
    if body is None:
        return None
    context.chunks.used(chunked.chunks)
    registration = _seen(context, await work(host, with_body(sender, body)))
    row = view.tables.brokers.get(sender.broker_name)
    if row is None or row.rev != last.rev or view.load_id != last.load_id:
        return None  # the tables have changed meanwhile
    role = role_of(registration, row)
    if not role.counts or role.wipes_write != last.wipes_write or registration.data_version == beat.data_version:
        return None
    return registration


async def _decode_whole(request: _Request) -> Registration:
    chunks, chunked = request.context.chunks, request.chunked
    statics = request.context.behaviour.static_topics
    slices = decoding(request.sender, request.header, request.command, chunked, chunks.known, mappings=statics)
    registration = await request.context.decoding_turns.work(request.peer.host, slices, request.size)
    if chunked is not None:
        chunks.used(chunked.chunks)
    return _seen(request.context, registration)


def _seen(context: RequestContext, registration: Registration) -> Registration:
    """The registration as far as this version of the NameServer understands it."""
    behaviour = context.behaviour
    return registration if behaviour is FIVE else behaviour.seen(registration)


async def _is_void(context: RequestContext, registration: Registration, null: str, seq: int) -> bool:
    """Whether Java stores nothing of a registration with this null part, although it answers 0."""
    if not context.behaviour.null_topics_are_void:
        return null == "wrapper"
    await context.effect(seq)
    row = context.view.tables.brokers.get(registration.broker_name)
    holder = row.broker_addrs.get(registration.broker_id) if row else None
    return holder is None or (null == "wrapper" and holder != registration.broker_addr)


async def _write(
    request: _Request, registration: Registration, beat: HeartbeatReply, *, deletes_missing: bool
) -> Registered | HeartbeatReply:  # fmt: skip
    """Compare with the view, write the difference, and return when this worker's view shows it.

    Returns:
        the status RETRY: the row has changed meanwhile, and nothing is written. A HeartbeatReply: another front end has
        just written the same registration, which brokers send to all front ends at once.
    """
    context, view = request.context, request.context.view
    await context.check_content(request.peer, registration)
    load_id, compared_at = view.load_id, view.seq
    role = role_of(registration, view.tables.brokers.get(registration.broker_name))
    diff = compare(
        registration,
        beat.data_version,
        view.tables,
        epoch=view.epoch,
        n=beat.n,
        delete_missing_topics=deletes_missing,
        stay_deleted=context.deleted_topics.of(registration.broker_name, is_new_body=beat.is_new_body),
        is_new_body=beat.is_new_body,
    )
    if len(diff.topics) > TOPICS_PER_EVENT:
        again = await request.ask()
        if again.same:
            await context.effect(again.seq)
            return again
    if request.peer.has_hung_up():
        # The request may have waited in the socket while this worker was paused. Another broker may have the id or
        # address now. It would lose both to this broker, which is then removed because its connection has closed.
        raise RegistrationRejected("its connection closed before it was stored; a broker that lives registers again")
    chunks = request.chunked.chunks if request.chunked is not None else ()
    result = await context.decided(
        request.command, request.peer,
        lambda owner: context.routes.register_broker(
            registration, diff, encoded=_encoded(context, diff, role, chunks),
            digest=request.digest, channel=request.peer.channel, body_bytes=len(request.command.body),
            topic_count=sum(chunk.size for chunk in chunks) if chunks else None,
            default_timeout_ms=context.settings.broker_channel_expired_time_ms,
            owner=owner, by=context.by(request.peer),
        ),
    )  # fmt: skip
    context.check_owner(request.command, request.peer, result.owner)
    if result.status == "RETRY" and result.seq <= compared_at and result.n == beat.n:
        # Nothing has changed since the comparison, but Redis holds another row: the view was read from another Redis.
        context.health.look_again()
        raise StoreUnavailable("Redis holds another state than this front end knew; register again")
    if result.status in ("OK", "REFRESHED"):
        context.channels.registered(request.who, request.peer, result.seq)
    if result.changed or result.status == "REFRESHED":  # REFRESHED: another call wrote it, maybe just now
        await context.effect(result.seq)
    # if the topics do not count, the tables do not hold this body, and the last body stays valid
    counts = role.counts and (role.is_new or beat.data_version != registration.data_version)
    if result.status == "OK" and chunks and counts:
        _remember(request, chunks, diff, load_id, role, result)
    return result


def _encoded(
    context: RequestContext, diff: RegistrationDiff, role: BrokerRole, chunks: Sequence[TopicChunk]
) -> list[EncodedTopics] | None:
    """The encoded topics of these chunks; None: not every topic is written as it is in a chunk."""
    if not chunks or role.wipes_write or len(diff.topics) != sum(chunk.size for chunk in chunks):
        return None
    return context.chunks.encoded(chunks)


def _remember(
    request: _Request,
    chunks: Sequence[TopicChunk],
    diff: RegistrationDiff,
    load_id: int,
    role: BrokerRole,
    result: Registered,
) -> None:
    """Keep the body, to compare the broker's next body with it, if the tables hold it now."""
    view, name = request.context.view, request.sender.broker_name
    row = view.tables.brokers.get(name)
    # the row's rev is that of this change, or the one before if neither the row nor its topics changed
    if row is None or view.load_id != load_id or row.rev not in (diff.rev, result.seq):
        request.context.chunks.forget_body(request.who)
        return
    request.context.chunks.keep_body(request.who, LastBody(name, load_id, row.rev, role.wipes_write, chunks))


def _unchanged(request: _Request, opaque: int, beat: HeartbeatReply) -> bytes:
    request.context.counters.registrations_unchanged += 1
    request.context.channels.registered(request.who, request.peer, beat.seq)
    return _answer(request.context, opaque, beat.master_addr, beat.ha_server_addr)


def _changed(request: _Request, opaque: int, result: Registered, *, is_new: bool) -> bytes:
    context, sender = request.context, request.sender
    if result.status == "REFUSED_ONE_TOPIC":
        _not_stored(request, "registrations of one topic", "registered one topic before its first full registration")
        return context.replies.reply(opaque, ResponseCode.SYSTEM_ERROR, "register broker failed", {})
    if result.status == "REFUSED_STATE":
        claimed = f"id {sender.broker_id} of {sender.broker_name}"
        _not_stored(request, "claimed ids", f"claims {claimed} with a state version lower than its holder's")
        return _answer(context, opaque)
    context.counters.registrations_changed += 1
    if is_new:
        log_write(
            logger, context.by(request.peer), "new broker registered, %s, brokerName %s id %d, HAServer: %s",
            request.who, sender.broker_name, sender.broker_id, sender.ha_server_addr,
        )  # fmt: skip
        context.channels.tell_unreachable(request.who, request.peer)
    return _answer(context, opaque, result.master_addr, result.ha_server_addr)


def _crc_mismatch(context: RequestContext, opaque: int, who: str, peer: Peer) -> bytes:
    context.counters.registrations_refused += 1
    fault = "refused: crc32 of the body does not match"
    context.rates.tell("wrong crc32", peer.host, f"registration of {who} {fault}, by {context.by(peer)}")
    return context.replies.crc_mismatch.reply(opaque)


def _not_stored(request: _Request, kind: str, fault: str) -> None:
    """Count a registration that is not stored, and log why."""
    context, peer = request.context, request.peer
    context.counters.registrations_refused += 1
    context.rates.tell(kind, peer.host, f"{request.who} {fault}: not stored, by {context.by(peer)}")


def _answer(context: RequestContext, opaque: int, master_addr: str = "", ha_server_addr: str | None = None) -> bytes:
    ext_fields = {}
    if ha_server_addr is not None:
        ext_fields["haServerAddr"] = ha_server_addr
    if master_addr:
        ext_fields["masterAddr"] = master_addr
    body = b""
    if context.settings.return_order_topic_config_to_broker:
        table = context.view.tables.kv.get(ORDER_TOPIC_CONFIG)
        if table is not None:
            body = encode_kv_table(table)
    if not ext_fields:
        return context.replies.success_with_header.reply(opaque, body)
    return context.replies.reply(opaque, ext_fields=ext_fields, body=body)
