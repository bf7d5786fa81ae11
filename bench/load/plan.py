"""Writes the files with the frames that the load generator sends; ``plan.h`` describes their formats."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from mqregistry.protocol.command import Command, encode_command

OPAQUE = 1_000_000_000
COUNTER = 1_000_000_000
"""The counter in the data version of a growing registration: the generator overwrites it with the next number."""

_WORDS = struct.Struct("<2I")
_REGISTRATION = struct.Struct("<4I32I")


class CheckedAnswer(NamedTuple):
    """The answer to one lookup; code -1 if none came."""

    code: int
    body: bytes


def lookup(topic: str, version: int) -> bytes:
    """The frame of a lookup (105) as a 5.x client sends it."""
    return encode_command(Command(code=105, opaque=OPAQUE, version=version, ext_fields={"topic": topic}))


def registration(command: Command) -> bytes:
    """Encode a request of a broker for the file: a frame in which the generator replaces opaque, counter and CRC.

    command: has the opaque OPAQUE. If its data version is to rise, its body has the counter COUNTER once, and its
    ext_fields have a ``bodyCrc32`` of ten digits.
    """
    frame = encode_command(command)
    head = _WORDS.pack(len(frame), _offset_of_opaque(frame))
    text = b'"counter":%d' % COUNTER
    if text not in command.body:
        return head + _REGISTRATION.pack(*[0] * 36) + frame
    body_at = len(frame) - len(command.body)
    counter_at = body_at + command.body.index(text) + len(text) - 10
    crc_at = frame.index(b'"bodyCrc32":"', 0, body_at) + len(b'"bodyCrc32":"')
    prefix, suffix = frame[body_at:counter_at], frame[counter_at + 10 :]
    matrix = zeros_matrix(len(suffix))
    return head + _REGISTRATION.pack(counter_at, crc_at, zlib.crc32(prefix), zlib.crc32(suffix), *matrix) + frame


def _offset_of_opaque(frame: bytes) -> int:
    return frame.index(b'"opaque":%d' % OPAQUE) + len(b'"opaque":')


def zeros_matrix(count: int) -> list[int]:
    """The matrix over GF(2) that maps a CRC-32 to its value after `count` zero bytes: one column for each bit.

    crc(a + b) = matrix * crc(a) ^ crc(b), with count = len(b). CRC libraries combine two CRCs in this way.
    """
    power = [0xEDB88320, *(1 << bit for bit in range(31))]  # one zero bit
    for _ in range(3):
        power = [_times(power, column) for column in power]  # two, four, eight: one zero byte
    result = [1 << bit for bit in range(32)]
    while count:
        if count & 1:
            result = [_times(power, column) for column in result]
        power = [_times(power, column) for column in power]
        count >>= 1
    return result


def _times(matrix: Sequence[int], vector: int) -> int:
    total = 0
    for column in matrix:
        if vector & 1:
            total ^= column
        vector >>= 1
    return total


def write_lookups(path: Path, frames: Sequence[bytes]) -> None:
    with path.open("wb") as out:
        out.write(struct.pack("<I", len(frames)))
        for frame in frames:
            out.write(_WORDS.pack(len(frame), _offset_of_opaque(frame)) + frame)


def write_registrations(path: Path, brokers: Iterable[Sequence[Command | None]], count: int, variants: int) -> None:
    """Write the generator's file of registrations.

    Args:
        brokers: for each broker its variants; None for a variant that it does not have.
    """
    with path.open("wb") as out:
        out.write(_WORDS.pack(count, variants))
        for broker in brokers:
            for command in broker:
                out.write(bytes(_WORDS.size + _REGISTRATION.size) if command is None else registration(command))


def read_answers(path: Path) -> list[CheckedAnswer]:
    """The answers that the generator's command ``once`` wrote, in the order of the lookups."""
    data = path.read_bytes()
    (count,) = struct.unpack_from("<I", data)
    answers, at = [], 4
    for _ in range(count):
        code, length = struct.unpack_from("<iI", data, at)
        answers.append(CheckedAnswer(code, data[at + 8 : at + 8 + length]))
        at += 8 + length
    return answers


def read_wrong(path: Path) -> list[tuple[int, CheckedAnswer]]:
    """The answers of a run that differed from the expected ones, each with the number of its lookup."""
    data, wrong, at = path.read_bytes(), [], 0
    while at < len(data):
        number, code, length = struct.unpack_from("<IiI", data, at)
        wrong.append((number, CheckedAnswer(code, data[at + 12 : at + 12 + length])))
        at += 12 + length
    return wrong
