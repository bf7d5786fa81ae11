"""Defines the numbers of the remoting protocol under RocketMQ's own names.

Source: RequestCode, ResponseCode, RemotingSysResponseCode, LanguageCode and MQVersion of rocketmq 5.x.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class RequestCode(IntEnum):
    """The requests that a NameServer answers, and 905, which it sends."""

    PUT_KV_CONFIG = 100
    """Set one key of the KV configuration."""
    GET_KV_CONFIG = 101
    """Read one key of the KV configuration."""
    DELETE_KV_CONFIG = 102
    """Delete one key of the KV configuration."""
    REGISTER_BROKER = 103
    """A broker says where it is and which topics it has; this is also its heartbeat."""
    UNREGISTER_BROKER = 104
    """A broker leaves."""
    GET_ROUTEINFO_BY_TOPIC = 105
    """Ask for the route of one topic: the lookup of producers and consumers."""
    GET_BROKER_CLUSTER_INFO = 106
    """Ask for every cluster with its broker names, and their addresses."""
    WIPE_WRITE_PERM_OF_BROKER = 205
    """Take the write permission from every topic of a broker name."""
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
    """Ask for the names of all topics."""
    DELETE_TOPIC_IN_NAMESRV = 216
    """Delete a topic everywhere, or from one cluster's brokers."""
    REGISTER_TOPIC_IN_NAMESRV = 217
    """Give a topic queues at brokers that are registered already."""
    GET_KVLIST_BY_NAMESPACE = 219
    """Read all keys of one KV namespace."""
    GET_TOPICS_BY_CLUSTER = 224
    """Ask for the topics of one cluster's brokers."""
    GET_SYSTEM_TOPIC_LIST_FROM_NS = 304
    """Ask for the names of clusters and brokers, and the address of one broker."""
    GET_UNIT_TOPIC_LIST = 311
    """Ask for the topics with the unit flag."""
    GET_HAS_UNIT_SUB_TOPIC_LIST = 312
    """Ask for the topics with the unit subscription flag."""
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 313
    """Ask for the topics with the unit subscription flag and without the unit flag."""
    UPDATE_NAMESRV_CONFIG = 318
    """Set shared settings."""
    GET_NAMESRV_CONFIG = 319
    """Ask for the settings in effect."""
    QUERY_DATA_VERSION = 322
    """A broker asks whether it has to register; this is also its heartbeat."""
    ADD_WRITE_PERM_OF_BROKER = 327
    """Give every topic of a broker name the permission 6 (read and write)."""
    GET_BROKER_MEMBER_GROUP = 901
    """Ask for the addresses of one broker name."""
    BROKER_HEARTBEAT = 904
    """A broker's heartbeat."""
    NOTIFY_MIN_BROKER_ID_CHANGE = 905
    """Sent to brokers by the name server: the lowest broker id of their name has changed."""


class ResponseCode(IntEnum):
    """The response codes that a NameServer uses."""

    SUCCESS = 0
    """Done."""
    SYSTEM_ERROR = 1
    """It failed; the remark says why. Also while Redis is away: try again."""
    SYSTEM_BUSY = 2
    """Refused, because a limit was exceeded; the remark names it."""
    REQUEST_CODE_NOT_SUPPORTED = 3
    """No name server knows this request code."""
    NO_PERMISSION = 16
    """The sender may not do this."""
    TOPIC_NOT_EXIST = 17
    """No broker has this topic."""
    QUERY_NOT_FOUND = 22
    """The KV configuration has no such key or namespace."""
    GO_AWAY = 1500
    """This front end shuts down: use another name server."""


def with_name(code: int, kind: type[RequestCode] | type[ResponseCode]) -> str:
    """A code with RocketMQ's name, ``17 (TOPIC_NOT_EXIST)``; a code that has no name here stays a number."""
    try:
        return f"{code:d} ({kind(code).name})"
    except ValueError:
        return f"{code:d}"


class Encoding(IntEnum):
    """The encoding of a header: the first byte of the mark word (SerializeType)."""

    JSON = 0
    ROCKETMQ = 1


FLAG_RESPONSE: Final = 1
FLAG_ONEWAY: Final = 2

# A header's `version` is the position of a release in the MQVersion enumeration.
VERSION_V3_0_11: Final = 37  # before it a register body is a bare topic table
VERSION_V4_8_0: Final = 373
VERSION_V4_9_4: Final = 401  # from here on clients read a route in standard JSON, with quoted broker ids
VERSION_V4_9_7: Final = 407
VERSION_V5_0_0: Final = 413  # from here on a compressed register body ends with the static topic mappings
VERSION_V5_3_3: Final = 479
VERSION_V5_5_0: Final = 513
RELEASES: Final = {"4.8.0": VERSION_V4_8_0, "4.9.7": VERSION_V4_9_7, "5.3.3": VERSION_V5_3_3, "5.5.0": VERSION_V5_5_0}

SERVER_VERSION: Final = VERSION_V5_5_0
"""The version in our replies, unless the settings ask for an older server."""

# The position of a name is its number in a binary header (LanguageCode).
LANGUAGES: Final = (
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST",
    "NODE_JS",
)  # fmt: skip
