"""103: a broker registers. Nearly always it says what it said last time, and one O(1) script answers."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Final

import msgspec
import xxhash

from registry.errors import RegistrationRejected
from registry.model import ORDER_TOPIC_CONFIG, Registration
from registry.protocol.bodies import check_crc32, encode_kv_table
from registry.protocol.codes import ResponseCode
from registry.protocol.command import Command
from registry.protocol.headers import RegisterBroker
from registry.protocol.register_body import null_part
from registry.server.front_end import FrontEnd, Peer
from registry.server.register_changed import Arrived, ask, decode_whole, write_difference, write_whole
from registry.store.routes import Heartbeat, Registered

logger = logging.getLogger(__name__)

# The second version in the body of a 5.x broker. Nobody reads it, and the broker writes the present time there: with
# it, no body would be as the one before. Quotes within a string have a backslash before them, so this is none.
_DATED: Final = re.compile(rb'"mappingDataVersion":\{"counter":[0-9]+,"stateVersion":[0-9]+,"timestamp":[0-9]+\},')
_DATED_WITHIN_BYTES: Final = 4096


async def register_broker(front_end: FrontEnd, command: Command, opaque: int, peer: Peer) -> bytes:
    """103. Answers after this worker's view shows the change."""
    header = RegisterBroker.from_ext_fields(command.ext_fields)
    try:
        cluster, name, addr, broker_id = checked_identity(header)
    except RegistrationRejected:
        if check_crc32(command.body, header.body_crc32):
            raise
        # Java looks at the crc32 first of all.
        front_end.counters.registrations_refused += 1
        return front_end.replies.crc_mismatch.reply(opaque)
    behaviour = front_end.behaviour
    identity = behaviour.who(cluster, addr)
    digest = digest_of(command)
    if _dated(command) and not check_crc32(command.body, header.body_crc32):  # not proved by that digest
        return _crc_mismatch(front_end, opaque, identity)
    front_end.check_store()
    arrived = Arrived(header, command, identity, digest, peer, (cluster, name, addr, broker_id))
    beat = await ask(front_end, arrived)
    if beat.same:
        return _unchanged(front_end, arrived, opaque, beat)
    if not check_crc32(command.body, header.body_crc32):
        return _crc_mismatch(front_end, opaque, identity)
    if not arrived.is_large:
        return await _register_changed(front_end, arrived, opaque, beat)
    # Each large one takes this process and Redis tens of milliseconds. When a whole fleet comes at once, all of them
    # together would outlast every timeout, their own and those of heartbeats and lease renewals between them.
    waits = front_end.large_registrations.locked()
    async with front_end.large_registrations:
        front_end.check_store()  # it may have gone away while this one waited
        if waits:
            beat = await ask(front_end, arrived)  # and another front end may have registered it
            if beat.same:
                return _unchanged(front_end, arrived, opaque, beat)
        return await _register_changed(front_end, arrived, opaque, beat)


def _unchanged(front_end: FrontEnd, arrived: Arrived, opaque: int, beat: Heartbeat) -> bytes:
    front_end.counters.registrations_unchanged += 1
    front_end.channels.registered(arrived.who, arrived.peer, beat.seq)
    return _answer(front_end, opaque, beat.master_addr, beat.ha_server_addr)


