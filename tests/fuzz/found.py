"""What found something once, over the wire or beside it: name -> the bytes. Never taken out again."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

from mqregistry.protocol.command import Command, encode_command


def _registration(body: bytes) -> bytes:
    ext = {
        "brokerId": "0", "clusterName": "c", "brokerName": "b", "brokerAddr": "b:1", "haServerAddr": "",
        "bodyCrc32": "0",
    }  # fmt: skip
    return encode_command(Command(code=103, opaque=1, version=479, ext_fields=ext, body=body))


def million_topics() -> bytes:
    """Its script kept Redis from everybody else for seconds."""
    table = b",".join(b'"%x":{}' % number for number in range(1_000_000))
    return _registration(b'{"topicConfigSerializeWrapper":{"topicConfigTable":{%b}}}' % table)


def two_million_compressed_topics() -> bytes:
    """5 MB of them kept the event loop from everybody else for seconds."""
    line = b"t 1 1 6 SINGLE_TAG"
    lines = (struct.pack(">i", len(line)) + line) * 2_000_000
    return _registration(zlib.compress(struct.pack(">i", 2) + b"{}" + struct.pack(">i", 2_000_000) + lines))


FOUND: dict[str, Callable[[], bytes]] = {
    make.__name__: make for make in (million_topics, two_million_compressed_topics)
}
