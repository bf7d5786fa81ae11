"""Request and reply headers: what stands in extFields, typed.

Java checks no field for presence and no number for form: a field that is missing or unparsable is null and the
request goes on. So every field here may be None, and it is the handler that says what it cannot do without.
Fields keep RocketMQ's names, in snake_case.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, Self

import msgspec

from registry.model import Int32

from .numbers import parse_boolean, parse_int, parse_long

# extFields that no header class of Java declares: NameServers read them beside it (MixAll).
ZONE_NAME: Final = "__ZONE_NAME"
ZONE_MODE: Final = "__ZONE_MODE"

_PARSERS: Final[tuple[tuple[Any, Callable[[str], Any]], ...]] = (
    (str | None, str),
    (int | None, parse_long),
    (Int32 | None, parse_int),
    (bool | None, parse_boolean),
    (bool, parse_boolean),
)


class Header(msgspec.Struct, frozen=True, rename="camel"):
    """Base of all headers; turns extFields into fields and back."""

    @classmethod
    def from_ext_fields(cls, ext_fields: dict[str, str] | None) -> Self:
        """Read what is there; never raises. Unknown entries are ignored."""
        if not ext_fields:
            return cls()
        return cls(**{name: parse(ext_fields[key]) for name, key, parse in _fields(cls) if key in ext_fields})

    def to_ext_fields(self) -> dict[str, str]:
        """Write what is not None, in the order of the fields."""
        ext_fields = {}
        for name, key, _ in _fields(type(self)):
            value = getattr(self, name)
            if isinstance(value, bool):
                ext_fields[key] = "true" if value else "false"
            elif value is not None:
                ext_fields[key] = str(value)
        return ext_fields


@cache
def _fields(header: type[Header]) -> tuple[tuple[str, str, Callable[[str], Any]], ...]:
    """Attribute, extFields key and parser of every field."""
    parsers = []
    for field in msgspec.structs.fields(header):
        (parser,) = (parse for kind, parse in _PARSERS if kind == field.type)
        parsers.append((field.name, field.encode_name, parser))
    return tuple(parsers)


class PutKVConfig(Header, frozen=True):
    """100."""

    namespace: str | None = None
    key: str | None = None
    value: str | None = None


class GetKVConfig(Header, frozen=True):
    """101."""

    namespace: str | None = None
    key: str | None = None


class GetKVConfigReply(Header, frozen=True):
    """Reply of 101."""

    value: str | None = None


class DeleteKVConfig(Header, frozen=True):
    """102."""

    namespace: str | None = None
    key: str | None = None


class GetKVListByNamespace(Header, frozen=True):
    """219."""

    namespace: str | None = None


class RegisterBroker(Header, frozen=True):
    """103.

    heartbeat_timeout_millis: how long the broker lives without a sign, 5.x acting-master brokers only.
    enable_acting_master: None before 5.x.
    compressed: whether the body is zlib; 5.x brokers send false also when it is.
    body_crc32: CRC-32 of the body without the sign bit; 0 and None are not checked.
    """

    broker_name: str | None = None
    broker_addr: str | None = None
    cluster_name: str | None = None
    ha_server_addr: str | None = None
    broker_id: int | None = None
    heartbeat_timeout_millis: int | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 | None = None
    zone_name: str | None = msgspec.field(name=ZONE_NAME, default=None)


class RegisterBrokerReply(Header, frozen=True):
    """Reply of 103; both fields only for slaves whose master is known."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnregisterBroker(Header, frozen=True):
    """104."""

    broker_name: str | None = None
    broker_addr: str | None = None
    cluster_name: str | None = None
    broker_id: int | None = None


class GetRouteInfo(Header, frozen=True):
    """105."""

    topic: str | None = None
    accept_standard_json_only: bool = False
    zone_name: str | None = msgspec.field(name=ZONE_NAME, default=None)
    zone_mode: bool = msgspec.field(name=ZONE_MODE, default=False)

    @property
    def zone_filter(self) -> str | None:
        """The zone that the answer is limited to; None without a mode of true and a name that is not blank."""
        return self.zone_name if self.zone_mode and self.zone_name and self.zone_name.strip() else None


class WipeWritePerm(Header, frozen=True):
    """205, and 327 (AddWritePerm), which has the same field."""

    broker_name: str | None = None


AddWritePerm = WipeWritePerm


class WipeWritePermReply(Header, frozen=True):
    """Reply of 205."""

    wipe_topic_count: Int32 | None = None


class AddWritePermReply(Header, frozen=True):
    """Reply of 327."""

    add_topic_count: Int32 | None = None


class DeleteTopic(Header, frozen=True):
    """216; without cluster_name the topic goes everywhere."""

    topic: str | None = None
    cluster_name: str | None = None


class RegisterTopic(Header, frozen=True):
    """217."""

    topic: str | None = None


class TopicsByCluster(Header, frozen=True):
    """224."""

    cluster: str | None = None


class QueryDataVersion(Header, frozen=True):
    """322."""

    broker_name: str | None = None
    broker_addr: str | None = None
    cluster_name: str | None = None
    broker_id: int | None = None


class QueryDataVersionReply(Header, frozen=True):
    """Reply of 322."""

    changed: bool | None = None


class GetBrokerMemberGroup(Header, frozen=True):
    """901."""

    cluster_name: str | None = None
    broker_name: str | None = None


class BrokerHeartbeat(Header, frozen=True):
    """904."""

    cluster_name: str | None = None
    broker_addr: str | None = None
    broker_name: str | None = None


class NotifyMinBrokerIdChange(Header, frozen=True):
    """905, which the NameServer sends to brokers."""

    min_broker_id: int | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None
