"""Decodes and encodes the body of a registerBroker request (103), in each of its three forms.

It is JSON, zlib-compressed, or the bare wrapper of very old brokers.

The compressed form is a zlib stream of: the data version's JSON, the number of topics, one line per topic
(``name readQueues writeQueues perm filterType[ attributes]``), the filter server list's JSON, and from sender
version 413 on the number of static topic mappings and their JSON. Numbers are int32; each text has its length
in bytes before it. It carries no topicSysFlag.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from ...errors import LocalProtocolError, RemoteProtocolError
from ...model import DataVersion, Int32, TopicConfig, TopicQueueMapping
from .. import lenient_json
from ..codes import SERVER_VERSION, VERSION_V3_0_11, VERSION_V5_0_0
from ..numbers import parse_int
from . import wire_json
from .wire_json import TolerantDecoder, WireMapping, WireVersion

MAX_INFLATED_BYTES: Final = 64 * 1024 * 1024

MAX_ENTRIES: Final = 100_000
"""Topics, mappings and filter servers of one registration: Redis serves nobody else while it writes them."""

_UNCOUNTED_BYTES: Final = 4 * 1024 * 1024
_PIECE_BYTES: Final = 1 << 18
_LENGTH: Final = struct.Struct(">i")
_FILTER_TYPES: Final = frozenset({"SINGLE_TAG", "MULTI_TAG"})


class RegisterBody(msgspec.Struct, frozen=True):
    """What a broker says about itself beyond the header.

    topics: topic name -> its configuration.
    mappings: topic name -> static topic mapping at this broker.
    filter_servers: None leaves the list as it is, an empty list removes it.
    """

    data_version: DataVersion = DataVersion()
    topics: dict[str, TopicConfig] = {}
    mappings: dict[str, TopicQueueMapping] = {}
    filter_servers: list[str] | None = []

    def stored_mappings(self, broker_name: str) -> dict[str, tuple[str, str]]:
        """Topic -> (brokerName, JSON) of its mapping, as a Registration of this brokerName holds them."""
        return {
            topic: (mapping.bname or broker_name, wire_json.encode_mapping(mapping).decode())
            for topic, mapping in self.mappings.items()
        }


class _WireTopic(msgspec.Struct, rename="camel", gc=False):
    """TopicConfig as JSON has it, with Java's defaults."""

    topic_name: str | None = None
    read_queue_nums: Int32 = 16
    write_queue_nums: Int32 = 16
    perm: Int32 = 6
    topic_sys_flag: Int32 = 0


class _WireWrapper(msgspec.Struct, rename="camel"):
    data_version: WireVersion | None = None
    topic_config_table: dict[str, _WireTopic] | None = None
    topic_queue_mapping_info_map: dict[str, WireMapping] | None = None


class WireBody(msgspec.Struct, rename="camel"):
    """A register body as JSON has it."""

    topic_config_serialize_wrapper: _WireWrapper | None = None
    filter_server_list: list[str] | None = msgspec.field(default_factory=list)


_body: Final = TolerantDecoder(WireBody, "register body", nulls=frozenset({"filterServerList"}))
_wrapper: Final = TolerantDecoder(_WireWrapper, "topic table")
_version: Final = TolerantDecoder(WireVersion, "data version")
_filter_servers: Final = TolerantDecoder(list[str], "filter server list")


def decode_register_body(
    body: bytes,
    *,
    compressed: bool,
    version: int,
    now_ms: int = 0,
    mappings: bool = True,
    max_inflated_bytes: int = MAX_INFLATED_BYTES,
) -> RegisterBody:
    """Read the body of a registration, in whichever form it came.

    Args:
        body: b"" when there is none, which is a data version of zeros and no topics.
        compressed: what the header says. A body that begins like zlib and inflates is read as compressed all the
            same: 5.x brokers compress, but say they did not. (Java refuses those.)
        version: the sender's, from the command header; below V3_0_11 the body is a bare topic table.
        now_ms: the timestamp of a data version that the body leaves out; Java takes its clock.
        mappings: read the static topic mappings at the end of the compressed form (5.x).
        max_inflated_bytes: no more than this is ever inflated.

    Raises:
        RemoteProtocolError: undecodable, or larger than allowed; ``closes`` is false.
    Cost: 10,000 topics (1.7 MB) take about 4 ms as JSON.
    Source: DefaultRequestProcessor.registerBroker and RegisterBrokerBody.decode of RocketMQ 4.8 and 5.x; what they
        tolerate was found by trying.
    """
    if version < VERSION_V3_0_11:
        return decode_topic_config_wrapper(body, now_ms=now_ms)
    if not body:
        return RegisterBody()
    if compressed or _begins_like_zlib(body):
        return _decode_compressed(_inflate(body, max_inflated_bytes), now_ms, mappings and version >= VERSION_V5_0_0)
    check_objects(body)
    wire = _body.decode(body)
    return _register_body(wire.topic_config_serialize_wrapper, wire.filter_server_list, now_ms)


