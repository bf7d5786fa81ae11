"""Decodes and encodes the body of a registerBroker request (103): JSON, compressed, or a bare topic table.

Brokers before 3.0.11 send the bare topic table. The compressed form is a zlib stream of: the data version's JSON, the
number of topics, one line per topic (``name readQueues writeQueues perm filterType[ attributes]``), the filter server
list's JSON, and from sender version 413 on the number of static topic mappings and their JSON. Numbers are int32; each
text has its length in bytes before it. The compressed form has no topicSysFlag.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from ...errors import LocalProtocolError, RemoteProtocolError
from ...model import DataVersion, Int32, QueueData, TopicQueueMapping
from .. import lenient_json
from ..codes import SERVER_VERSION, VERSION_V3_0_11, VERSION_V5_0_0
from ..slices import Slices
from . import register_compressed, wire_json
from .register_compressed import BodySize, begins_like_zlib
from .register_content import ENTRIES_PER_SLICE, MAX_ENTRIES, RegisterBody, check_entries
from .wire_json import TolerantDecoder, WireMapping, WireVersion

_UNCOUNTED_BYTES: Final = 256 * 1024
# The most objects in a JSON body: all topics with their attributes. To decode them takes 100 ms without a pause.
_MOST_OBJECTS: Final = 2 * MAX_ENTRIES + 1000
_LENGTH: Final = struct.Struct(">i")


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


JSON_BODY: Final = TolerantDecoder(WireBody, "register body", nulls=frozenset({"filterServerList"}))
_wrapper: Final = TolerantDecoder(_WireWrapper, "topic table")


def decoding(
    body: bytes, *, compressed: bool, version: int, now_ms: int = 0, mappings: bool = True
) -> Slices[RegisterBody]:
    """Read the body of a registration in any of its forms.

    Args:
        body: b"" when there is none; the result then has a data version of zeros and no topics.
        compressed: the header field. A body that begins like zlib is read as compressed in any case: 5.x brokers
            compress, but send false. (Java refuses those.)
        version: the sender's, from the command header; below V3_0_11 the body is a bare topic table.
        now_ms: the timestamp of a data version that the body leaves out; Java takes its clock.
        mappings: read the static topic mappings at the end of the compressed form (5.x).

    Raises:
        RemoteProtocolError: the body cannot be decoded, or is larger than allowed; ``closes`` is false.
    Cost: 10,000 topics (1.7 MB) take about 4 ms as JSON.
    Source: DefaultRequestProcessor.registerBroker and RegisterBrokerBody.decode of RocketMQ 4.8 and 5.x; the
        faults that they tolerate were found with running servers.
    """
    is_bare = version < VERSION_V3_0_11
    if not body:
        return RegisterBody(filter_servers=None) if is_bare else RegisterBody()
    if is_bare:
        check_objects(body, _MOST_OBJECTS)
        wrapper = None if wire_json.is_null(body) else (yield from _wrapper.decoding(body))
        return (yield from _register_body(wrapper, None, now_ms))  # the stored filter servers stay
    if compressed or begins_like_zlib(body):
        with_mappings = mappings and version >= VERSION_V5_0_0
        return (yield from register_compressed.decoding(body, now_ms, with_mappings=with_mappings))
    check_objects(body, _MOST_OBJECTS)
    wire = yield from JSON_BODY.decoding(body)
    return (yield from _register_body(wire.topic_config_serialize_wrapper, wire.filter_server_list, now_ms))


def _register_body(wrapper: _WireWrapper | None, filter_servers: list[str] | None, now_ms: int) -> Slices[RegisterBody]:
    if wrapper is None:
        wrapper = _WireWrapper()
    table, mapping_table = wrapper.topic_config_table or {}, wrapper.topic_queue_mapping_info_map or {}
    check_entries(len(table) + len(mapping_table) + len(filter_servers or ()))
    topics: dict[str, QueueData] = {}
    for number, (key, wire) in enumerate(table.items()):
        if number % ENTRIES_PER_SLICE == 0:
            yield
        numbers = wire.read_queue_nums, wire.write_queue_nums, wire.perm, wire.topic_sys_flag
        topics[wire.topic_name or key] = QueueData(*numbers)
    mappings = {key: wire.value() for key, wire in mapping_table.items()}
    return RegisterBody(wire_json.data_version(wrapper.data_version, now_ms), topics, mappings, filter_servers)


def check_objects(body: bytes, most: int, objects: int | None = None) -> None:
    """Refuse a body with too many objects before it is decoded: decoding would take a second.

    A topic is one or two objects, a static topic has two or three more.

    Args:
        objects: the number of objects, if it was counted.
    """
    if len(body) > _UNCOUNTED_BYTES:
        objects = body.count(b"{") if objects is None else objects
        if objects > most:
            check_entries(max(objects // 4, MAX_ENTRIES + 1))


def measuring(body: bytes, *, compressed: bool) -> Slices[BodySize]:
    """Find the size of a body after inflating, and about how many objects are in it."""
    if compressed or begins_like_zlib(body):
        return (yield from register_compressed.measuring(body))
    return BodySize(len(body), body.count(b"{"))


def null_part(body: bytes, version: int) -> str | None:
    """The part of a registration ("wrapper" or "table") that is an explicit null in JSON; None: no part.

    At such a null, which no real broker writes, Java fails, although it answers success. ``version``: the sender's.
    """
    bare = version < VERSION_V3_0_11
    if bare and wire_json.is_null(body):
        return "wrapper"
    if b"null" not in body or (not bare and begins_like_zlib(body)) or len(body) > lenient_json.MAX_BYTES:
        return None
    try:
        whole = lenient_json.loads(body)
    except RemoteProtocolError:
        return None
    wrapper = whole if bare else whole.get("topicConfigSerializeWrapper", {}) if isinstance(whole, dict) else {}
    if wrapper is None:
        return "wrapper"
    return "table" if isinstance(wrapper, dict) and wrapper.get("topicConfigTable", {}) is None else None


def encode_register_body(
    body: RegisterBody, *, compressed: bool = False, version: int = SERVER_VERSION, order_topics: Collection[str] = ()
) -> bytes:
    """Write the body of a registration as a broker does.

    Args:
        compressed: write the zlib form, which has no topic_sys_flag: name servers then read 0.
        version: the sender's, as in the command header. Before 5.x a body has no mappings, no stateVersion and no
            attributes (a 4.8 name server cannot read a compressed body with attributes).
        order_topics: topics that are marked as ordered (in JSON; no name server reads it).

    Raises:
        LocalProtocolError: a topic name with a space in the compressed form.
    """
    if compressed:
        return _encode_compressed(body, version)
    five = version >= VERSION_V5_0_0
    table = b",".join(
        b"%b:%b" % (wire_json.text(name), _topic_json(name, queue_data, name in order_topics, five))
        for name, queue_data in body.topics.items()
    )
    return b'{"filterServerList":%b,"topicConfigSerializeWrapper":{"dataVersion":%b,%b"topicConfigTable":{%b}%b}}' % (
        wire_json.text(body.filter_servers),
        wire_json.encode_data_version(body.data_version, state_version=five),
        _mapping_version(body.data_version) if five else b"",
        table,
        _mappings(body.mappings) if five else b"",
    )


def _mapping_version(version: DataVersion) -> bytes:
    """The second data version of a 5.x body. No server reads it; its time is the table's (in Java the present time)."""
    return b'"mappingDataVersion":%b,' % wire_json.encode_data_version(DataVersion(0, version.timestamp, 0))


