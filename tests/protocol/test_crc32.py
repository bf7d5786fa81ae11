"""The CRC-32 of registration bodies."""

from __future__ import annotations

import zlib

from hypothesis import given
from hypothesis import strategies as st

from mqregistry.protocol.bodies import crc32
from mqregistry.protocol.bodies.crc32 import BodyCrcs, body_crc32, check_crc32

LONG = bytes(range(256)) * 100


def test_crc32() -> None:
    body = b"body"
    assert check_crc32(body, body_crc32(body))
    assert not check_crc32(body, body_crc32(body) ^ 1)
    assert check_crc32(body, 0)
    assert check_crc32(body, None)
    assert not check_crc32(b"", 1)
    assert body_crc32(b"\xff" * 7) == zlib.crc32(b"\xff" * 7) & 0x7FFFFFFF


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=6), st.binary(max_size=2000), st.integers(0, 0x7FFFFFFF))
def test_bodies_that_differ_in_their_beginning_have_the_crc_of_the_whole(beginnings, rest, wrong):
    crcs, rest = BodyCrcs(), LONG + rest
    for beginning in beginnings * 2:
        body = beginning + rest
        right = zlib.crc32(body) & 0x7FFFFFFF
        assert crcs.check("digest", body, len(beginning), right)
        assert crcs.check("digest", body, len(beginning), wrong) == (wrong in (0, right))
        assert crcs.check("digest", body, len(beginning), 0)


def test_a_body_that_was_never_right_is_not_remembered():
    crcs, body = BodyCrcs(), b"1" + LONG
    broken = body[:-1] + b"?"
    assert not crcs.check("digest", broken, 1, body_crc32(body))
    for _ in range(3):
        assert crcs.check("digest", body, 1, body_crc32(body))
        assert not crcs.check("digest", body, 1, body_crc32(body) ^ 1)


def test_the_rest_of_a_known_body_is_not_read_again(monkeypatch):
    crcs, sizes = BodyCrcs(), []
    assert crcs.check("digest", b"1" + LONG, 1, body_crc32(b"1" + LONG))
    right = body_crc32(b"22" + LONG)

    real = zlib.crc32

    def read(data):
        sizes.append(len(data))
        return real(data)

    monkeypatch.setattr(crc32.zlib, "crc32", read)
    crcs.check("digest", b"22" + LONG, 2, right)
    assert sizes == [2]


def test_the_oldest_bodies_make_room(monkeypatch):
    monkeypatch.setattr(crc32, "_MOST_BODIES", 2)
    crcs = BodyCrcs()
    for digest in "abc":
        assert crcs.check(digest, LONG, 1, body_crc32(LONG))
    assert list(crcs._seen) == ["b", "c"]
