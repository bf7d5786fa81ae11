"""Every recorded frame splits, decodes, and comes out the same bytes again."""

from __future__ import annotations

import pytest

from mqregistry.errors import RemoteProtocolError
from mqregistry.protocol.codes import Encoding
from mqregistry.protocol.command import Command, ReplyTemplate, decode_command, encode_command
from mqregistry.protocol.frame import FrameReader
from tests.golden import Row, load, scenarios

# Frames that the probe program wrote as no Java peer does, so that they cannot come out the same.
REWRITTEN = {
    "header-ext-number-value": "a number where a string is due",
    "header-unknown-language": "keys in another order",
    "header-language-number": "language as a number",
    "header-unknown-key": "a key that no header has",
    "header-empty-object": "no fields",
    "header-no-opaque": "no opaque",
    "header-code-string": "numbers as strings",
    "delete-topic-empty-cluster": "binary: an empty string, which reads as absent",
    "put-empty-value": "binary: an empty string",
    "route-empty": "binary: an empty string",
    "empty-brokerName": "binary: an empty string",
}


def frames_of(name: str) -> list[Row]:
    return [row for row in load(name)[1] if "code" in row]


def decode(row: Row) -> Command:
    (frame,) = FrameReader().feed(row["frame"])
    command = decode_command(frame)
    assert command is not None
    return command


def is_odd(row: Row, name: str) -> bool:
    """Whether the probe program wrote this frame; its three frames without a label are odd ones too."""
    if "case" in row:
        return row["case"] in REWRITTEN
    return name.startswith("probe-framing") and row["sender"] == "peer" and row["code"] != 105


@pytest.mark.parametrize("name", scenarios())
def test_recorded_frames_decode_to_what_the_recording_says(name: str) -> None:
    for row in frames_of(name):
        if row.get("case") == "header-longer-than-frame":
            continue
        command = decode(row)
        if not is_odd(row, name):
            assert (command.code, command.opaque) == (row["code"], row["opaque"])
        assert command.encoding.name == row["header_encoding"]
        assert command.is_response == (row["direction"] == "response" or row.get("case") == "route-response-flag")
        assert command.is_oneway == (row["direction"] == "oneway")


@pytest.mark.parametrize("name", scenarios())
def test_recorded_frames_encode_to_the_same_bytes(name: str) -> None:
    for row in frames_of(name):
        if row.get("case") != "header-longer-than-frame" and not is_odd(row, name):
            assert encode_command(decode(row)) == row["frame"], row.get("case")


@pytest.mark.parametrize("name", scenarios())
def test_recorded_replies_come_from_templates(name: str) -> None:
    for row in frames_of(name):
        if row["sender"] == "nameserver" and row["direction"] == "response":
            reply = decode(row)
            template = ReplyTemplate(
                reply.code, reply.remark, reply.ext_fields, version=reply.version, encoding=reply.encoding
            )
            assert template.reply(reply.opaque or 0, reply.body) == row["frame"]


def test_odd_headers_read_as_java_reads_them() -> None:
    seen = {}
    for row in frames_of("probe-framing--ns-5.3.3"):
        if row["sender"] == "peer" and "case" in row and row["case"] != "header-longer-than-frame":
            seen[row["case"]] = decode(row)
    assert seen["header-ext-number-value"].ext_fields == {"topic": "5"}
    assert seen["header-unknown-language"].language == "COBOL"
    assert seen["header-language-number"].language == "GO"
    assert seen["header-unknown-key"].code == 106
    assert seen["binary-unknown-language"].language == "99"
    assert seen["opaque-negative"].opaque == -7


def test_header_longer_than_its_frame_closes() -> None:
    (row,) = (row for row in frames_of("probe-framing--ns-5.3.3") if row.get("case") == "header-longer-than-frame")
    with pytest.raises(RemoteProtocolError) as caught:
        decode(row)
    assert caught.value.closes


def test_all_recorded_frames_in_one_stream_split_the_same() -> None:
    for encoding in Encoding:
        rows = [row for name in scenarios() for row in frames_of(name) if row["header_encoding"] == encoding.name]
        stream = b"".join(row["frame"] for row in rows)
        reader = FrameReader()
        frames = [frame for at in range(0, len(stream), 1460) for frame in reader.feed(stream[at : at + 1460])]
        assert frames == [row["frame"][4:] for row in rows]
        assert reader.pending_bytes == 0
