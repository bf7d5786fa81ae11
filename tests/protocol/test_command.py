"""Headers in both encodings: round trips, Java's leniency, and what makes Java hang up."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqregistry.errors import LocalProtocolError, RemoteProtocolError
from mqregistry.protocol.codes import (
    FLAG_ONEWAY,
    FLAG_RESPONSE,
    LANGUAGES,
    SERVER_VERSION,
    Encoding,
    RequestCode,
    ResponseCode,
    with_name,
)
from mqregistry.protocol.command import Command, ReplyTemplate, decode_command, encode_command

INT32 = st.integers(-(2**31), 2**31 - 1)
INT16 = st.integers(-(2**15), 2**15 - 1)
TEXT = st.text(max_size=20)  # Hypothesis leaves out surrogates, which UTF-8 cannot carry


def frame_of(header: bytes, body: bytes = b"", serializer: int = 0) -> bytes:
    return (serializer << 24 | len(header)).to_bytes(4, "big") + header + body


def test_codes_are_told_with_their_names():
    assert with_name(17, ResponseCode) == "17 (TOPIC_NOT_EXIST)"
    assert with_name(RequestCode.REGISTER_BROKER, RequestCode) == "103 (REGISTER_BROKER)"
    assert with_name(9999, RequestCode) == "9999"


def decode(header: str | bytes, body: bytes = b"", serializer: int = 0) -> Command:
    raw = header if isinstance(header, bytes) else header.encode()
    command = decode_command(frame_of(raw, body, serializer))
    assert command is not None
    return command


@given(
    st.builds(
        Command,
        code=INT32,
        opaque=INT32,
        flag=INT32,
        version=INT32,
        language=st.sampled_from(LANGUAGES),
        remark=st.none() | TEXT,
        ext_fields=st.none() | st.dictionaries(TEXT, TEXT, max_size=5),
        body=st.binary(max_size=30),
    )
)
def test_json_commands_round_trip(command: Command) -> None:
    assert decode_command(encode_command(command)[4:]) == command


@given(
    st.builds(
        Command,
        code=INT16,
        opaque=INT32,
        flag=INT32,
        version=INT16,
        language=st.sampled_from([*LANGUAGES, "99", "-1"]),
        remark=st.none() | st.text(min_size=1, max_size=20),
        ext_fields=st.none()
        | st.dictionaries(st.text(min_size=1, max_size=9), st.text(min_size=1), min_size=1, max_size=5),
        body=st.binary(max_size=30),
        encoding=st.just(Encoding.ROCKETMQ),
    )
)
def test_binary_commands_round_trip(command: Command) -> None:
    assert decode_command(encode_command(command)[4:]) == command


@given(INT32, st.binary(max_size=30), st.sampled_from(Encoding), st.none() | st.dictionaries(TEXT, TEXT))
def test_template_gives_what_encode_gives(
    opaque: int, body: bytes, encoding: Encoding, ext_fields: dict[str, str] | None
) -> None:
    remark = 'a remark with "opaque":0 in it'
    reply = ReplyTemplate(17, remark, ext_fields, encoding=encoding).reply(opaque, body)
    assert reply == encode_command(
        Command(
            code=17,
            opaque=opaque,
            flag=FLAG_RESPONSE,
            version=SERVER_VERSION,
            remark=remark,
            ext_fields=ext_fields,
            body=body,
            encoding=encoding,
        )
    )


def test_template_is_not_misled_by_ext_fields_that_look_like_the_header() -> None:
    ext_fields = {"a": '"language":"JAVA","opaque":7', "language": "JAVA", "opaque": "1"}
    command = decode_command(ReplyTemplate(0, None, ext_fields).reply(-9)[4:])
    assert command is not None
    assert (command.opaque, command.ext_fields) == (-9, ext_fields)


def test_json_reply_has_java_s_bytes() -> None:
    reply = Command(code=22, opaque=7, flag=1, version=479, remark="kein Schlüssel \n", ext_fields={})
    assert (
        encode_command(reply)[8:]
        == (
            '{"code":22,"extFields":{},"flag":1,"language":"JAVA","opaque":7,"remark":"kein Schlüssel \\n",'
            '"serializeTypeCurrentRPC":"JSON","version":479}'
        ).encode()
    )


def test_flags() -> None:
    command = Command(flag=FLAG_RESPONSE | FLAG_ONEWAY)
    assert command.is_response
    assert command.is_oneway
    assert not Command().is_response
    assert not Command().is_oneway


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("{}", Command()),
        ('{"code":"106","opaque":"-7","version":"479"}', Command(code=106, opaque=-7, version=479)),
        ("{code:105,opaque:9,extFields:{topic:'A',},}", Command(code=105, opaque=9, ext_fields={"topic": "A"})),
        (
            '{"extFields":{"n":5,"f":1.5,"t":true,"x":null,"o":{"a":[1]}}}',
            Command(ext_fields={"n": "5", "f": "1.5", "t": "true", "o": '{"a":[1]}'}),
        ),
        ('{"code":106,"surprise":{"a":[1]},"body":"QUJD","encoding":1," encoding":1}', Command(code=106)),
        ('{"language":9}', Command(language="GO")),
        ('{"language":99}', Command(language="99")),
        ('{"language":"COBOL"}', Command(language="COBOL")),
        ('{"code":null,"opaque":null,"language":null,"remark":null,"extFields":null}', Command()),
        ('{"remark":5}', Command(remark="5")),
        ('{"remark":"null"}', Command(remark="null")),
        (b'{"remark":"\xff"}', Command(remark="\ufffd")),
        ('{"remark":"\\ud800"}', Command(remark="\ufffd")),
        ('{"extFields":{"k":["\\ud83d"]}}', Command(ext_fields={"k": '["\ufffd"]'})),
        (' {"code": 1 }\n', Command(code=1)),
        # as fastjson 1.2.83 of RocketMQ 5.3.3 reads them
        ('\ufeff{"code":105}', Command(code=105)),
        ('{"code":105}\0', Command(code=105)),
        ('\0\x01 {"code":105}\0\x1f\n\x7f', Command(code=105)),
        ('{"code":105\x01,"opaque":2}', Command(code=105, opaque=2)),
        ('{"CODE":105,"OPAQUE":4,"EXTFIELDS":{"topic":"A"}}', Command(code=105, opaque=4, ext_fields={"topic": "A"})),
        ('{"Code":105,"ext_fields":{"Topic":"A"},"FLAG":2}', Command(code=105, flag=2, ext_fields={"Topic": "A"})),
        ("{'ext-fields':{T:'A'}}", Command(ext_fields={"T": "A"})),
        ('{"CODE":105,"code":106}', Command(code=105)),
        ('{"code":106,"CODE":105}', Command(code=106)),
        ('{"ext fields":{"t":"A"},"isCode":105}', Command()),
        ('{"code":1,"serializeTypeCurrentRPC":"JSON"}', Command(code=1)),
        ('{"code":1,"serializeTypeCurrentRPC":{"a":1}}', Command(code=1)),
    ],
)
def test_lenient_headers(header: str | bytes, expected: Command) -> None:
    assert decode(header) == expected


def test_members_of_another_spelling_may_be_as_long_as_others() -> None:
    value = "x" * 200_000
    assert decode('{"CODE":100,"extFields":{"value":"' + value + '"}}').ext_fields == {"value": value}


def test_a_field_that_pretends_to_be_the_body_is_ignored() -> None:
    assert decode('{" body":"QUJD"," encoding":1}', b"real") == Command(body=b"real")


@pytest.mark.parametrize(
    "header",
    [
        "nonsense",
        "null",
        "[]",
        "5",
        '{"code":105',
        '{"code":105}x',
        '{"code":105}}',
        '\ufeff\ufeff{"code":105}',
        '{"code":105}\ufeff',
        '{"code":3000000000}',
        '{"opaque":"99999999999"}',
        '{"code":"x"}',
        '{"code":[1]}',
        '{"version":1e400}',
        '{"extFields":5}',
        '{"extFields":["topic"]}',
        " ",
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"code":' + "1" * 10_000 + "}",
    ],
)
def test_headers_that_close(header: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode(header)
    assert caught.value.closes


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\0\0",
        frame_of(b"{}", serializer=7),
        frame_of(b"0123456789abcdef")[:10],
        frame_of(b""),
        frame_of(b"", b"body"),
        frame_of(b"", serializer=1),
        bytes.fromhex("0100000600690001df00"),
        b"0123456789abcdef",
    ],
)
def test_frames_that_close(frame: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_command(frame)
    assert caught.value.closes


BINARY = struct.pack(">hbhii", 105, 0, 479, 7, 0)


@pytest.mark.parametrize(
    "tail",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 100) + b"short",
        struct.pack(">i", 0),
        struct.pack(">ii", 0, 100),
        struct.pack(">iih", 0, 2, 5),
        struct.pack(">iih", 0, 7, 1) + b"k" + struct.pack(">i", 90),
        struct.pack(">iih", 0, 7, -1) + b"k" + struct.pack(">i", 0),
    ],
)
def test_binary_headers_that_close(tail: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode(BINARY + tail, serializer=1)
    assert caught.value.closes


def test_binary_lengths_of_zero_are_null() -> None:
    entries = struct.pack(">h", 1) + b"k" + struct.pack(">i", 0) + struct.pack(">hi", 0, 1) + b"v"
    command = decode(BINARY + struct.pack(">ii", 0, len(entries)) + entries, serializer=1)
    assert (command.remark, command.ext_fields) == (None, {})
    command = decode(BINARY + struct.pack(">ii", 0, -1), serializer=1)
    assert command.ext_fields is None


def test_what_binary_cannot_carry_is_refused() -> None:
    with pytest.raises(LocalProtocolError):
        encode_command(Command(code=70_000, encoding=Encoding.ROCKETMQ))
    with pytest.raises(LocalProtocolError):
        encode_command(Command(ext_fields={"k" * 40_000: "v"}, encoding=Encoding.ROCKETMQ))
    with pytest.raises(LocalProtocolError):
        encode_command(Command(remark="x" * 17_000_000))
    unknown = decode_command(encode_command(Command(language="COBOL", encoding=Encoding.ROCKETMQ))[4:])
    assert unknown is not None
    assert unknown.language == "OTHER"


@given(st.binary(max_size=60))
def test_any_bytes_decode_or_close(frame: bytes) -> None:
    decode_or_refuse(frame)


@given(st.text(alphabet="{}[]:,\"'\\ntu0018-.eE kextFieldscodepaqu\ud800", max_size=60), st.integers(0, 1))
def test_any_header_decodes_or_closes(header: str, serializer: int) -> None:
    decode_or_refuse(frame_of(header.encode("utf-8", "surrogatepass"), serializer=serializer))


def decode_or_refuse(frame: bytes) -> None:
    try:
        command = decode_command(frame)
    except RemoteProtocolError as error:
        assert error.closes  # noqa: PT017
        return
    if command is not None:
        encode_command(command)  # whatever was read can be written


@pytest.mark.parametrize(
    ("mark", "header", "fault"),
    [
        (0, b"{" + b" " * (256 << 10) + b"}", "a header of 262146 bytes: at most 262144 are taken"),
        (0, b'{"extFields":{"a":[' + b"[]," * 10_000 + b"[]]}}", "at most 16384 bytes of such a header are taken"),
        (
            1,
            struct.pack(">hbhiiii", 105, 0, 479, 1, 0, 0, 8 * 4097) + struct.pack(">hcic", 1, b"a", 1, b"b") * 4097,
            "a header of more than 4096 fields",
        ),
    ],
    ids=["long", "lenient", "fields"],
)
def test_a_header_that_is_too_long_closes_the_connection(mark: int, header: bytes, fault: str) -> None:
    with pytest.raises(RemoteProtocolError, match=fault) as caught:
        decode_command(struct.pack(">I", mark << 24 | len(header)) + header)
    assert caught.value.closes
