"""Registrations that are well formed, and as expensive for a script as somebody can make them."""

from __future__ import annotations

import json
from collections import Counter

from mqregistry.protocol.codes import RequestCode

from .attacked import Attacked
from .attacks import Strike
from .names import crafted
from .requests import evil, frame, registration


def names_of_one_hash(at: Attacked) -> Strike:
    """20,000 topics of 255 bytes; then none of them."""
    names = crafted(20_000, prefixes=["mq:{hostile}:queues:", "c|"])
    few = {"dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 1700000000000}}
    table = {name: {"topicName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6} for name in names}
    body = json.dumps({"topicConfigSerializeWrapper": few | {"topicConfigTable": table}}, separators=(",", ":"))
    many, none = registration(body.encode()), evil(counter=2, topics=[]).registration()

    def strike() -> None:
        with at.attackers(1, 60) as (client,):
            assert client.request(RequestCode.REGISTER_BROKER, *many).code == 0
            at.look()
            assert client.request(RequestCode.REGISTER_BROKER, *none).code == 0
            at.look()

    return strike


def many_ids(at: Attacked) -> Strike:
    """1,000 ids of one brokerName, of which 256 are taken."""
    frames = []
    for number in range(1000):
        broker = evil(addr=f"evil:{number}", broker_id=number, topics=["evil-one", "evil-two"])
        frames.append(frame(RequestCode.REGISTER_BROKER, *broker.registration()))

    def strike() -> None:
        with at.attackers(4) as clients:
            for client, first in zip(clients, range(4), strict=True):
                client.socket.sendall(b"".join(frames[first::4]))
            codes = [client.receive().code for client in clients for _ in frames[::4]]  # type: ignore[union-attr]
        assert Counter(codes) == {0: 256, 1: 1000 - 256}, Counter(codes)

    return strike
