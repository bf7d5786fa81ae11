"""What anybody who reaches the port can send in order to harm: each attack is made ready, then carried out.

An attack takes the :class:`Attacked` and returns what strikes; what is expensive to make is made before.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from contextlib import suppress

from mqregistry.protocol.codes import RequestCode
from tests.server.harness import Broker

from .attacked import ATTACKER, MB, Attacked
from .requests import EVIL, evil, frame, refused, registration

Strike = Callable[[], None]

LONG_NAME = "n" * 142_000
WRITES = (104, 904, 322, 100, 101, 102, 205, 327, 216, 217, 219, 224, 901)


# B1


def long_names(at: Attacked) -> Strike:
    def strike() -> None:
        with at.attackers(1) as (client,):
            for code in WRITES:
                for name in EVIL:
                    if name not in ("brokerId", "value"):
                        client.request(code, EVIL | {name: LONG_NAME}, b'{"queueDatas":[]}')
            for name in ("brokerName", "brokerAddr", "clusterName", "haServerAddr", "__ZONE_NAME"):
                ext, body = evil(**{name: LONG_NAME}).registration()  # type: ignore[arg-type]
                refused(client, RequestCode.REGISTER_BROKER, ext, body)

    return strike


# B3


def registrations_of_huge_names(at: Attacked) -> Strike:
    requests = [evil(topics=[f"{n}" + "t" * MB]).registration() for n in range(10)]
    requests += [evil(**{name: "n" * 200_000}).registration() for name in ("haServerAddr", "brokerAddr")]  # type: ignore[arg-type]

    def strike() -> None:
        with at.attackers(1) as (client,):
            for ext, body in requests:
                refused(client, RequestCode.REGISTER_BROKER, ext, body)

    return strike


def kv_values(at: Attacked) -> Strike:
    """More than a namespace takes, and some that are too large."""
    values = [frame(100, EVIL | {"key": f"k{n}", "value": "v" * 65_536}) for n in range(300)]
    large = EVIL | {"value": "v" * 65_537}

    def strike() -> None:
        with at.attackers(1, 60) as (client,):
            refused(client, 100, large)
            codes = []
            for value in values:
                client.socket.sendall(value)
                codes.append(client.receive().code)  # type: ignore[union-attr]
            assert 200 < codes.count(0) <= 256
            assert set(codes[260:]) == {1}
            for number in range(300):
                client.request(102, EVIL | {"key": f"k{number}"})

    return strike


# B4


def queued_headers(at: Attacked) -> Strike:
    """Writes whose headers have some thousand fields, all at once."""
    fields = {f"field-{n}": "" for n in range(4000)} | {"brokerName": "evil"}
    queued = frame(205, fields) * 64

    def strike() -> None:
        with at.attackers(4) as clients:
            for client in clients:
                client.socket.settimeout(0.3)
                with suppress(OSError):
                    client.socket.sendall(queued)

    return strike


def unread_answers(at: Attacked) -> Strike:
    """Of 300 kB each."""
    asked, many = frame(206, {}) * 20, evil(topics=[f"evil-{n}-{'t' * 90}" for n in range(3000)])

    def strike() -> None:
        with at.attackers(11) as (broker, *clients):
            assert broker.register(many).code == 0
            for client in clients:
                client.socket.settimeout(0.1)
                with suppress(OSError):
                    for _ in range(5):
                        client.socket.sendall(asked)

    return strike


# B5


def unfinished_frames(at: Attacked) -> Strike:
    """17 of 16 MiB, as far as they are read."""
    block = frame(RequestCode.REGISTER_BROKER, {})[4:] + bytes(15 * MB)

    def strike() -> None:
        with at.attackers(17) as clients:
            for client in clients:
                client.socket.settimeout(0.1)
                with suppress(OSError):
                    client.socket.sendall(struct.pack(">i", 16_777_208) + block)
            with at.front_end.client() as other:
                large = Broker("evil-not", f"{ATTACKER}:1", cluster="evil", topics=[f"evil-{n}" for n in range(2000)])
                assert other.register(large).code == 0, "a large registration of another address is taken"

    return strike


def bytes_one_by_one(at: Attacked) -> Strike:
    """300 connections, each of which sends a frame as slowly as it can."""
    request = frame(105, {"topic": "evil"})

    def strike() -> None:
        with at.attackers(300) as clients:
            for byte in request[:20]:
                for client in clients:
                    client.socket.send(bytes([byte]))

    return strike


# B6


def control_characters(at: Attacked) -> Strike:
    names = ("evil\n2026-01-01 ERROR forged\x1b[2J", "evil\x1b[31m", "evil\u202e", "evil\x00", "evil\r", "evil\x7f")

    def strike() -> None:
        with at.attackers(1) as (client,):
            for code in WRITES:
                for field in EVIL:
                    for name in names:
                        if (code, field) != (100, "value"):
                            client.request(code, EVIL | {field: name}, b'{"queueDatas":[]}')
            for name in names:
                for broker in (evil(name), evil(addr=name), evil(topics=[name]), evil(haServerAddr=name)):
                    client.register(broker)
            for key in ("namespace", "key"):
                for name in names:
                    client.request(102, EVIL | {key: name})
        at.front_end.poll()
        assert not {"\x1b", "\u202e", "\x7f", "\0"} & set(at.front_end.log)
        assert "\n2026-01-01 ERROR forged" not in at.front_end.log

    return strike


# B7 and B8


def setting_toggled(at: Attacked) -> Strike:
    """The honest broker's heartbeats stay the short ones."""
    known = 'registrations_total{path="unchanged"}'

    def strike() -> None:
        before, beats = at.front_end.counter(known), 0
        with at.attackers(1) as (client,):
            for number in range(300):
                body = b"orderMessageEnable=%b\n" % (b"true", b"false")[number % 2]
                assert client.request(RequestCode.UPDATE_NAMESRV_CONFIG, None, body).code == 0
                if number % 30 == 0:
                    assert at.honest.register(at.brokers[0]).code == 0
                    beats += 1
        at.front_end.wait_until(lambda: at.front_end.counter(known) - before >= beats, "all beats were known")

    return strike


