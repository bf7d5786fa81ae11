"""Reads from certificates and revocation lists (X.509, RFC 5280) what Python's ssl module does not give.

This is: the owner of a client's certificate, the certificates that a list revokes (OpenSSL checks this only for new
connections), and when a file expires. Signatures are not checked here, but by OpenSSL. Unreadable parts raise
ValueError.
"""

from __future__ import annotations

import binascii
import datetime
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from ..auth.caller import Certificate

_PEM: Final = re.compile(rb"-----BEGIN X509 CRL-----(.+?)-----END X509 CRL-----", re.S)
_CERTIFICATE_PEM: Final = re.compile(
    rb"-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----(.+?)-----END (?:TRUSTED |X509 )?CERTIFICATE-----", re.S
)
_INTEGER: Final = 0x02
_SEQUENCE: Final = 0x30
_UTC_TIME: Final = 0x17  # its year has two digits, for 1950 to 2049
_TIMES: Final = frozenset((_UTC_TIME, 0x18))
_VERSION: Final = 0xA0


class CertificateId(NamedTuple):
    """Identifies a certificate. ``issuer``: its CA's name, DER. ``serial``: the number that the CA gave it."""

    issuer: bytes
    serial: int


def read_certificate(shown: Mapping[str, Any], der: bytes) -> Certificate:
    """The names of a client certificate's owner, and the issuer and number by which its CA may revoke it.

    Args:
        shown, der: the verified certificate, in both forms that :meth:`ssl.SSLObject.getpeercert` gives.
    """
    alternatives = shown.get("subjectAltName", ())
    names = [f"URI:{value}" for kind, value in alternatives if kind == "URI"]
    names += [f"DNS:{value.lower()}" for kind, value in alternatives if kind == "DNS"]
    names += [f"CN:{value}" for rdn in shown.get("subject", ()) for kind, value in rdn if kind == "commonName"]
    return Certificate(tuple(dict.fromkeys(names)), id_of(der))


def id_of(certificate: bytes) -> CertificateId:
    """The issuer and number of a certificate (DER, verified)."""
    (_, outer), *_ = _items(certificate)
    fields = [item for item in _items(next(_items(outer))[1]) if item[0] != _VERSION]
    (_, serial), _, (_, issuer) = fields[:3]
    return CertificateId(issuer, int.from_bytes(serial, signed=True))


def revoked_in(text: bytes) -> frozenset[CertificateId]:
    """Every certificate that the lists in a PEM file revoke."""
    found: set[CertificateId] = set()
    for match in _PEM.finditer(text):
        fields = _fields(match[1])
        if fields[0][0] == _INTEGER:
            del fields[0]  # the version
        issuer = fields[1][1]
        # then thisUpdate, nextUpdate if there is one, and the list if it is not empty
        rest = [item for item in fields[2:] if item[0] not in _TIMES]
        if rest and rest[0][0] == _SEQUENCE:
            for _, entry in _items(rest[0][1]):
                found.add(CertificateId(issuer, int.from_bytes(next(_items(entry))[1], signed=True)))
    return frozenset(found)


def end_of_certificates(text: bytes) -> float | None:
    """When the first certificate in a PEM file expires, in seconds since 1970; None: the file has none."""
    ends = []
    for match in _CERTIFICATE_PEM.finditer(text):
        # number, algorithm, issuer, then the first and last moment at which it is valid
        fields = [item for item in _fields(match[1]) if item[0] != _VERSION]
        _, (tag, end) = _items(fields[3][1])
        ends.append(_seconds(tag, end))
    return min(ends, default=None)


def end_of_lists(text: bytes) -> float | None:
    """When the first of the lists in a PEM file must be replaced: from then on OpenSSL refuses clients."""
    ends = []
    for match in _PEM.finditer(text):
        times = [item for item in _fields(match[1]) if item[0] in _TIMES]
        ends += [_seconds(*item) for item in times[1:2]]  # thisUpdate comes first, nextUpdate may be missing
    return min(ends, default=None)


def _fields(base64: bytes) -> list[tuple[int, bytes]]:
    """The signed part of a certificate or list."""
    try:
        (_, outer), *_ = _items(binascii.a2b_base64(base64))
    except binascii.Error as error:
        raise ValueError(f"no Base64: {error}") from error
    return list(_items(next(_items(outer))[1]))


def _seconds(tag: int, text: bytes) -> float:
    time = text.decode("ascii")
    if tag == _UTC_TIME:
        time = ("19" if time >= "5" else "20") + time
    return datetime.datetime.strptime(time, "%Y%m%d%H%M%SZ").replace(tzinfo=datetime.UTC).timestamp()


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
