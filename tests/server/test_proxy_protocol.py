"""The PROXY protocol: what is a header and what is none, cut anywhere, and what the connection makes of it."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqregistry.errors import RemoteProtocolError
from mqregistry.protocol.command import Command, decode_command, encode_command
from mqregistry.server.net.proxy_protocol import V1_MOST_BYTES, V2_START, ProxyHeaderReader
from tests import golden

from .harness import Broker

REQUEST = encode_command(Command(code=106, opaque=7, version=479))


def v2(command: int = 1, family: int = 0x11, addresses: bytes = b"", tlvs: bytes = b"", *, version: int = 2) -> bytes:
    rest = addresses + tlvs
    return V2_START + struct.pack(">BBH", version << 4 | command, family, len(rest)) + rest


def v2_inet(family: int, source: str, port: int) -> bytes:
    kind = socket.AF_INET6 if ":" in source else socket.AF_INET
    return v2(1, family, socket.inet_pton(kind, source) * 2 + struct.pack(">HH", port, 9876))


UNIX = b"/run/client.sock".ljust(108, b"\0") + b"/run/server.sock".ljust(108, b"\0")
TLVS = b"\x04\x00\x03abc" + b"\x20\x10\x00" + b"x" * 4096

GOOD = {
    "v1-tcp4": (b"PROXY TCP4 10.1.2.3 127.0.0.1 56324 9876\r\n", "10.1.2.3:56324"),
    "v1-tcp6": (b"PROXY TCP6 2001:db8::1 ::1 56324 9876\r\n", "2001:db8::1:56324"),
    "v1-longest": (
        b"PROXY TCP6 " + b" ".join([b"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"] * 2) + b" 65535 65535\r\n",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:65535",
    ),
    "v1-unknown": (b"PROXY UNKNOWN\r\n", ""),
    "v1-unknown-with-rest": (b"PROXY UNKNOWN " + b"f" * (V1_MOST_BYTES - 16) + b"\r\n", ""),
    "v2-tcp4": (v2_inet(0x11, "10.1.2.3", 56324), "10.1.2.3:56324"),
    "v2-udp4": (v2_inet(0x12, "10.1.2.3", 56324), "10.1.2.3:56324"),
    "v2-tcp6": (v2_inet(0x21, "2001:db8::1", 1), "2001:db8::1:1"),
    "v2-unix": (v2(1, 0x31, UNIX), "unix:/run/client.sock"),
    "v2-unix-strange": (v2(1, 0x31, b"\x1b[31m\nx".ljust(216, b"\0")), r"unix:\x1b[31m\nx"),
    "v2-unspecified": (v2(1, 0x00, b"", b"anything"), ""),
    "v2-local": (v2(0, 0x00), ""),
    "v2-local-with-addresses": (v2(0, 0x11, b"\1" * 12), ""),
    "v2-tlvs": (
        v2(1, 0x11, socket.inet_aton("10.1.2.3") * 2 + struct.pack(">HH", 5, 6), TLVS), "10.1.2.3:5",
    ),
    "v2-longest": (v2(1, 0x11, bytes(12), bytes(65535 - 12)), "0.0.0.0:0"),
}  # fmt: skip
BAD = {
    "v1-no-line-end": b"PROXY TCP4 " + b"1" * 120,
    "v1-line-end-too-late": b"PROXY UNKNOWN " + b"f" * (V1_MOST_BYTES - 15) + b"\r\n",
    "v1-no-family": b"PROXY\r\n",
    "v1-wrong-family": b"PROXY UDP4 10.1.2.3 127.0.0.1 1 2\r\n",
    "v1-family-of-the-other": b"PROXY TCP4 ::1 ::1 1 2\r\n",
    "v1-six-as-four": b"PROXY TCP6 10.1.2.3 127.0.0.1 1 2\r\n",
    "v1-host-name": b"PROXY TCP4 localhost 127.0.0.1 1 2\r\n",
    "v1-control-characters": b"PROXY TCP6 fe80::1%\x1b[31m ::1 1 2\r\n",
    "v1-port-too-high": b"PROXY TCP4 10.1.2.3 127.0.0.1 65536 2\r\n",
    "v1-second-port-too-high": b"PROXY TCP4 10.1.2.3 127.0.0.1 2 65536\r\n",
    "v1-port-missing": b"PROXY TCP4 10.1.2.3 127.0.0.1 2\r\n",
    "v1-two-blanks": b"PROXY  TCP4 10.1.2.3 127.0.0.1 1 2\r\n",
    "v1-more": b"PROXY TCP4 10.1.2.3 127.0.0.1 1 2 3\r\n",
    "v2-version-1": v2(1, 0x11, bytes(12), version=1),
    "v2-command-2": v2(2, 0x11, bytes(12)),
    "v2-family-4": v2(1, 0x41, bytes(216)),
    "v2-transport-3": v2(1, 0x13, bytes(12)),
    "v2-tcp4-short": v2(1, 0x11, bytes(11)),
    "v2-tcp6-short": v2(1, 0x21, bytes(35)),
    "v2-unix-short": v2(1, 0x31, bytes(215)),
}
NONE = {
    "frame": REQUEST,
    "post": b"POST / HTTP/1.1\r\n\r\n",
    "prox": b"PROXX TCP4",
    "line-ends": b"\r\n\r\n\r\n",
    "v2-almost": V2_START[:-1] + b"!",
}


def read(pieces: list[bytes]) -> tuple[bytes | None, ProxyHeaderReader]:
    """What the reader leaves of these, as a connection feeds it."""
    reader = ProxyHeaderReader()
    for number, piece in enumerate(pieces):
        rest = reader.feed(piece)
        if rest is not None:
            return rest + b"".join(pieces[number + 1 :]), reader
    return None, reader


@st.composite
def cut(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """The same bytes, in pieces that are not empty."""
    ends = draw(st.lists(st.integers(1, max(1, len(data) - 1)), max_size=6, unique=True).map(sorted))
    bounds = [0, *(end for end in ends if end < len(data)), len(data)]
    return [data[a:b] for a, b in pairwise(bounds)]


def pieces_of(table: dict) -> st.SearchStrategy:
    """A name of the table, and its bytes with a request behind them, cut anywhere."""
    return st.sampled_from(sorted(table)).flatmap(
        lambda name: st.tuples(
            st.just(name), cut((table[name][0] if isinstance(table[name], tuple) else table[name]) + REQUEST)
        )
    )


@pytest.mark.parametrize("name", GOOD)
def test_a_header_byte_by_byte_gives_the_address_and_the_rest(name):
    header, address = GOOD[name]
    rest, reader = read([bytes([byte]) for byte in header + REQUEST])
    assert (rest, reader.found, reader.address) == (REQUEST, True, address)


@given(pieces_of(GOOD))
def test_a_header_cut_anywhere_gives_the_address_and_the_rest(case):
    name, pieces = case
    rest, reader = read(pieces)
    assert (rest, reader.found, reader.address) == (REQUEST, True, GOOD[name][1])


@given(pieces_of(BAD))
def test_a_malformed_header_cut_anywhere_is_refused(case):
    _, pieces = case
    with pytest.raises(RemoteProtocolError, match="malformed PROXY protocol header"):
        read(pieces)


@given(pieces_of(NONE))
def test_what_is_no_header_comes_back_whole(case):
    name, pieces = case
    rest, reader = read(pieces)
    assert (rest, reader.found, reader.address) == (NONE[name] + REQUEST, False, "")


@given(st.sampled_from(sorted(GOOD)), st.data())
def test_a_header_that_is_not_whole_waits_and_keeps_little(name, data):
    header, _ = GOOD[name]
    end = data.draw(st.integers(1, len(header) - 1))
    rest, reader = read([header[:end]])
    assert rest is None
    assert len(reader._kept) <= 16 + 216


@given(st.binary(max_size=300).flatmap(lambda tail: st.sampled_from([b"PROXY", V2_START]).map(lambda s: s + tail)))
def test_any_bytes_after_a_start_are_read_or_refused(data):
    try:
        rest, reader = read([data])
    except RemoteProtocolError:
        return
    if rest is None:
        assert len(data) < 16 + 65536
    else:
        assert data.endswith(rest)
        assert reader.found


@given(st.ip_addresses(), st.integers(0, 65535))
def test_both_versions_name_the_same_address(host, port):
    family, code = ("TCP4", 0x11) if isinstance(host, ipaddress.IPv4Address) else ("TCP6", 0x21)
    one = read([f"PROXY {family} {host} {host} {port} 1\r\n".encode() + REQUEST])
    two = read([v2_inet(code, str(host), port) + REQUEST])
    assert one[0] == two[0] == REQUEST
    assert one[1].address == two[1].address == f"{host}:{port}"


# over the wire


@pytest.mark.parametrize("name", ["v1-tcp4", "v1-unknown", "v2-tcp6", "v2-unix", "v2-local", "v2-longest"])
def test_a_request_behind_a_header_is_answered(front_end, name):
    header, _ = GOOD[name]
    with front_end.client() as client:
        client.socket.sendall(header + REQUEST)
        assert client.receive().opaque == 7
        assert client.request(106).code == 0


def test_header_and_request_in_single_bytes_are_answered(front_end):
    with front_end.client() as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in GOOD["v1-tcp4"][0] + REQUEST:
            client.socket.sendall(bytes([byte]))
        assert client.receive().opaque == 7


def test_the_address_behind_the_balancer_is_the_one_in_the_log(front_end):
    with front_end.client() as client:
        client.socket.sendall(GOOD["v1-tcp4"][0] + b"\xff" * 8)
        assert client.closed()
    front_end.wait_until(lambda: "closing the connection of 10.1.2.3:56324: bad frame" in front_end.log, "it is logged")


def test_a_local_header_leaves_the_address_of_the_balancer(front_end):
    with front_end.client() as client:
        own = "{}:{}".format(*client.socket.getsockname())
        client.socket.sendall(GOOD["v2-local"][0] + b"\xff" * 8)
        assert client.closed()
    front_end.wait_until(lambda: f"closing the connection of {own}: bad frame" in front_end.log, "it is logged")


@pytest.mark.parametrize("name", BAD)
def test_a_malformed_header_closes_the_connection(front_end, name):
    with front_end.client() as client:
        client.socket.sendall(BAD[name] + REQUEST)
        assert client.closed()
    front_end.wait_until(lambda: "malformed PROXY protocol header" in front_end.log, "it is logged")
    front_end.wait_until(lambda: front_end.counter("bad_frames_total") == 1, "it is counted")


def test_only_one_header_is_taken(front_end):
    with front_end.client() as client:
        client.socket.sendall(GOOD["v1-tcp4"][0] * 2 + REQUEST)
        assert client.closed()


def test_half_a_header_is_dropped_after_its_time(front_end_with):
    front_end = front_end_with(handshake_timeout_ms=200)
    with front_end.client() as client, front_end.client() as idle, front_end.client() as only_header:
        client.socket.sendall(b"PROXY TCP4 10.")
        only_header.socket.sendall(GOOD["v2-tcp4"][0])
        assert client.closed()
        front_end.wait_until(lambda: "incomplete after 0.2 s" in front_end.log, "it is logged")
        # who has nothing to say yet is not half open
        assert idle.request(106).code == 0
        assert only_header.request(106).code == 0


@pytest.mark.parametrize("setting", [{"proxy_protocol": False}, {"compat": "4.8"}], ids=["off", "4.8"])
def test_where_it_is_not_known_a_header_is_a_bad_frame(front_end_with, setting):
    front_end = front_end_with(**setting)
    for name in ("v1-tcp4", "v2-tcp4"):
        with front_end.client() as client:
            client.socket.sendall(GOOD[name][0] + REQUEST)
            assert client.closed()
    with front_end.client() as client:
        assert client.request(106).code == 0
    front_end.wait_until(lambda: "bad frame: frame length" in front_end.log, "it is logged")


def test_fewer_than_12_bytes_of_a_new_connection_wait_for_more(front_end_with):
    """As 5.x (semantics.md, version row 20); Java waits serverChannelMaxIdleTimeSeconds."""
    front_end = front_end_with(handshake_timeout_ms=6000)
    sent = [b"\0\0\0\0", b"\0\0\0\4\0\0\0\0", b"\0\0\0\6\0\0\0\2{}", b"GET / HTTP/", b"\x16\x03\x01"]
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(front_end.client(timeout_s=0.2)) for _ in sent]
        for client, first in zip(clients, sent, strict=True):
            client.socket.sendall(first)
        for client in clients:
            with pytest.raises(TimeoutError):
                client.receive()
        for client in clients:
            client.socket.settimeout(60)
            assert client.closed()
    said = "its first 12 bytes, PROXY header or TLS handshake was"
    front_end.wait_until(lambda: front_end.log.count(said) == len(sent), "it is said")


def test_a_frame_of_fewer_than_12_bytes_is_answered_with_the_next_one(front_end):
    with front_end.client() as client:
        client.socket.sendall(b"\0\0\0\6\0\0\0\2{}")
        assert client.send(106) == 1
        assert (client.receive().code, client.receive().code) == (3, 0)


@pytest.mark.parametrize("case", ["proxy-protocol-v1", "proxy-protocol-v2"])
def test_headers_are_accepted_as_recorded_of_5_3_3(front_end, case):
    """The recordings hold what the NameServer answered; the headers, which are no frames, they only name."""
    _, rows = golden.load("probe-framing--ns-5.3.3")
    (recorded,) = [row for row in rows if row.get("case") == case and row["sender"] == "nameserver"]
    expected = decode_command(recorded["frame"][4:])
    with front_end.client() as client:
        client.socket.sendall(GOOD["v1-tcp4" if case.endswith("1") else "v2-tcp4"][0])
        reply = client.route("TopicA")
    assert (reply.code, reply.remark, reply.ext_fields) == (expected.code, expected.remark, expected.ext_fields)


def test_a_broker_that_others_will_hardly_reach_is_told_once(front_end_with):
    """Its connection comes from elsewhere than the address that it registers says."""
    front_end = front_end_with()
    for _ in range(2):
        with front_end.client() as client:
            client.socket.sendall(b"PROXY TCP4 10.1.2.3 10.0.0.1 40000 9876\r\n")
            client.register(Broker())
            client.register(Broker("broker-b", "10.1.2.3:10911"))
            front_end.wait_until(lambda: "broker-b" in front_end.log, "it is registered")
        front_end.wait_until(lambda: front_end.status.get("brokers_alive") == 0, "they are gone")
    told = "a broker registers as 127.0.0.1:10911, where each machine reaches only itself, over a connection from "
    assert front_end.log.count(told) == 1
    assert front_end.log.count("set brokerIP1 in its broker.conf") == 1
