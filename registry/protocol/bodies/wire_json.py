"""Reads and writes JSON for several bodies: tolerant decoding, data versions, static topic mappings.

JSON is written as in Java, without spaces and with sorted keys: some Go clients split a route at ``,`` and ``:``
instead of parsing it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec

from ...errors import RemoteProtocolError
from ...model import DataVersion, Int32, TopicQueueMapping
from .. import lenient_json
from ..slices import Slices, finish

T = TypeVar("T")

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class TolerantDecoder(Generic[T]):
    """Reads JSON into a type, and accepts what fastjson 1 accepts.

    msgspec reads standard JSON in one pass, and JSON with unquoted integer keys in a second pass; the parser of
    ``lenient_json`` reads other texts. Numbers may be strings. A null counts as absent where the type has no null.

    Args:
        kind: the type of the value.
        what: its name in error messages.
        nulls: keys whose null does not count as absent.
    """

    def __init__(self, kind: type[T], what: str, *, nulls: frozenset[str] = frozenset()) -> None:
        self._kind = kind
        self._what = what
        self._nulls = nulls
        self._decode = msgspec.json.Decoder(kind, strict=False).decode

    def decode(self, data: bytes) -> T:
        """Read one value; RemoteProtocolError (``closes`` is false): fastjson 1 would refuse it, or another type."""
        return finish(self.decoding(data))

    def decoding(self, data: bytes) -> Slices[T]:
        """Do what :meth:`decode` does, in slices."""
        value = yield from self._decoding_standard(data)
        if value is not None:
            return value
        try:
            plain = self._without_nulls(lenient_json.loads(data))
            return msgspec.convert(plain, self._kind, strict=False, str_keys=True)
        except (RemoteProtocolError, *lenient_json.REFUSALS) as error:
            raise RemoteProtocolError(f"bad {self._what}: {error}") from None

    def decode_standard(self, data: bytes) -> T | None:
        """Read one value in standard JSON, or with integer keys without quotes; None: other JSON, or another type."""
        return finish(self._decoding_standard(data))

    def _decoding_standard(self, data: bytes) -> Slices[T | None]:
        try:
            return self._decode(data)
        except lenient_json.REFUSALS:
            pass
        quoted = yield from lenient_json.quoting_integer_keys(data)
        if quoted != data:
            yield
            try:
                return self._decode(quoted)
            except lenient_json.REFUSALS:
                pass
        return None

    def _without_nulls(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: self._without_nulls(member)
                for key, member in value.items()
                if member is not None or key in self._nulls
            }
        if isinstance(value, list):
            return [self._without_nulls(member) for member in value if member is not None]
        return value


def is_null(body: bytes) -> bool:
    """Whether Java reads a whole body as null: ``null``, ``""``, or ``[]`` (except 5.5.0)."""
    return body.strip() in (b"null", b'""', b"[]")


text: Final = msgspec.json.Encoder().encode
"""Any string, list of strings or dict of strings as compact JSON, raw UTF-8."""


def integer_map(items: Mapping[int, object], quoted_keys: bool) -> bytes:
    """``{0:"a",1:"b"}``, or with quoted keys; ordered by key."""
    quote = b'"' if quoted_keys else b""
    return b"{%b}" % b",".join(b"%b%d%b:%b" % (quote, key, quote, text(value)) for key, value in sorted(items.items()))


def members(pairs: Iterable[tuple[str, bytes | None]]) -> bytes:
    """A JSON object of these keys and encoded values; None is left out, as fastjson leaves out null."""
    return b"{%b}" % b",".join(b"%b:%b" % (text(key), value) for key, value in pairs if value is not None)


class WireVersion(msgspec.Struct, rename="camel"):
    """DataVersion as JSON has it."""

    counter: Int64 = 0
    state_version: Int64 = 0
    timestamp: Int64 | None = None


def data_version(version: WireVersion | None, now_ms: int) -> DataVersion:
    """The version as a DataVersion; an absent timestamp is ``now_ms``, as in Java's ``new DataVersion()``."""
    if version is None:
        return DataVersion(0, now_ms, 0)
    timestamp = now_ms if version.timestamp is None else version.timestamp
    return DataVersion(version.counter, timestamp, version.state_version)


def encode_data_version(version: DataVersion, *, state_version: bool = True) -> bytes:
    """``{"counter":1,"stateVersion":0,"timestamp":1700000000000}``; 4.x knows no stateVersion."""
    state = b'"stateVersion":%d,' % version.state_version if state_version else b""
    return b'{"counter":%d,%b"timestamp":%d}' % (version.counter, state, version.timestamp)


class WireMapping(msgspec.Struct, rename="camel"):
    """TopicQueueMappingInfo as JSON has it, with Java's defaults."""

    topic: str | None = None
    scope: str | None = "__global__"
    total_queues: Int32 = 0
    bname: str | None = None
    epoch: Int64 = 0
    dirty: bool = False
    curr_id_map: dict[Int32, Int32] | None = msgspec.field(default_factory=dict)

    def value(self) -> TopicQueueMapping:
        """The mapping as a TopicQueueMapping."""
        return TopicQueueMapping(
            self.topic, self.bname, self.total_queues, self.epoch, self.dirty, self.scope, self.curr_id_map
        )


_mapping: Final = TolerantDecoder(WireMapping, "static topic mapping")


def decode_mapping(data: bytes) -> TopicQueueMapping:
    """Read one static topic mapping, with or without quotes around queue ids."""
    return _mapping.decode(data).value()


def encode_mapping(mapping: TopicQueueMapping, *, quoted_keys: bool = True) -> bytes:
    """Write one static topic mapping; quoted queue ids make it standard JSON."""
    ids = mapping.curr_id_map
    return members(
        (
            ("bname", None if mapping.bname is None else text(mapping.bname)),
            ("currIdMap", None if ids is None else integer_map(ids, quoted_keys)),
            ("dirty", text(mapping.dirty)),
            ("epoch", text(mapping.epoch)),
            ("scope", None if mapping.scope is None else text(mapping.scope)),
            ("topic", None if mapping.topic is None else text(mapping.topic)),
            ("totalQueues", text(mapping.total_queues)),
        )
    )