def heartbeat_timeouts(at: Attacked) -> Strike:
    """What is stored is from a second to an hour, whatever was asked for."""

    def strike() -> None:
        with at.attackers(1) as (client,):
            for number, millis in enumerate(("978307200000", "0", "-1", "1", str(2**31), str(2**63 - 1), str(2**63))):
                broker = evil(f"evil-{number}", f"evil:{number}", heartbeatTimeoutMillis=millis)
                client.register(broker)
            stored = at.redis.keys("mq:{hostile}:live:evil|*")
            assert stored
            for key in stored:
                timeout = int(at.redis.hget(key, "timeout_ms"))  # type: ignore[arg-type]
                assert 1000 <= timeout <= 3_600_000, (key, timeout)

    return strike


def bars_in_addresses(at: Attacked) -> Strike:
    """`evil` + `x|127.0.0.1:10911` would be `evil|x` + `127.0.0.1:10911`."""

    def strike() -> None:
        with at.attackers(1) as (client,):
            for addr in ("|", "x|127.0.0.1:10911", "honest-cluster|127.0.0.1:10911"):
                for cluster in ("evil", "", "honest-cluster"):
                    ext = EVIL | {"clusterName": cluster, "brokerAddr": addr, "brokerName": "honest-0"}
                    for code in (104, 322, 904):
                        client.request(code, ext, b'{"counter":9}')
                    refused(client, RequestCode.REGISTER_BROKER, *Broker("evil", addr, cluster="evil").registration())

    return strike


# the frames themselves


def bytes_that_are_no_frames(at: Attacked) -> Strike:
    """Lengths, marks and headers at their bounds; each on a connection of its own."""
    header = b'{"code":105,"flag":0,"opaque":1,"version":479,%b}'
    values = (b"-1", b"2147483647", b"2147483648", b"9223372036854775808", b"9" * 5000, b"1.5", b"null", b'""',
              b'"\xff"', b'"a\nb"', b"[]", b"{}", b"true", b"[" * 100_000, b'"' + b"a" * 250_000 + b'"')  # fmt: skip
    keys = (b"code", b"flag", b"opaque", b"version", b"language", b"remark", b"extFields", b"serializeTypeCurrentRPC")
    headers = [header % (b'"%b":%b' % (key, value)) for key in keys for value in values]
    headers += [b"", b"\0", b"{", b"[" * 200_000, b" " * 200_000, b"9" * 200_000, b"{'a':[" + b"[]," * 4000 + b"]}"]
    headers += [header % (b'"extFields":{' + b",".join(b'"%x":"a"' % n for n in range(20_000)) + b"}")]
    sent = [struct.pack(">iI", 4 + len(one), mark << 24 | len(one)) + one for one in headers for mark in (0, 1)]
    sent += [struct.pack(">i", length) + bytes(40) for length in (0, 1, -1, 3, 4, 2**31 - 1, -(2**31), 16_777_213)]
    sent += [struct.pack(">iI", 44, mark) + bytes(40) for mark in (41, 2**24 - 1, 2**31, 2**32 - 1, 7 << 24)]
    binary = struct.pack(">hbhii", 105, 0, 479, 1, 0)
    for remark, fields in ((0, -1), (0, 2**31 - 1), (-1, 0), (2**31 - 1, 0), (0, 6), (-(2**31), -(2**31))):
        head = binary + struct.pack(">ii", remark, fields) + b"\x7f\xff\xff\xff\xff\xff"
        sent.append(struct.pack(">iI", 4 + len(head), 1 << 24 | len(head)) + head)

    def strike() -> None:
        for data in sent:
            with at.attackers(1, 10) as (client,), suppress(OSError):
                client.socket.sendall(data)
                client.socket.shutdown(1)
                while client.socket.recv(1 << 16):
                    pass

    return strike