def decode_topic_config_wrapper(body: bytes, *, now_ms: int = 0) -> RegisterBody:
    """Read the bare topic table that brokers before 3.0.11 send; it leaves the filter servers as they are.

    Raises:
        RemoteProtocolError: undecodable; ``closes`` is false.
    """
    if not body:
        return RegisterBody(filter_servers=None)
    check_objects(body)
    return _register_body(None if wire_json.is_null(body) else _wrapper.decode(body), None, now_ms)


def _register_body(wrapper: _WireWrapper | None, filter_servers: list[str] | None, now_ms: int) -> RegisterBody:
    if wrapper is None:
        wrapper = _WireWrapper()
    topics: dict[str, TopicConfig] = {}
    for key, wire in (wrapper.topic_config_table or {}).items():
        name = wire.topic_name or key
        topics[name] = TopicConfig(name, wire.read_queue_nums, wire.write_queue_nums, wire.perm, wire.topic_sys_flag)
    mappings = {key: wire.value() for key, wire in (wrapper.topic_queue_mapping_info_map or {}).items()}
    _check_size(len(topics) + len(mappings) + len(filter_servers or ()))
    return RegisterBody(wire_json.data_version(wrapper.data_version, now_ms), topics, mappings, filter_servers)


def _check_size(entries: int) -> None:
    if entries > MAX_ENTRIES:
        raise RemoteProtocolError(
            f"a registration of {entries} topics, mappings and filter servers: at most {MAX_ENTRIES} are taken at "
            "once; a 5.x broker sends them in parts with enableSplitRegistration=true"
        )


