"""103: a broker registers. Nearly always it says what it said last time, and one O(1) script answers."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from typing import Final

import msgspec
import xxhash

from registry.behaviour import FIVE, Behaviour
from registry.errors import RegistrationRejected, StoreUnavailable
from registry.model import ORDER_TOPIC_CONFIG, DataVersion, Registration
from registry.protocol.bodies import check_crc32, decode_register_body, encode_kv_table
from registry.protocol.codes import ResponseCode
from registry.protocol.command import Command
from registry.protocol.headers import RegisterBroker
from registry.protocol.register_body import null_part
from registry.registration import compare
from registry.server.front_end import FrontEnd, Peer
from registry.store.routes import Heartbeat, Registered, RegistrationDiff

logger = logging.getLogger(__name__)

# Somebody else changed the row between comparing and writing, this many times in a row.
_ATTEMPTS = 10

# The second version in the body of a 5.x broker. Nobody reads it, and the broker writes the present time there: with
# it, no body would be as the one before. Quotes within a string have a backslash before them, so this is none.
_DATED: Final = re.compile(rb'"mappingDataVersion":\{"counter":[0-9]+,"stateVersion":[0-9]+,"timestamp":[0-9]+\},')
_DATED_WITHIN_BYTES: Final = 4096

LARGE_BYTES: Final = 64 * 1024
"""Changed registrations from this size on take turns."""


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
    beat = await front_end.routes.heartbeat(cluster, name, broker_id, addr, digest, peer.channel, len(command.body))
    if beat.same:
        front_end.counters.registrations_unchanged += 1
        front_end.channels.registered(identity, peer, beat.seq)
        return _answer(front_end, opaque, beat.master_addr, beat.ha_server_addr)
    if not check_crc32(command.body, header.body_crc32):
        return _crc_mismatch(front_end, opaque, identity)
    # Each large one takes this process and Redis tens of milliseconds. When a whole fleet comes at once, all of them
    # together would outlast every timeout, their own and those of heartbeats and lease renewals between them.
    async with front_end.large_registrations if len(command.body) >= LARGE_BYTES else contextlib.nullcontext():
        front_end.check_store()  # it may have gone away while this one waited
        return await _register_changed(front_end, command, opaque, peer, header, identity, digest, beat)


async def _register_changed(
    front_end: FrontEnd,
    command: Command,
    opaque: int,
    peer: Peer,
    header: RegisterBroker,
    identity: str,
    digest: str,
    beat: Heartbeat,
) -> bytes:
    """What the heartbeat did not know: decode it, and write what it changes."""
    registration = decode(header, command, checked_identity(header), front_end.behaviour)
    name, broker_id = registration.broker_name, registration.broker_id
    known = beat.data_version
    null = null_part(command.body) if not registration.topics else None
    if null == "table":
        registration = msgspec.structs.replace(registration, mappings={})
    if null and await _is_void(front_end, registration, null, beat.seq):
        front_end.counters.registrations_refused += 1
        logger.warning("%s registered with null instead of topics: not stored", identity)
        return _answer(front_end, opaque, "", "")
    deletes_missing = front_end.settings.delete_topic_with_broker_registration and null is None
    result = await _write(
        front_end, registration, beat.n, known, beat.seq, digest, peer, len(command.body), deletes_missing
    )
    if result.status == "REFUSED_ONE_TOPIC":
        front_end.counters.registrations_refused += 1
        logger.warning("%s registered one topic before its first full registration: refused", identity)
        return front_end.replies.reply(opaque, ResponseCode.SYSTEM_ERROR, "register broker failed", {})
    if result.status == "REFUSED_STATE":
        front_end.counters.registrations_refused += 1
        logger.warning(
            "%s claims id %d of %s with a state version lower than its holder's: not stored", identity, broker_id, name
        )
        return _answer(front_end, opaque, "", "")
    front_end.counters.registrations_changed += 1
    front_end.channels.registered(identity, peer, result.seq)
    if known is None:
        logger.info("new broker registered, %s, brokerName %s id %d, HAServer: %s", identity, name, broker_id,
                    registration.ha_server_addr)  # fmt: skip
    if result.changed:
        await front_end.effect(result.seq)
    return _answer(front_end, opaque, result.master_addr, result.ha_server_addr)


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


def decode(
    header: RegisterBroker, command: Command, identity: tuple[str, str, str, int], behaviour: Behaviour
) -> Registration:
    """The whole registration, as far as this version understands it.

    Raises:
        RemoteProtocolError: the body cannot be read.
    """
    cluster, name, addr, broker_id = identity
    # A body that names no data version gets the server's clock as its timestamp, as in Java.
    now_ms = int(time.time() * 1000)
    body = decode_register_body(
        command.body,
        compressed=header.compressed,
        version=command.version,
        now_ms=now_ms,
        mappings=behaviour.static_topics,
    )
    registration = Registration(
        cluster=cluster,
        broker_name=name,
        broker_id=broker_id,
        broker_addr=addr,
        ha_server_addr=header.ha_server_addr,
        zone_name=header.zone_name,
        enable_acting_master=header.enable_acting_master,
        heartbeat_timeout_ms=header.heartbeat_timeout_millis,
        data_version=body.data_version,
        topics=body.topics,
        mappings=body.stored_mappings(name),
        filter_servers=body.filter_servers,
    )
    return registration if behaviour is FIVE else behaviour.seen(registration)


async def _is_void(front_end: FrontEnd, registration: Registration, null: str, seq: int) -> bool:
    """Whether Java trips over this null part of a registration, and stores nothing although it answers 0."""
    if not front_end.behaviour.null_topics_are_void:
        return null == "wrapper"
    await front_end.effect(seq)
    row = front_end.view.exact.brokers.get(registration.broker_name)
    holder = row.broker_addrs.get(registration.broker_id) if row else None
    return holder is None or (null == "wrapper" and holder != registration.broker_addr)


async def _write(
    front_end: FrontEnd,
    registration: Registration,
    n: str,
    known: DataVersion | None,
    seq: int,
    digest: str,
    peer: Peer,
    body_bytes: int,
    deletes_missing: bool,
) -> Registered:
    """Compare with the view and write the difference, until nobody else changed the row in between."""
    for _ in range(_ATTEMPTS):
        await front_end.effect(seq)
        view = front_end.view
        tables, row, compared_at = view.exact, view.exact.brokers.get(registration.broker_name), view.seq
        changes = compare(
            registration,
            known,
            tables,
            delete_missing_topics=deletes_missing,
            restore_missing_topics=front_end.behaviour.restores_deleted_topics,
        )
        diff = RegistrationDiff(view.epoch, row.rev if row else 0, n, tables.config_rev, *changes)
        result = await front_end.routes.register_broker(
            registration, diff, digest=digest, channel=peer.channel, body_bytes=body_bytes,
            default_timeout_ms=front_end.settings.broker_channel_expired_time_ms,
        )  # fmt: skip
        if result.status != "RETRY":
            return result
        if result.seq <= compared_at and result.n == n:
            # Nothing happened since, and still Redis disagrees: it is not the one that the view was read from.
            front_end.health.look_again()
            raise StoreUnavailable("Redis holds another state than this front end knew; register again")
        n, known, seq = result.n, result.data_version, result.seq
    raise StoreUnavailable(f"{registration.broker_name} is being changed from elsewhere all the time; register again")


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