def _mappings(mappings: Mapping[str, TopicQueueMapping]) -> bytes:
    members = (b"%b:%b" % (wire_json.text(name), wire_json.encode_mapping(value)) for name, value in mappings.items())
    return b',"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{%b}' % b",".join(members)


def _topic_json(topic: str, queue_data: QueueData, order: bool, five: bool) -> bytes:
    return (
        b'{%b"order":%b,"perm":%d,"readQueueNums":%d,"topicFilterType":"SINGLE_TAG",'
        b'"topicName":%b,"topicSysFlag":%d,"writeQueueNums":%d}'
    ) % (
        b'"attributes":{},' if five else b"",
        b"true" if order else b"false",
        queue_data.perm,
        queue_data.read_queue_nums,
        wire_json.text(topic),
        queue_data.topic_sys_flag,
        queue_data.write_queue_nums,
    )


def _encode_compressed(body: RegisterBody, version: int) -> bytes:
    data_version = wire_json.encode_data_version(body.data_version, state_version=version >= VERSION_V5_0_0)
    parts = [_with_length(data_version), _LENGTH.pack(len(body.topics))]
    parts += map(_with_length, _topic_lines(body.topics, version))
    parts.append(_with_length(wire_json.text(body.filter_servers)))
    if version >= VERSION_V5_0_0:
        parts.append(_LENGTH.pack(len(body.mappings)))
        parts += (_with_length(wire_json.encode_mapping(mapping)) for mapping in body.mappings.values())
    return zlib.compress(b"".join(parts))


def _topic_lines(topics: Mapping[str, QueueData], version: int) -> Iterable[bytes]:
    attributes = " {}" if version >= VERSION_V5_0_0 else ""
    for topic, queue_data in topics.items():
        if " " in topic:
            raise LocalProtocolError(f"topic {topic!r} has a space: it cannot be sent compressed")
        numbers = f"{queue_data.read_queue_nums} {queue_data.write_queue_nums} {queue_data.perm}"
        yield f"{topic} {numbers} SINGLE_TAG{attributes}".encode()


def _with_length(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data
