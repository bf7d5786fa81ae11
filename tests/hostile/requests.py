"""Requests that no honest peer would send; all that they name is evil."""

from __future__ import annotations

from mqregistry.protocol.command import Command, encode_command
from tests.server.harness import Broker, Client

EVIL = {"brokerName": "evil", "brokerAddr": "evil:1", "clusterName": "evil", "brokerId": "0", "topic": "evil",
        "namespace": "evil", "key": "evil", "value": "evil"}  # fmt: skip


def refused(client: Client, code: int, ext: dict[str, str], body: bytes = b"") -> None:
    reply = client.request(code, ext, body)
    assert reply.code != 0, (code, reply)


def evil(name: str = "evil", addr: str = "evil:1", **more: object) -> Broker:
    return Broker(name, addr, cluster="evil", **more)  # type: ignore[arg-type]


def registration(body: bytes, name: str = "evil", **ext: str) -> tuple[dict[str, str], bytes]:
    """Of a body that no broker would send."""
    fields, _ = evil(name).registration()
    return fields | {"bodyCrc32": "0"} | ext, body


def frame(code: int, ext: dict[str, str], body: bytes = b"") -> bytes:
    return encode_command(Command(code=code, opaque=1, version=479, ext_fields=ext, body=body))
