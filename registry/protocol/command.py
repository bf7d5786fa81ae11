"""Decodes and encodes one remoting command: a header in one of two encodings, and a body.

A JSON header is one object. A binary (ROCKETMQ) header has: code i16, language i8, version i16, opaque i32, flag i32,
remark (i32 length, UTF-8), extFields (i32 length; for each entry: i16 length, key, i32 length, value).
"""

from __future__ import annotations

import re
import struct
from typing import Annotated, Any, Final, TypeVar

import msgspec

from ..errors import LocalProtocolError, RemoteProtocolError
from . import lenient_json
from .codes import FLAG_ONEWAY, FLAG_RESPONSE, LANGUAGES, SERVER_VERSION, Encoding

_HEAD: Final = struct.Struct(">II")  # length word, mark word
_MARK: Final = struct.Struct(">I")
_BINARY_FIXED: Final = struct.Struct(">hbhiii")  # the last is the length of the remark
_INT32: Final = struct.Struct(">i")
_INT16: Final = struct.Struct(">h")
_HEADER_MASK: Final = 0xFFFFFF

MAX_HEADER_BYTES: Final = 256 * 1024
"""The longest header that is decoded; a frame full of fields would take the event loop a second. The longest real
headers have a KV value."""
MAX_BINARY_FIELDS: Final = 4096
_MAX_LENIENT_BYTES: Final = 16 * 1024
_JSON: Final = Encoding.JSON
_ROCKETMQ: Final = Encoding.ROCKETMQ
_INT32_MIN: Final = -(2**31)
_INT32_MAX: Final = 2**31 - 1
_OTHER: Final = LANGUAGES.index("OTHER")

Int32 = Annotated[int, msgspec.Meta(ge=_INT32_MIN, le=_INT32_MAX)]

# decode_command sets body and encoding. Their names begin with a space here, so that a header's JSON cannot set them.
_RENAME: Final = {
    "ext_fields": "extFields", "body": " body", "encoding": " encoding", "serialize_type": "serializeTypeCurrentRPC",
}  # fmt: skip


