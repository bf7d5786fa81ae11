"""Reads PROXY protocol headers (HAProxy, versions 1 and 2), by which a balancer names the client behind it.

Java accepts such a header from every peer, and so does this server unless ``proxyProtocol`` is false. Anybody may send
a false header: so limits and rules use the address in it only if the peer is in one of the networks of
``proxyProtocolFrom``. Otherwise limits use the peer's own address, and for rules the client's address is unknown.
Events contain the header's address and the balancer's.

Source: https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt, sections 2.1 and 2.2; the 5.x NameServer accepts
the headers that Netty's HAProxyMessageDecoder accepts.
"""

from __future__ import annotations

import ipaddress
import re
import struct
from typing import Final

from ...errors import RemoteProtocolError

V1_START: Final = b"PROXY"
V2_START: Final = b"\r\n\r\n\0\r\nQUIT\n"
FIRST_BYTES: Final = V1_START[:1] + V2_START[:1]
"""No frame begins with one of these bytes: its length would exceed the maximum."""

V1_MOST_BYTES: Final = 107
"""Longest version 1 header, including its line end (section 2.1)."""

_V2_HEAD: Final = struct.Struct(">12sBBH")
_LOCAL, _PROXY = 0, 1
_PORTS: Final = struct.Struct(">HH")
_V1_LINE: Final = re.compile(r"PROXY (TCP[46]) ([0-9A-Fa-f.:]+) ([0-9A-Fa-f.:]+) (\d{1,5}) (\d{1,5})", re.ASCII)
_UNIX_BYTES: Final = 108
# address family (the high half of its byte; the low half is the transport) -> bytes of both addresses and ports
_ADDRESS_BYTES: Final = {0: 0, 1: 2 * 4 + 4, 2: 2 * 16 + 4, 3: 2 * _UNIX_BYTES}
_TRANSPORTS: Final = 3


class ProxyHeaderReader:
    """Reads the first bytes of one connection, in pieces of any size, until the start of the first frame is known.

    It keeps at most ``V1_MOST_BYTES``, or the head and addresses of version 2; TLVs are skipped as they arrive.
    """

    __slots__ = ("_kept", "_skip", "address", "found")

    def __init__(self) -> None:
        self._kept = b""
        self._skip = 0
        self.found = False
        """Whether there is a header; valid once ``feed`` has returned bytes."""
        self.address = ""
        """``host:port`` of the client behind the balancer; empty when the header names none (LOCAL, UNKNOWN)."""

    def feed(self, data: bytes) -> bytes | None:
        """Take the next bytes.

        Returns:
            the bytes after the header; all bytes so far when there is no header; None while more bytes are needed.

        Raises:
            RemoteProtocolError: the bytes begin like a header, but are malformed.
        """
        if self.found:
            return self._skipped(data)
        kept = self._kept = self._kept + data
        if kept.startswith(V1_START):
            return self._version_1(kept)
        if kept.startswith(V2_START):
            return self._version_2(kept)
        if V1_START.startswith(kept) or V2_START.startswith(kept):
            return None
        self._kept = b""
        return kept

    def _version_1(self, kept: bytes) -> bytes | None:
        end = kept.find(b"\r\n", 0, V1_MOST_BYTES)
        if end < 0:
            if len(kept) >= V1_MOST_BYTES:
                raise _malformed(f"no line end within {V1_MOST_BYTES} bytes")
            return None
        line = kept[:end].decode("latin-1")
        self._kept = b""
        self.found = True
        if line != "PROXY UNKNOWN" and not line.startswith("PROXY UNKNOWN "):
            match = _V1_LINE.fullmatch(line)
            if match is None:
                raise _malformed(repr(line))
            family, source, destination, source_port, destination_port = match.groups()
            try:
                kind = ipaddress.IPv4Address if family == "TCP4" else ipaddress.IPv6Address
                kind(destination)
                self.address = _shown(kind(source), _port(source_port))
                _port(destination_port)
            except ValueError as error:
                raise _malformed(f"{line!r}: {error}") from error
        return kept[end + 2 :]

    def _version_2(self, kept: bytes) -> bytes | None:
        if len(kept) < _V2_HEAD.size:
            return None
        _, version_and_command, family_and_transport, length = _V2_HEAD.unpack_from(kept)
        version, command = divmod(version_and_command, 16)
        if version != 2:
            raise _malformed(f"version {version} in a header of version 2")
        family, transport = divmod(family_and_transport, 16)
        if command == _LOCAL:
            address_bytes = 0
        elif command != _PROXY:
            raise _malformed(f"command {command}")
        elif family not in _ADDRESS_BYTES or transport >= _TRANSPORTS:
            raise _malformed(f"address family and transport {family_and_transport:#04x}")
        else:
            address_bytes = _ADDRESS_BYTES[family]
        if length < address_bytes:
            raise _malformed(f"{length} bytes of addresses instead of {address_bytes}")
        addresses_end = _V2_HEAD.size + address_bytes
        if len(kept) < addresses_end:
            return None
        if address_bytes:
            self.address = _version_2_address(family, kept[_V2_HEAD.size : addresses_end])
        self._kept = b""
        self.found = True
        self._skip = length - address_bytes
        return self._skipped(kept[addresses_end:])

    def _skipped(self, data: bytes) -> bytes | None:
        if len(data) < self._skip:
            self._skip -= len(data)
            return None
        rest = data[self._skip :]
        self._skip = 0
        return rest


def _version_2_address(family: int, data: bytes) -> str:
    if family == 3:
        return "unix:" + ascii(data[:_UNIX_BYTES].rstrip(b"\0").decode("latin-1"))[1:-1]
    size = (len(data) - _PORTS.size) // 2
    source = ipaddress.IPv4Address(data[:size]) if family == 1 else ipaddress.IPv6Address(data[:size])
    return _shown(source, _PORTS.unpack_from(data, 2 * size)[0])


def _shown(host: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> str:
    # as ServerConnection has the address of a connection without a balancer
    return f"{host}:{port}"


def _port(text: str) -> int:
    port = int(text)
    if port > 65535:
        raise ValueError(f"port {port}")
    return port


def _malformed(what: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"malformed PROXY protocol header: {what}", closes=True)