async def _register_changed(front_end: FrontEnd, arrived: Arrived, opaque: int, beat: Heartbeat) -> bytes:
    """What the heartbeat did not know: decode it, and write what it changes."""
    await front_end.effect(beat.seq)  # first of all: what waits for it holds nothing decoded
    identity, (_, name, _, broker_id) = arrived.who, arrived.identity
    outcome = await write_difference(front_end, arrived, beat)
    if outcome is None or (isinstance(outcome, Registered) and outcome.status == "RETRY"):
        if outcome is not None:
            beat = Heartbeat(False, outcome.seq, n=outcome.n, data_version=outcome.data_version)
        registration, read = decode_whole(front_end, arrived)
        if arrived.is_large:
            await asyncio.sleep(0)  # lookups that came meanwhile do not wait for the comparison, too
        null = null_part(arrived.command.body) if not registration.topics else None
        if null == "table":
            registration = msgspec.structs.replace(registration, mappings={})
        if null and await _is_void(front_end, registration, null, beat.seq):
            front_end.counters.registrations_refused += 1
            logger.warning("%s registered with null instead of topics: not stored", identity)
            return _answer(front_end, opaque, "", "")
        deletes_missing = front_end.settings.delete_topic_with_broker_registration and null is None
        outcome = await write_whole(front_end, arrived, registration, read, beat, deletes_missing)
    if isinstance(outcome, Heartbeat):
        return _unchanged(front_end, arrived, opaque, outcome)
    if outcome.status == "REFUSED_ONE_TOPIC":
        front_end.counters.registrations_refused += 1
        logger.warning("%s registered one topic before its first full registration: refused", identity)
        return front_end.replies.reply(opaque, ResponseCode.SYSTEM_ERROR, "register broker failed", {})
    if outcome.status == "REFUSED_STATE":
        front_end.counters.registrations_refused += 1
        logger.warning(
            "%s claims id %d of %s with a state version lower than its holder's: not stored", identity, broker_id, name
        )
        return _answer(front_end, opaque, "", "")
    front_end.counters.registrations_changed += 1
    if beat.data_version is None:
        logger.info("new broker registered, %s, brokerName %s id %d, HAServer: %s", identity, name, broker_id,
                    arrived.header.ha_server_addr)  # fmt: skip
    return _answer(front_end, opaque, outcome.master_addr, outcome.ha_server_addr)


def checked_identity(header: RegisterBroker) -> tuple[str, str, str, int]:
    """Cluster, brokerName, address and id.

    Raises:
        RegistrationRejected: one is missing or cannot be stored (semantics 6, D9).
    """
    fields = {
        "clusterName": header.cluster_name,
        "brokerName": header.broker_name,
        "brokerAddr": header.broker_addr,
    }
    for field, value in fields.items():
        if not value:
            raise RegistrationRejected(f"register broker failed: {field} is null or empty; nothing was stored")
    if "|" in (header.broker_addr or ""):
        raise RegistrationRejected(f"register broker failed: brokerAddr {header.broker_addr!r} is not host:port")
    if header.broker_id is None:
        raise RegistrationRejected("register broker failed: brokerId is null or no number; nothing was stored")
    return header.cluster_name or "", header.broker_name or "", header.broker_addr or "", header.broker_id


def digest_of(command: Command) -> str:
    """What tells one registration from another: every header field, the sender's version, the raw body.

    Of a body that bears the time of its making, all but that, and but its crc32.
    """
    fields = command.ext_fields or {}
    dated, body = _dated(command), memoryview(command.body)
    if dated:
        fields = {key: value for key, value in fields.items() if key != "bodyCrc32"}
    digest = xxhash.xxh3_128(repr((command.version, sorted(fields.items()))).encode("utf-8", "surrogatepass"))
    if dated:
        digest.update(body[: dated.start()])
        body = body[dated.end() :]
    digest.update(body)
    return digest.hexdigest()


def _dated(command: Command) -> re.Match[bytes] | None:
    return _DATED.search(command.body, 0, _DATED_WITHIN_BYTES)


def _crc_mismatch(front_end: FrontEnd, opaque: int, identity: str) -> bytes:
    front_end.counters.registrations_refused += 1
    logger.warning("registration of %s refused: crc32 of the body does not match", identity)
    return front_end.replies.crc_mismatch.reply(opaque)


async def _is_void(front_end: FrontEnd, registration: Registration, null: str, seq: int) -> bool:
    """Whether Java trips over this null part of a registration, and stores nothing although it answers 0."""
    if not front_end.behaviour.null_topics_are_void:
        return null == "wrapper"
    await front_end.effect(seq)
    row = front_end.view.exact.brokers.get(registration.broker_name)
    holder = row.broker_addrs.get(registration.broker_id) if row else None
    return holder is None or (null == "wrapper" and holder != registration.broker_addr)


def _answer(front_end: FrontEnd, opaque: int, master_addr: str, ha_server_addr: str) -> bytes:
    ext_fields = {}
    if ha_server_addr:
        ext_fields["haServerAddr"] = ha_server_addr
    if master_addr:
        ext_fields["masterAddr"] = master_addr
    body = b""
    if front_end.settings.return_order_topic_config_to_broker:
        table = front_end.view.served.kv.get(ORDER_TOPIC_CONFIG)
        if table is not None:
            body = encode_kv_table(table)
    if not ext_fields:
        return front_end.replies.success_with_header.reply(opaque, body)
    return front_end.replies.reply(opaque, ext_fields=ext_fields, body=body)