def check_objects(body: bytes) -> None:
    """Refuse a body of too many topics before it is decoded, which would take a second.

    A topic is two objects, a static one has two or three more.
    """
    if len(body) > _UNCOUNTED_BYTES:
        _check_size(body.count(b"{") // 4)


def null_part(body: bytes, version: int) -> str | None:
    """Which part of a registration is an explicit null in JSON: "wrapper", "table" or, as nearly always, None.

    Java trips over such a null and yet answers that all is well. No real broker writes one. ``version``: the sender's.
    """
    bare = version < VERSION_V3_0_11
    if bare and wire_json.is_null(body):
        return "wrapper"
    if b"null" not in body or (not bare and _begins_like_zlib(body)):
        return None
    try:
        whole = lenient_json.loads(body)
    except RemoteProtocolError:
        return None
    wrapper = whole if bare else whole.get("topicConfigSerializeWrapper", {}) if isinstance(whole, dict) else {}
    if wrapper is None:
        return "wrapper"
    return "table" if isinstance(wrapper, dict) and wrapper.get("topicConfigTable", {}) is None else None


def text_bytes(body: bytes, *, compressed: bool) -> int:
    """How large a body is once it is inflated, in bytes; of one that does not inflate, as far as it does.

    Cost: 3 ms for each MB of text; little memory, whatever the body says.
    """
    if not compressed and not _begins_like_zlib(body):
        return len(body)
    inflater, size = zlib.decompressobj(), 0
    try:
        while body and size <= MAX_INFLATED_BYTES:
            size += len(inflater.decompress(body, _PIECE_BYTES))
            body = inflater.unconsumed_tail
    except zlib.error:
        pass
    return size


def _begins_like_zlib(body: bytes) -> bool:
    """RFC 1950: method 8 and a header that is a multiple of 31; no JSON text begins with these bytes."""
    return len(body) >= 2 and body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0


def _inflate(body: bytes, limit_bytes: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        inflated = inflater.decompress(body, limit_bytes + 1)
    except zlib.error as error:
        raise RemoteProtocolError(f"bad zlib stream: {error}") from None
    if len(inflated) > limit_bytes:
        raise RemoteProtocolError(f"a body inflates to more than {limit_bytes} bytes")
    # A stream without its end is no error here, nor in Java: what is missing shows when it is read.
    return inflated


class _Inflated:
    """Reads the inflated form from front to back."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        try:
            (number,) = _LENGTH.unpack_from(self._data, self._at)
        except struct.error:
            raise RemoteProtocolError("compressed register body ends too early") from None
        self._at += _LENGTH.size
        return int(number)

    def text(self) -> bytes:
        size = self.number()
        start, self._at = self._at, self._at + size
        if size < 0 or self._at > len(self._data):
            raise RemoteProtocolError("compressed register body ends too early")
        return self._data[start : self._at]


def _decode_compressed(data: bytes, now_ms: int, with_mappings: bool) -> RegisterBody:
    inflated = _Inflated(data)
    data_version = wire_json.data_version(_version.decode(inflated.text()), now_ms)
    topics: dict[str, TopicConfig] = {}
    count = inflated.number()
    _check_size(count)
    for _ in range(count):
        topic = _decode_topic_line(inflated.text())
        topics[topic.topic_name] = topic
    filter_servers = _decode_filter_servers(inflated.text())
    mappings: dict[str, TopicQueueMapping] = {}
    if with_mappings:
        count = inflated.number()
        _check_size(count)
        for _ in range(count):
            mapping = wire_json.decode_mapping(inflated.text())
            if mapping.topic is None:
                raise RemoteProtocolError("a static topic mapping without a topic")
            mappings[mapping.topic] = mapping
    _check_size(len(topics) + len(mappings) + len(filter_servers or ()))
    return RegisterBody(data_version, topics, mappings, filter_servers)


def _decode_topic_line(line: bytes) -> TopicConfig:
    words = line.decode("utf-8", "replace").split(" ", 5)
    if len(words) >= 5 and words[4] in _FILTER_TYPES:
        read, write, perm = parse_int(words[1]), parse_int(words[2]), parse_int(words[3])
        if read is not None and write is not None and perm is not None:
            return TopicConfig(words[0], read, write, perm)
    raise RemoteProtocolError(f"bad topic line {line[:80]!r}")


def _decode_filter_servers(data: bytes) -> list[str] | None:
    # Java keeps going without the list when it cannot read it, and reads nothing as null.
    if data.strip() in (b"", b"null"):
        return None
    try:
        return _filter_servers.decode(data)
    except RemoteProtocolError:
        return []


def encode_register_body(
    body: RegisterBody,
    *,
    compressed: bool = False,
    version: int = SERVER_VERSION,
    order_topics: Collection[str] = (),
) -> bytes:
    """Write the body of a registration as a broker does.

    Args:
        compressed: write the zlib form; it cannot carry topic_sys_flag, which arrives as 0.
        version: what the command header will say. Before 5.x there are no mappings, no stateVersion and no
            attributes, on which a 4.8 name server trips in the compressed form.
        order_topics: topics that are marked as ordered (in JSON; no name server reads it).

    Raises:
        LocalProtocolError: a topic name with a space in the compressed form.
    """
    if compressed:
        return _encode_compressed(body, version)
    five = version >= VERSION_V5_0_0
    table = b",".join(
        b"%b:%b" % (wire_json.text(name), _topic_json(topic, name in order_topics, five))
        for name, topic in body.topics.items()
    )
    return b'{"filterServerList":%b,"topicConfigSerializeWrapper":{"dataVersion":%b,%b"topicConfigTable":{%b}%b}}' % (
        wire_json.text(body.filter_servers),
        wire_json.data_version_json(body.data_version, state_version=five),
        _mapping_version(body.data_version) if five else b"",
        table,
        _mappings(body.mappings) if five else b"",
    )


def _mapping_version(version: DataVersion) -> bytes:
    """The second version of a 5.x body. Nobody reads it; Java writes the present time, so no two bodies are equal."""
    return b'"mappingDataVersion":%b,' % wire_json.data_version_json(DataVersion(0, version.timestamp, 0))


def _mappings(mappings: Mapping[str, TopicQueueMapping]) -> bytes:
    members = (b"%b:%b" % (wire_json.text(name), wire_json.encode_mapping(value)) for name, value in mappings.items())
    return b',"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{%b}' % b",".join(members)


def _topic_json(topic: TopicConfig, order: bool, five: bool) -> bytes:
    return (
        b'{%b"order":%b,"perm":%d,"readQueueNums":%d,"topicFilterType":"SINGLE_TAG",'
        b'"topicName":%b,"topicSysFlag":%d,"writeQueueNums":%d}'
    ) % (
        b'"attributes":{},' if five else b"",
        b"true" if order else b"false",
        topic.perm,
        topic.read_queue_nums,
        wire_json.text(topic.topic_name),
        topic.topic_sys_flag,
        topic.write_queue_nums,
    )


def _encode_compressed(body: RegisterBody, version: int) -> bytes:
    data_version = wire_json.data_version_json(body.data_version, state_version=version >= VERSION_V5_0_0)
    parts = [_with_length(data_version), _LENGTH.pack(len(body.topics))]
    parts += map(_with_length, _topic_lines(body.topics.values(), version))
    parts.append(_with_length(wire_json.text(body.filter_servers)))
    if version >= VERSION_V5_0_0:
        parts.append(_LENGTH.pack(len(body.mappings)))
        parts += (_with_length(wire_json.encode_mapping(mapping)) for mapping in body.mappings.values())
    return zlib.compress(b"".join(parts))


def _topic_lines(topics: Iterable[TopicConfig], version: int) -> Iterable[bytes]:
    attributes = " {}" if version >= VERSION_V5_0_0 else ""
    for topic in topics:
        if " " in topic.topic_name:
            raise LocalProtocolError(f"topic {topic.topic_name!r} has a space: it cannot be sent compressed")
        numbers = f"{topic.read_queue_nums} {topic.write_queue_nums} {topic.perm}"
        yield f"{topic.topic_name} {numbers} SINGLE_TAG{attributes}".encode()


def _with_length(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


def body_crc32(body: bytes) -> int:
    """The value of the header field bodyCrc32: CRC-32 without its sign bit."""
    return zlib.crc32(body) & 0x7FFFFFFF


def check_crc32(body: bytes, header_crc: int | None) -> bool:
    """Whether the body has the CRC of the header. 0 and None are not checked; an empty body has no CRC but 0."""
    if not header_crc:
        return True
    return bool(body) and body_crc32(body) == header_crc
