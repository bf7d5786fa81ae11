"""Reads lists of revoked certificates (CRL), to find open connections whose certificate was revoked.

OpenSSL checks new connections; of one that is open it cannot be asked. Of a list and of a certificate this reads only
who issued them and the serial numbers: OpenSSL has checked the list's signature before (X.509, RFC 5280).
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_PEM: Final = re.compile(rb"-----BEGIN X509 CRL-----(.+?)-----END X509 CRL-----", re.S)
_INTEGER: Final = 0x02
_SEQUENCE: Final = 0x30
_TIMES: Final = frozenset((0x17, 0x18))
_VERSION: Final = 0xA0


class CertificateId(NamedTuple):
    """Which certificate it is. issuer: its CA's name, DER. serial: the number that the CA gave it."""

    issuer: bytes
    serial: int


def id_of(certificate: bytes) -> CertificateId:
    """The issuer and number of a certificate.

    Args:
        certificate: DER, verified.

    Raises:
        ValueError: it is none.
    """
    (_, outer), *_ = _items(certificate)
    fields = [item for item in _items(next(_items(outer))[1]) if item[0] != _VERSION]
    (_, serial), _, (_, issuer) = fields[:3]
    return CertificateId(issuer, int.from_bytes(serial, signed=True))


def revoked_in(text: bytes) -> frozenset[CertificateId]:
    """Every certificate that the lists in a PEM file revoke.

    Raises:
        ValueError: a list cannot be read.
    """
    found: set[CertificateId] = set()
    for match in _PEM.finditer(text):
        try:
            (_, outer), *_ = _items(binascii.a2b_base64(match[1]))
        except binascii.Error as error:
            raise ValueError(f"no Base64: {error}") from error
        fields = list(_items(next(_items(outer))[1]))
        if fields[0][0] == _INTEGER:
            del fields[0]  # the version
        issuer = fields[1][1]
        # then thisUpdate, nextUpdate if there is one, and the list if it is not empty
        rest = [item for item in fields[2:] if item[0] not in _TIMES]
        if rest and rest[0][0] == _SEQUENCE:
            for _, entry in _items(rest[0][1]):
                found.add(CertificateId(issuer, int.from_bytes(next(_items(entry))[1], signed=True)))
    return frozenset(found)


def _items(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and contents of each element of DER, which has one encoding for each value."""
    at = 0
    while at < len(data):
        tag, length, at = data[at], data[at + 1] if at + 1 < len(data) else 0, at + 2
        if length & 0x80:
            size = length & 0x7F
            length, at = int.from_bytes(data[at : at + size]), at + size
        if at + length > len(data):
            raise ValueError("an element that is longer than what it is in")
        yield tag, data[at : at + length]
        at += length
