"""Decodes and encodes the small bodies: KV tables, data versions and topic lists.

A body that cannot be decoded raises RemoteProtocolError, whose ``closes`` is false.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from ...model import DataVersion
from . import wire_json
from .wire_json import TolerantDecoder, WireVersion, text


class _WireTable(msgspec.Struct):
    table: dict[str, str] | None = None


class _WireTopicList(msgspec.Struct, rename="camel"):
    topic_list: list[str] | None = None


_topics: Final = TolerantDecoder(_WireTopicList, "topic list")
_table: Final = TolerantDecoder(_WireTable, "KV table")
_version: Final = TolerantDecoder(WireVersion, "data version")


def encode_kv_table(table: Mapping[str, str]) -> bytes:
    """``{"table":{...}}``, in the order of ``table``."""
    return b'{"table":%b}' % text(dict(table))


def decode_kv_table(body: bytes) -> dict[str, str]:
    """Read a KV table, in its order."""
    return _table.decode(body).table or {}


def encode_topic_list(topics: Iterable[str], broker_addr: str | None = None) -> bytes:
    """``{"topicList":[...]}``, in the order of ``topics``; before it ``brokerAddr``, in 304 if a broker is known."""
    head = b"" if broker_addr is None else b'"brokerAddr":%b,' % text(broker_addr)
    return b'{%b"topicList":%b}' % (head, text(list(topics)))


def decode_topic_list(body: bytes) -> list[str]:
    """Read a topic list, in its order."""
    return _topics.decode(body).topic_list or []


def decode_data_version(body: bytes, *, now_ms: int = 0) -> DataVersion:
    """Read a data version; an absent timestamp is ``now_ms``, as in Java."""
    return wire_json.data_version(_version.decode(body), now_ms)
