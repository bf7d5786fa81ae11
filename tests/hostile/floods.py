"""What anybody who reaches the port can send in great number, or too large, in order to keep it from others."""

from __future__ import annotations

import json
from contextlib import suppress

from mqregistry.protocol.codes import RequestCode
from mqregistry.protocol.command import Command, Encoding, encode_command
from mqregistry.protocol.watch import ROUTE_WATCH

from .attacked import MB, Attacked
from .attacks import Strike
from .requests import EVIL, evil, frame

TOO_LONG = 15 * MB
SIGNED = {"AccessKey": "evil", "Signature": "x" * 28}


def bodies_that_no_code_can_use(at: Attacked) -> Strike:
    """217 and 105, in both forms of headers, signed and not: answered by their header, their body is passed over."""
    sent = [
        encode_command(
            Command(code=code, opaque=1, version=479, ext_fields=EVIL | more, body=b"[" * TOO_LONG, encoding=how)
        )
        for code in (217, 105) for more in ({}, SIGNED) for how in Encoding
    ]  # fmt: skip

    def strike() -> None:
        for data in sent:
            with at.attackers(1) as (client,):
                client.socket.sendall(data)
                answer = client.receive()
                assert answer is not None
                assert answer.code in (1, 16)
                assert client.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "evil"}).code == 17

    return strike


def unknown_codes(at: Attacked) -> Strike:
    blocks = [b"".join(frame(100_000 + number, {}) for number in range(n, n + 1000)) for n in range(0, 30_000, 1000)]

    def strike() -> None:
        with at.attackers(1, 60) as (client,):
            for block in blocks:
                client.socket.sendall(block)
                for _ in range(1000):
                    assert client.receive().code == 3  # type: ignore[union-attr]

    return strike


def route_watches(at: Attacked) -> Strike:
    """60 of 20,000 names each; those beyond the share of the address are refused."""
    bodies = [json.dumps([f"evil-{n}-{number}" for number in range(20_000)]).encode() for n in range(60)]

    def strike() -> None:
        with at.attackers(60, 60) as clients:
            first = clients[0].request(ROUTE_WATCH, {"holdMillis": "0"}, b"[]")
            assert first.ext_fields is not None
            since = {"holdMillis": "60000", "epoch": first.ext_fields["epoch"], "seq": str(2**62)}
            codes = []
            for client, body in zip(clients, bodies, strict=True):
                client.send(ROUTE_WATCH, since, body)
                client.send(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "evil"})
                codes.append(client.receive().code)  # type: ignore[union-attr]
            assert codes[0] == 17, "it is held"
            assert codes.count(1) > 50, "others are not: the client polls"

    return strike


def flood(*frames: bytes):
    """As fast as a socket takes them, over ten connections, of which nobody reads the answers for long."""

    def attack(at: Attacked) -> Strike:
        block = b"".join(frames)

        def strike() -> None:
            with at.attackers(10) as clients:
                for client in clients:
                    client.socket.settimeout(0.1)
                for _ in range(20):
                    for client in clients:
                        with suppress(OSError):
                            client.socket.sendall(block)
                            client.socket.recv(1 << 20)

        return strike

    return attack


def named(name: str, attack):
    attack.__name__ = name
    return attack


lists = named("lists", flood(*(frame(code, {}) for code in (206, 106, 304, 311, 312, 313) for _ in range(20))))
tiny_frames = named("tiny_frames", flood(*[frame(0, {})] * 2000))
long_headers = named("long_headers", flood(*[frame(106, {f"f{n}": "x" * 40 for n in range(3500)})] * 5))
writes_over_the_limit = named("writes_over_the_limit", flood(*[frame(205, EVIL)] * 200))
made_up_names = named("made_up_names", flood(*(frame(205, EVIL | {"brokerName": f"evil-{n}"}) for n in range(300))))


def static_mappings(at: Attacked) -> Strike:
    """217 whose body takes longest to read."""
    body = b'{"topicQueueMappingByBroker":{%b}}' % b",".join(b'"%x":{"currIdMap":{0:1,1:2}}' % n for n in range(14_000))

    def strike() -> None:
        with at.attackers(3, 60) as clients:
            for _ in range(5):
                for client in clients:
                    client.send(217, EVIL, body)
                for client in clients:
                    assert client.receive() is not None
            assert clients[0].register(evil()).code == 0

    return strike


FLOODS = (
    bodies_that_no_code_can_use, unknown_codes, route_watches, lists, tiny_frames, long_headers, writes_over_the_limit,
    made_up_names, static_mappings,
)  # fmt: skip
