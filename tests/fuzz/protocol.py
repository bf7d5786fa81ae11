"""Streams against the code that reads bytes, without a network: nothing but its own errors may come out."""

from __future__ import annotations

import time
from functools import partial
from random import Random

from mqregistry.behaviour import FIVE, FOUR_EIGHT
from mqregistry.config import properties
from mqregistry.errors import RegistryError, RemoteProtocolError
from mqregistry.protocol import headers, lenient_json
from mqregistry.protocol.bodies.register import null_part
from mqregistry.protocol.bodies.route import decode_cluster_info, decode_route
from mqregistry.protocol.bodies.tables import decode_data_version, decode_kv_table
from mqregistry.protocol.command import Command, decode_command, encode_command
from mqregistry.protocol.frame import FrameReader
from mqregistry.protocol.registration import cut, digest_of, sender_of
from mqregistry.server.net.proxy_protocol import FIRST_BYTES, ProxyHeaderReader
from tests.protocol.at_once import decode_register_body, decode_registration, quote_integer_keys

HEADERS = [
    header for header in vars(headers).values() if isinstance(header, type) and hasattr(header, "from_ext_fields")
]
DECODERS = [
    decode_route,
    decode_data_version,
    decode_kv_table,
    decode_cluster_info,
    partial(decode_register_body, compressed=False, version=36),
    lenient_json.loads,
    quote_integer_keys,
    partial(null_part, version=36),
    partial(null_part, version=479),
    properties.parse,
]


class Tally:
    """What came of it."""

    def __init__(self) -> None:
        self.streams = self.frames = self.commands = self.refusals = 0
        self.slowest_s = 0.0


def feed(data: bytes, cuts: list[int]) -> tuple[list[bytes], str]:
    """The frames of a stream that comes in these pieces, and the error it ends with."""
    reader, frames = FrameReader(), []
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        if reader.error is None and end > start:
            frames += reader.feed(data[start:end])
    return frames, str(reader.error or "")


def try_stream(data: bytes, random: Random, tally: Tally) -> None:
    """Read a stream in every way that a front end would.

    Raises:
        whatever a front end does not expect; AssertionError when the way in which it is cut makes a difference.
    """
    tally.streams += 1
    started = time.thread_time()
    whole = feed(data, [])
    assert whole == feed(data, sorted(random.randrange(len(data) + 1) for _ in range(random.randrange(1, 6))))
    if data and data[0] in FIRST_BYTES:
        try:
            ProxyHeaderReader().feed(data)
        except RegistryError:
            tally.refusals += 1
    for frame in whole[0]:
        tally.frames += 1
        try_frame(frame, tally)
    tally.slowest_s = max(tally.slowest_s, time.thread_time() - started)


def try_frame(frame: bytes, tally: Tally) -> None:
    try:
        command = decode_command(frame)
    except RemoteProtocolError:
        tally.refusals += 1
        return
    tally.commands += 1
    assert isinstance(command.code, int)
    for header in HEADERS:
        header.from_ext_fields(command.ext_fields)
    digest_of(command)
    for decoder in DECODERS:
        try:
            decoder(command.body)
        except (RegistryError, properties.PropertiesSyntaxError):
            tally.refusals += 1
    for version in {command.version, 48, 412, 413}:
        for compressed in (False, True):
            try:
                decode_register_body(command.body, compressed=compressed, version=version, now_ms=1)
            except RegistryError:
                tally.refusals += 1
    try_registration(command, tally)
    encode_again(command)


def try_registration(command: Command, tally: Tally) -> None:
    header = headers.RegisterBroker.from_ext_fields(command.ext_fields)
    for behaviour in (FIVE, FOUR_EIGHT):
        try:
            sender, chunked = sender_of(header), cut(header, command, {})
            behaviour.seen(decode_registration(sender, header, command, chunked, {}, mappings=behaviour.static_topics))
        except RegistryError:
            tally.refusals += 1


def encode_again(command: Command) -> None:
    """What could be read can be written, and reads the same; what was absent may come back as its default."""
    try:
        frame = encode_command(command)
    except RegistryError:
        return
    again = decode_command(frame[4:])
    command.opaque = command.opaque or 0
    if not command.ext_fields:
        again.ext_fields = command.ext_fields
    assert again == command, (again, command)