# Unknown names are forbidden, so that a header with another spelling of a name ("CODE") is read again, leniently.
class Command(msgspec.Struct, kw_only=True, gc=False, rename=_RENAME, forbid_unknown_fields=True):
    """A request or a reply, as a frame holds it."""

    # In the order of Java's headers: msgspec then finds the fields 10 % faster.
    code: Int32 = 0
    ext_fields: dict[str, str] | None = None  # None and {} differ in JSON and are the same in binary
    flag: Int32 = 0  # FLAG_RESPONSE and FLAG_ONEWAY, or-ed
    language: str = "JAVA"  # a name of LANGUAGES; unknown names stay as they are, unknown numbers become digits
    # may be negative; None: absent in a JSON header; Java then answers with the next number of its own counter
    opaque: Int32 | None = None
    remark: str | None = None
    version: Int32 = 0  # MQVersion number of the sender
    serialize_type: str | None = None  # the encoding's name in a JSON header; decode_command sets None
    body: bytes = b""  # b"" when there is none
    encoding: Encoding = _JSON  # of the header

    @property
    def is_response(self) -> bool:
        """Whether this is a response."""
        return bool(self.flag & FLAG_RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """Whether the sender expects no reply."""
        return bool(self.flag & FLAG_ONEWAY)


# Not strict: numbers may be strings, as fastjson allows.
_json_header = msgspec.json.Decoder(Command, strict=False)
_any_header = msgspec.json.Decoder(dict[str, msgspec.Raw])
# fastjson 1 ignores case, _ and - in the names of members.
_MEMBERS: Final = {
    name.lower(): name for name in ("code", "extFields", "flag", "language", "opaque", "remark", "version")
}
# fastjson 1 skips one byte order mark at the beginning, and control characters before and after the object.
_BOM: Final = b"\xef\xbb\xbf"
_CONTROL: Final = bytes((*range(0x21), 0x7F))


def decode_command(frame: bytes, keep_empty_fields: bool = False) -> Command:
    """Decode one frame into a command.

    Args:
        frame: from the mark word on, as FrameReader returns it.
        keep_empty_fields: a value of length 0 in a binary header is an empty text (4.8); if false, it counts as absent.

    Raises:
        RemoteProtocolError: the header is empty, too long, truncated, or no JSON object even for fastjson 1; its
            serializer byte is unknown; a number is no int32. ``closes`` is true.
    Source: RemotingCommand.decode; what Java accepts was measured on running servers.
    """
    try:
        (mark,) = _MARK.unpack_from(frame)
    except struct.error:
        raise RemoteProtocolError("a frame without a mark word", closes=True) from None
    stop = 4 + (mark & _HEADER_MASK)
    if stop > len(frame):
        raise RemoteProtocolError(f"header of {stop - 4} bytes in a frame of {len(frame)}", closes=True)
    if stop > 4 + MAX_HEADER_BYTES:
        raise RemoteProtocolError(f"a header of {stop - 4} bytes: at most {MAX_HEADER_BYTES} are taken", closes=True)
    header = frame[4:stop]
    if mark <= _HEADER_MASK:  # the serializer byte is 0, JSON
        if not header:
            raise RemoteProtocolError("a frame with an empty header", closes=True)
        try:
            command = _json_header.decode(header)
        except lenient_json.REFUSALS:
            command = _decode_other_header(header)
        command.encoding, command.serialize_type = _JSON, None
    elif mark >> 24 == _ROCKETMQ:
        command = _decode_binary_header(header, keep_empty_fields)
    else:
        raise RemoteProtocolError(f"unknown header serializer {mark >> 24}", closes=True)
    command.body = frame[stop:]
    return command


def _decode_other_header(header: bytes) -> Command:
    """Decode a JSON header that is not in the usual form."""
    header = header.removeprefix(_BOM).strip(_CONTROL)
    try:
        return _json_header.decode(msgspec.json.encode(_named(_any_header.decode(header))))
    except lenient_json.REFUSALS:
        return _decode_lenient_header(header)


_Value = TypeVar("_Value")


def _named(fields: dict[str, _Value]) -> dict[str, _Value]:
    """The known members by their usual names; of several spellings of a name, the first counts."""
    named: dict[str, _Value] = {}
    for key, value in fields.items():
        name = _MEMBERS.get(key.lower().replace("_", "").replace("-", ""))
        if name is not None:
            named.setdefault(name, value)
    return named


def _decode_lenient_header(header: bytes) -> Command:
    if len(header) > _MAX_LENIENT_BYTES:
        raise RemoteProtocolError(
            f"a header of {len(header)} bytes is not standard JSON, or a value has a wrong type: at most "
            f"{_MAX_LENIENT_BYTES} bytes of such a header are taken", closes=True,
        )  # fmt: skip
    try:
        fields = lenient_json.loads(header)
    except RemoteProtocolError as error:
        raise RemoteProtocolError(f"bad header: {error}", closes=True) from None
    if not isinstance(fields, dict):
        raise RemoteProtocolError("the header is no JSON object", closes=True)
    fields = _named(fields)
    ext_fields = fields.get("extFields")
    if ext_fields is not None and not isinstance(ext_fields, dict):
        raise RemoteProtocolError("extFields is no JSON object", closes=True)
    remark = fields.get("remark")
    opaque = fields.get("opaque")
    return Command(
        code=_lenient_int32(fields.get("code")),
        opaque=None if opaque is None else _lenient_int32(opaque),
        flag=_lenient_int32(fields.get("flag")),
        version=_lenient_int32(fields.get("version")),
        language=_lenient_language(fields.get("language")),
        remark=None if remark is None else _as_text(remark),
        ext_fields=None
        if ext_fields is None
        else {str(key): _as_text(value) for key, value in ext_fields.items() if value is not None},
    )


def _lenient_int32(value: Any) -> int:
    """Read an int32 from a number or its text; a missing value is 0, the default of Java's int."""
    if value is None:
        return 0
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = _INT32_MAX + 1
    if not _INT32_MIN <= number <= _INT32_MAX:
        raise RemoteProtocolError("a header field is no int32", closes=True)
    return number


def _lenient_language(value: Any) -> str:
    if isinstance(value, int) and 0 <= value < len(LANGUAGES):
        return LANGUAGES[value]
    return "JAVA" if value is None else _as_text(value)


def _as_text(value: Any) -> str:
    """Convert a value to a string as fastjson does: a string stays as it is, another value becomes its JSON text."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _decode_binary_header(header: bytes, keep_empty: bool) -> Command:
    try:
        code, language, version, opaque, flag, remark_bytes = _BINARY_FIXED.unpack_from(header)
        remark, at = _read_text(header, _BINARY_FIXED.size, remark_bytes)
        (ext_bytes,) = _INT32.unpack_from(header, at)
        at += _INT32.size
        ext_fields = _read_ext_fields(header, at, at + ext_bytes, keep_empty) if ext_bytes > 0 else None
    except struct.error:
        raise RemoteProtocolError("binary header is truncated", closes=True) from None
    return Command(
        code=code,
        opaque=opaque,
        flag=flag,
        version=version,
        language=LANGUAGES[language] if 0 <= language < len(LANGUAGES) else str(language),
        remark=remark or None,
        ext_fields=ext_fields,
        encoding=Encoding.ROCKETMQ,
    )


def _read_ext_fields(header: bytes, at: int, end: int, keep_empty: bool) -> dict[str, str]:
    if end > len(header):
        raise RemoteProtocolError("extFields are longer than the header", closes=True)
    ext_fields: dict[str, str] = {}
    entries = 0
    while at < end:
        entries += 1
        if entries > MAX_BINARY_FIELDS:
            raise RemoteProtocolError(f"a header of more than {MAX_BINARY_FIELDS} fields", closes=True)
        (size,) = _INT16.unpack_from(header, at)
        key, at = _read_text(header, at + _INT16.size, size)
        (size,) = _INT32.unpack_from(header, at)
        value, at = _read_text(header, at + _INT32.size, size)
        # Java 4.9 and later reads length 0 as null, so no peer can send it an empty value.
        if key and (value or keep_empty):
            ext_fields[key] = value
    return ext_fields


def _read_text(header: bytes, at: int, size: int) -> tuple[str, int]:
    end = at + size
    if size < 0 or end > len(header):
        raise RemoteProtocolError("a text is longer than the binary header", closes=True)
    return header[at:end].decode("utf-8", "replace"), end


class _JsonHeader(msgspec.Struct):
    """A JSON header with its members in the order in which Java writes them; unset members are left out."""

    code: int
    extFields: dict[str, str] | msgspec.UnsetType
    flag: int
    language: str
    opaque: int
    remark: str | msgspec.UnsetType
    serializeTypeCurrentRPC: str
    version: int


_encode_json = msgspec.json.Encoder().encode


def encode_command(command: Command) -> bytes:
    """Encode one frame, including its length word, byte for byte as Java does.

    An opaque of None is written as 0; entries of ``ext_fields`` keep their order.

    Raises:
        LocalProtocolError: a number is too large for a binary header (code and version are int16), or the header is
            longer than 16,777,215 bytes.
    """
    encode = _encode_json_header if command.encoding == _JSON else _encode_binary_header
    header = encode(command)
    if len(header) > _HEADER_MASK:
        raise LocalProtocolError(f"a header of {len(header)} bytes is too long")
    mark = command.encoding << 24 | len(header)
    return b"".join((_HEAD.pack(4 + len(header) + len(command.body), mark), header, command.body))


def _encode_json_header(command: Command) -> bytes:
    return _encode_json(
        _JsonHeader(
            command.code,
            msgspec.UNSET if command.ext_fields is None else command.ext_fields,
            command.flag,
            command.language,
            command.opaque or 0,
            msgspec.UNSET if command.remark is None else command.remark,
            "JSON",
            command.version,
        )
    )


def _encode_binary_header(command: Command) -> bytes:
    try:
        remark = (command.remark or "").encode()
        parts = [
            _BINARY_FIXED.pack(
                command.code,
                _language_code(command.language),
                command.version,
                command.opaque or 0,
                command.flag,
                len(remark),
            ),
            remark,
            b"",
        ]
        for key, value in (command.ext_fields or {}).items():
            raw_key, raw_value = key.encode(), value.encode()
            parts += (_INT16.pack(len(raw_key)), raw_key, _INT32.pack(len(raw_value)), raw_value)
        parts[2] = _INT32.pack(sum(map(len, parts[3:])))
    except struct.error as error:
        raise LocalProtocolError(f"no binary header can carry this command: {error}") from None
    return b"".join(parts)


def _language_code(language: str) -> int:
    if language in LANGUAGES:
        return LANGUAGES.index(language)
    if re.fullmatch("-?[0-9]{1,3}", language) and -128 <= int(language) <= 127:
        return int(language)
    return _OTHER


class ReplyTemplate:
    """Encodes replies that differ only in opaque and body: the rest of the header (see Command) is encoded once.

    A header is ``prefix``, the opaque, ``suffix``; ``fixed_bytes`` is its size without the opaque.
    """

    __slots__ = ("_mark", "fixed_bytes", "prefix", "suffix")

    def __init__(
        self,
        code: int,
        remark: str | None = None,
        ext_fields: dict[str, str] | None = None,
        *,
        version: int = SERVER_VERSION,
        encoding: Encoding = Encoding.JSON,
    ) -> None:
        command = Command(
            code=code,
            opaque=0,
            flag=FLAG_RESPONSE,
            version=version,
            remark=remark,
            ext_fields=ext_fields,
            encoding=encoding,
        )
        header = encode_command(command)[_HEAD.size :]
        if encoding == Encoding.JSON:
            # Search from the end: extFields, which come earlier, may have members with these names. The remark, which
            # comes later, cannot contain this text: its quotes are escaped.
            before, name, suffix = header.rpartition(b'"language":"JAVA","opaque":')
            self.prefix = before + name
            self.suffix = suffix[1:]
            self.fixed_bytes = len(header) - 1
        else:
            self.prefix, self.suffix = header[:5], header[9:]
            self.fixed_bytes = len(header) - 4
        self._mark = encoding << 24

    def reply(self, opaque: int, body: bytes = b"") -> bytes:
        """Encode one whole frame, including its length word."""
        number = b"%d" % opaque if self._mark == 0 else _INT32.pack(opaque)
        header_bytes = self.fixed_bytes + len(number)
        head = _HEAD.pack(4 + header_bytes + len(body), self._mark | header_bytes)
        return b"".join((head, self.prefix, number, self.suffix, body))
