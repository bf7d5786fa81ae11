"""Reads a registerBroker request (103): its sender, its digest and its content."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Mapping, MutableMapping
from typing import Final

import msgspec
import xxhash

from ..errors import RegistrationRejected, RemoteProtocolError
from ..model import Registration
from ..names import fault_of_names
from .bodies import register
from .bodies.register_chunks import ChunkedBody, TopicChunk, cut_body
from .bodies.register_compressed import begins_like_zlib
from .bodies.register_content import ENTRIES_PER_SLICE, RegisterBody
from .codes import VERSION_V3_0_11
from .command import Command
from .headers import RegisterBroker
from .slices import Slices

LARGE_BYTES: Final = 64 * 1024
"""A body from this size on is decoded in chunks."""

MAX_UNCUT_BYTES: Final = 4 * 1024 * 1024
"""The longest JSON body that is decoded in one piece; a longer body must be as Java writes it, and is cut."""

MAX_FILTER_SERVERS: Final = 1000
"""The most filter servers of one broker; a real broker has a few. They are in each route of the broker's topics."""

# The second data version in the body of a 5.x broker. No server reads it, but its time makes every body different.
# Inside a string, quotes have a backslash before them, so no string contains this text.
_DATED: Final = re.compile(rb'"mappingDataVersion":\{"counter":[0-9]+,"stateVersion":[0-9]+,"timestamp":[0-9]+\},')
_DATED_WITHIN_BYTES: Final = 4096
# The fields of RocketMQ's ACL (AclClientRPCHook) that differ between equal registrations: the signature covers the
# changing time in the body, and a token is renewed.
_SIGNATURE: Final = frozenset({"Signature", "SecurityToken"})


def sender_of(header: RegisterBroker) -> Registration:
    """Read the header of a 103 as a registration without topics.

    Raises:
        RegistrationRejected: cluster, brokerName, address or id is missing or cannot be stored (docs/semantics.md 6,
            docs/differences.md D9).
    """
    fields = {
        "clusterName": header.cluster_name,
        "brokerName": header.broker_name,
        "brokerAddr": header.broker_addr,
    }
    fault = next((f"{field} is null or empty" for field, value in fields.items() if not value), None) or header.fault()
    if fault is not None:
        raise RegistrationRejected(f"register broker failed: {fault}; nothing was stored")
    if header.broker_id is None:
        raise RegistrationRejected("register broker failed: brokerId is null or no number; nothing was stored")
    return Registration(
        cluster=header.cluster_name or "",
        broker_name=header.broker_name or "",
        broker_id=header.broker_id,
        broker_addr=header.broker_addr or "",
        ha_server_addr=header.ha_server_addr,
        zone_name=header.zone_name,
        enable_acting_master=header.enable_acting_master,
        heartbeat_timeout_ms=header.heartbeat_timeout_millis,
    )


def digest_of(command: Command) -> str:
    """The digest of a registration: of every header field, the sender's version and the raw body.

    It leaves out what differs between registrations with the same content: the signature, and if the body has the time
    at which it was made, this time and the header field bodyCrc32.
    """
    fields = command.ext_fields or {}
    found, body = dated(command), memoryview(command.body)
    changing = _SIGNATURE | {"bodyCrc32"} if found else _SIGNATURE
    kept = sorted((key, value) for key, value in fields.items() if key not in changing)
    digest = xxhash.xxh3_128(repr((command.version, kept)).encode("utf-8", "surrogatepass"))
    if found:
        digest.update(body[: found.start()])
        body = body[found.end() :]
    digest.update(body)
    return digest.hexdigest()


def dated(command: Command) -> re.Match[bytes] | None:
    """Find the time at which the body was made; None: the body does not have it."""
    return _DATED.search(command.body, 0, _DATED_WITHIN_BYTES)


def cut(
    header: RegisterBroker, command: Command, known: Mapping[bytes, TopicChunk], objects: int | None = None
) -> ChunkedBody | None:
    """Cut the body into chunks if it is large and in the form that Java writes; else return None.

    Args:
        known: digest -> chunk that was decoded before. objects: the number of objects in the body, if it was counted.

    Raises:
        RemoteProtocolError: more topics than one registration may have.
    """
    if len(command.body) < LARGE_BYTES or header.compressed or command.version < VERSION_V3_0_11:
        return None
    return cut_body(command.body, known, now_ms=_now_ms(), objects=objects)


def decoding(
    sender: Registration,
    header: RegisterBroker,
    command: Command,
    chunked: ChunkedBody | None,
    known: MutableMapping[bytes, TopicChunk],
    *,
    mappings: bool,
) -> Slices[Registration]:
    """Decode the whole registration.

    Args:
        sender: the result of :func:`sender_of`. chunked: the result of :func:`cut`.
        known: digest -> chunk that was decoded before.
        mappings: whether compressed bodies end with static topics (5.x).

    Raises:
        RemoteProtocolError: the body cannot be read. RegistrationRejected: a name in the body has a fault.
    """
    body = (yield from chunked.reading_all(known)) if chunked is not None else None
    if body is None:
        is_json = not header.compressed and not begins_like_zlib(command.body)
        if is_json and len(command.body) > MAX_UNCUT_BYTES:
            raise RemoteProtocolError(
                f"a register body of {len(command.body)} bytes that is not JSON as Java writes it: at most "
                f"{MAX_UNCUT_BYTES} are taken (no spaces, each topic once, members in Java's order)"
            )
        body = yield from register.decoding(
            command.body, compressed=header.compressed, version=command.version, now_ms=_now_ms(), mappings=mappings
        )
    return (yield from with_body(sender, body))


def with_body(sender: Registration, body: RegisterBody) -> Slices[Registration]:
    """Put the header and the body of a registration together.

    Raises:
        RegistrationRejected: a name in the body has a fault (docs/differences.md D9), or the body has too many filter
            servers (D18).
    """
    filter_servers = len(body.filter_servers or ())
    if filter_servers > MAX_FILTER_SERVERS:
        raise RegistrationRejected(
            f"register broker failed: {filter_servers} filter servers, at most {MAX_FILTER_SERVERS} are taken; "
            "nothing was stored"
        )
    mapped = {mapping.bname for mapping in body.mappings.values() if mapping.bname}
    for kind, names in (
        ("topic", body.topics),
        ("static topic", body.mappings),
        ("bname", mapped),
        ("filter server", body.filter_servers or ()),
    ):
        left = iter(names)
        while some := list(itertools.islice(left, ENTRIES_PER_SLICE)):
            fault = fault_of_names(some)
            if fault is not None:
                raise RegistrationRejected(f"register broker failed: {kind} {fault}; nothing was stored")
            if len(some) == ENTRIES_PER_SLICE:
                yield
    return msgspec.structs.replace(
        sender,
        data_version=body.data_version,
        topics=body.topics,
        mappings=body.stored_mappings(sender.broker_name),
        filter_servers=body.filter_servers,
    )


def _now_ms() -> int:
    """The timestamp of a body without a data version: the server's clock, as in Java."""
    return int(time.time() * 1000)
