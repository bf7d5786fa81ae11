"""Checks the CRC-32 of registration bodies, without reading again what was in an earlier one.

A broker sends its whole topic table each 30 s; the body of a 5.x broker differs from its last one only in a time near
its beginning. CRC-32 is linear: the CRCs of two beginnings give the difference of the CRCs of both bodies, in
some microseconds instead of half a millisecond for 10,000 topics.
"""

from __future__ import annotations

import zlib
from typing import Final, NamedTuple

_POLYNOMIAL: Final = 0xEDB88320  # of CRC-32; x to the 0 is the highest bit
_ONE: Final = 1 << 31
_SMALL_BYTES: Final = 16 * 1024  # as quickly read as looked up
_MOST_BODIES: Final = 20_000


def body_crc32(body: bytes) -> int:
    """The value of the header field bodyCrc32: CRC-32 without its sign bit."""
    return zlib.crc32(body) & 0x7FFFFFFF


def check_crc32(body: bytes, header_crc: int | None) -> bool:
    """Whether the body has the CRC of the header. 0 and None are not checked; an empty body has no CRC but 0."""
    if not header_crc:
        return True
    return bool(body) and body_crc32(body) == header_crc


class _SeenBody(NamedTuple):
    """The CRC-32 of a body's beginning, and of the whole; shift: factor for the bytes after the beginning, or 0."""

    begin: int
    whole: int
    shift: int


class BodyCrcs:
    """The CRC-32 of bodies that differ from an earlier one only in their beginning; the oldest ones are forgotten."""

    def __init__(self, most: int = _MOST_BODIES) -> None:
        self._most = most
        self._seen: dict[str, _SeenBody] = {}

    def check(self, digest: str, body: bytes, begin_bytes: int, header_crc: int | None) -> bool:
        """Do what :func:`check_crc32` does; digest: equal for bodies that are equal behind their first begin_bytes."""
        if not header_crc or len(body) < _SMALL_BYTES:
            return check_crc32(body, header_crc)
        begin = zlib.crc32(memoryview(body)[:begin_bytes])
        seen = self._seen.get(digest)
        if seen is None:
            seen = _SeenBody(begin, zlib.crc32(body), 0)
        elif not seen.shift:
            seen = seen._replace(shift=_shift(len(body) - begin_bytes))
        whole = seen.whole ^ (_multiply(seen.shift, begin ^ seen.begin) if begin != seen.begin else 0)
        if whole & 0x7FFFFFFF != header_crc:
            return False
        self._seen[digest] = seen
        if len(self._seen) > self._most:
            del self._seen[next(iter(self._seen))]
        return True


def _shift(length_bytes: int) -> int:
    """What a CRC-32 is multiplied by when ``length_bytes`` bytes follow: x to the (8 * length_bytes)."""
    power, square, bits = _ONE, _ONE >> 1, 8 * length_bytes
    while bits:
        if bits & 1:
            power = _multiply(square, power)
        square = _multiply(square, square)
        bits >>= 1
    return power


def _multiply(a: int, b: int) -> int:
    """The product of two polynomials over GF(2), modulo that of CRC-32."""
    product = 0
    while a:
        if a & _ONE:
            product ^= b
        a = a << 1 & 0xFFFFFFFF
        b = b >> 1 ^ _POLYNOMIAL if b & 1 else b >> 1
    return product
