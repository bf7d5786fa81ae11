"""Reads and writes the header fields (extFields) of every request and reply as typed values.

In Java a missing field, or a number that cannot be parsed, is null, and the request is processed anyway. So every field
here may be None, and each handler refuses what it cannot use. Handlers of writes use :meth:`Header.checked`, which
refuses names that are too long or have control characters (docs/differences.md D9). Fields have RocketMQ's names, in
snake_case.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, Self

import msgspec

from ..errors import RemoteProtocolError
from ..model import Int32
from ..names import fault_of_address, fault_of_name
from .numbers import parse_boolean, parse_int, parse_long

# extFields that no header class of Java declares; NameServers read them by these names (MixAll).
ZONE_NAME: Final = "__ZONE_NAME"
ZONE_MODE: Final = "__ZONE_MODE"

_NOT_NAMES: Final = frozenset({"value"})  # the value of a KV key is no name; the script that stores it limits its size

_PARSERS: Final[tuple[tuple[Any, Callable[[str], Any]], ...]] = (
    (str | None, str),
    (int | None, parse_long),
    (Int32 | None, parse_int),
    (bool | None, parse_boolean),
    (bool, parse_boolean),
)


class Header(msgspec.Struct, frozen=True, rename="camel"):
    """Base of all headers: converts extFields to typed fields and back."""

    @classmethod
    def from_ext_fields(cls, ext_fields: dict[str, str] | None) -> Self:
        """Read the known fields; never raises. Unknown fields are ignored; values that cannot be parsed are None."""
        if not ext_fields:
            return cls()
        return cls(**{name: parse(ext_fields[key]) for name, key, parse in _fields(cls) if key in ext_fields})

    @classmethod
    def checked(cls, ext_fields: dict[str, str] | None) -> Self:
        """Read the known fields, and refuse names with a fault: for requests that change something, or ask Redis.

        Raises:
            RemoteProtocolError: a name has a fault; the message names the field. ``closes`` is false.
        """
        header = cls.from_ext_fields(ext_fields)
        fault = header.fault()
        if fault is not None:
            raise RemoteProtocolError(f"{fault}; nothing was changed")
        return header

    def fault(self) -> str | None:
        """The first field with a fault in its name, and the fault; None: no fault. A missing name has no fault."""
        for name, key, parse in _fields(type(self)):
            value = getattr(self, name) if parse is str and key not in _NOT_NAMES else None
            fault = (fault_of_address if key == "brokerAddr" else fault_of_name)(value) if value else None
            if fault is not None:
                return f"{key} {fault}"
        return None

    def to_ext_fields(self) -> dict[str, str]:
        """Write the fields that are not None, in their declared order."""
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
    """Return (attribute, extFields key, parser) of every field of a header class."""
    parsers = []
    for field in msgspec.structs.fields(header):
        (parser,) = (parse for kind, parse in _PARSERS if kind == field.type)
        parsers.append((field.name, field.encode_name, parser))
    return tuple(parsers)


class PutKVConfig(Header, frozen=True):
    """PUT_KV_CONFIG (100): set one key of the KV configuration."""

    namespace: str | None = None
    key: str | None = None
    value: str | None = None


class GetKVConfig(Header, frozen=True):
    """GET_KV_CONFIG (101): read one key of the KV configuration."""

    namespace: str | None = None
    key: str | None = None


class DeleteKVConfig(Header, frozen=True):
    """DELETE_KV_CONFIG (102): delete one key of the KV configuration."""

    namespace: str | None = None
    key: str | None = None


class GetKVListByNamespace(Header, frozen=True):
    """GET_KVLIST_BY_NAMESPACE (219): read all keys of one KV namespace."""

    namespace: str | None = None


class RegisterBroker(Header, frozen=True):
    """REGISTER_BROKER (103): a broker says where it is; its body says which topics it has."""

    broker_name: str | None = None
    broker_addr: str | None = None
    cluster_name: str | None = None
    ha_server_addr: str | None = None
    broker_id: int | None = None
    # the broker expires when no heartbeat comes for this time; only 5.x brokers with acting masters send it
    heartbeat_timeout_millis: int | None = None
    enable_acting_master: bool | None = None  # None before 5.x
    compressed: bool = False  # whether the body is a zlib stream; 5.x brokers send false even when it is
    body_crc32: Int32 | None = None  # CRC-32 of the body without the sign bit; 0 and None: the body is not checked
    zone_name: str | None = msgspec.field(name=ZONE_NAME, default=None)


class RegisterBrokerReply(Header, frozen=True):
    """Reply to REGISTER_BROKER (103); both fields are set only for a slave whose master is registered."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnregisterBroker(Header, frozen=True):
    """UNREGISTER_BROKER (104): a broker leaves."""

    broker_name: str | None = None
    broker_addr: str | None = None
    cluster_name: str | None = None
    broker_id: int | None = None


class GetRouteInfo(Header, frozen=True):
    """GET_ROUTEINFO_BY_TOPIC (105): ask for the route of one topic."""

    topic: str | None = None
    accept_standard_json_only: bool = False
    zone_name: str | None = msgspec.field(name=ZONE_NAME, default=None)
    zone_mode: bool = msgspec.field(name=ZONE_MODE, default=False)

    @property
    def zone_filter(self) -> str | None:
        """The zone that the route is limited to; None unless zone_mode is true and zone_name is not blank."""
        return self.zone_name if self.zone_mode and self.zone_name and self.zone_name.strip() else None


class WipeWritePerm(Header, frozen=True):
    """WIPE_WRITE_PERM_OF_BROKER (205) and ADD_WRITE_PERM_OF_BROKER (327), which have the same field."""

    broker_name: str | None = None


class DeleteTopic(Header, frozen=True):
    """DELETE_TOPIC_IN_NAMESRV (216); ``cluster_name``: delete it from the brokers of this cluster only."""

    topic: str | None = None
    cluster_name: str | None = None


class RegisterTopic(Header, frozen=True):
    """REGISTER_TOPIC_IN_NAMESRV (217): give a topic queues at brokers that are registered already."""

    topic: str | None = None


class TopicsByCluster(Header, frozen=True):
    """GET_TOPICS_BY_CLUSTER (224): list the topics of one cluster's brokers."""

    cluster: str | None = None


class QueryDataVersion(Header, frozen=True):
    """QUERY_DATA_VERSION (322): ask whether a registration is needed."""

    broker_name: str | None = None
    broker_addr: str | None = None
    cluster_name: str | None = None
    broker_id: int | None = None


class QueryDataVersionReply(Header, frozen=True):
    """Reply to QUERY_DATA_VERSION (322)."""

    changed: bool | None = None


class GetBrokerMemberGroup(Header, frozen=True):
    """GET_BROKER_MEMBER_GROUP (901): ask for the addresses of one brokerName."""

    cluster_name: str | None = None
    broker_name: str | None = None


class BrokerHeartbeat(Header, frozen=True):
    """BROKER_HEARTBEAT (904): a broker is alive."""

    cluster_name: str | None = None
    broker_addr: str | None = None
    broker_name: str | None = None


class NotifyMinBrokerIdChange(Header, frozen=True):
    """NOTIFY_MIN_BROKER_ID_CHANGE (905), which a NameServer sends to brokers."""

    min_broker_id: int | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None