def connections_that_come_and_go(at: Attacked) -> Strike:
    def strike() -> None:
        for number in range(500):
            with at.attackers(1) as (client,):
                if number % 2:
                    client.socket.sendall(b"\x16\x03\x01\x40\x00" if number % 4 == 1 else b"PROXY TCP4 1.1.1.1")

    return strike


# B4, the bodies


def _piece(text: bytes) -> bytes:
    return struct.pack(">i", len(text)) + text


_NONE = struct.pack(">i", 0)


def _compressed(
    version: bytes = b'{"counter":1,"stateVersion":0,"timestamp":1}', *, topics: bytes = _NONE, servers: bytes = b"[]",
    rest: bytes = _NONE,
) -> bytes:  # fmt: skip
    """The compressed form of a registration."""
    return zlib.compress(_piece(version) + topics + _piece(servers) + rest)


def bodies_that_are_expensive_to_read(at: Attacked) -> Strike:
    table, size = b'{"topicConfigSerializeWrapper":{"topicConfigTable":{%b}}}', 8 * MB
    bodies = [
        table % (b'"x":' + b"[" * size), table % (b'{"a":' * (size // 6)), b'{"x":[' + b"[]," * (size // 3) + b"[]]}",
        b'{"filterServerList":[' + b"{}," * (size // 3) + b"{}]}", table % (b'"x":{"perm":' + b"9" * size + b"}"),
        table % (b'"x":{},' * (size // 7) + b'"x":{}'), table % (b'"' + b"\\u0041" * (size // 6) + b'":{}'),
        b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":' + b"9" * size + b"}}}", b"{," * (size // 2),
        table % (b'"x":{' + b",".join(b"%d:1" % n for n in range(90_000)) + b"}"), b'"' * size,
        table % b",".join(b'"%x":{}' % n for n in range(390_000)), b"{'a':[" + b"[]," * (MB // 3) + b"]}",
    ]  # fmt: skip
    versions = [b'{"counter":' + b"9" * 4000 + b"}", b"[" * 4096, b"{" * (MB), b"9" * MB]

    def strike() -> None:
        with at.attackers(1, 60) as (client,):
            for body in bodies:
                refused(client, RequestCode.REGISTER_BROKER, *registration(body))
            for version in versions:
                refused(client, RequestCode.QUERY_DATA_VERSION, EVIL, version)
                client.request(RequestCode.REGISTER_TOPIC_IN_NAMESRV, EVIL, version)

    return strike


def inflating_bodies(at: Attacked) -> Strike:
    """Eight at once that inflate to some 60 MB each, or further than is looked."""
    line = _piece(b"t 1 1 6 SINGLE_TAG")
    bodies = [
        zlib.compress(bytes(200 * MB)),
        _compressed(b"{" + b" " * (60 * MB) + b"}"),
        _compressed(b"[" + b"[]," * (20 * MB) + b"[]]"),
        _compressed(servers=b"[" + b'"",' * (20 * MB) + b'""]'),
        _compressed(topics=struct.pack(">i", 1) + _piece(b"t" * (60 * MB) + b" 1 1 6 SINGLE_TAG")),
        _compressed(topics=struct.pack(">i", 90_000) + line * 89_999 + _piece(b"none")),
        _compressed(rest=struct.pack(">i", 1) + _piece(b'{"topic":"t","currIdMap":{' + b"0:1," * MB + b"}}")),
        zlib.compress(_compressed(b"{" + b" " * (60 * MB) + b"}")),
    ]

    def strike() -> None:
        with at.attackers(len(bodies), 60) as clients:
            for number, (client, body) in enumerate(zip(clients, bodies, strict=True)):
                client.send(RequestCode.REGISTER_BROKER, *registration(body, f"evil-{number}", compressed="true"))
            assert [client.receive().code for client in clients] == [1] * len(bodies)  # type: ignore[union-attr]

    return strike
