"""Defines the numbers of the remoting protocol under RocketMQ's own names.

Source: RequestCode, ResponseCode, RemotingSysResponseCode, LanguageCode and MQVersion of rocketmq 5.x.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class RequestCode(IntEnum):
    """The requests that a NameServer answers, and 905, which it sends."""

    PUT_KV_CONFIG = 100
    GET_KV_CONFIG = 101
    DELETE_KV_CONFIG = 102
    REGISTER_BROKER = 103
    UNREGISTER_BROKER = 104
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106
    WIPE_WRITE_PERM_OF_BROKER = 205
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
    DELETE_TOPIC_IN_NAMESRV = 216
    REGISTER_TOPIC_IN_NAMESRV = 217
    GET_KVLIST_BY_NAMESPACE = 219
    GET_TOPICS_BY_CLUSTER = 224
    GET_SYSTEM_TOPIC_LIST_FROM_NS = 304
    GET_UNIT_TOPIC_LIST = 311
    GET_HAS_UNIT_SUB_TOPIC_LIST = 312
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 313
    UPDATE_NAMESRV_CONFIG = 318
    GET_NAMESRV_CONFIG = 319
    QUERY_DATA_VERSION = 322
    ADD_WRITE_PERM_OF_BROKER = 327
    GET_BROKER_MEMBER_GROUP = 901
    BROKER_HEARTBEAT = 904
    NOTIFY_MIN_BROKER_ID_CHANGE = 905


class ResponseCode(IntEnum):
    """The response codes that a NameServer uses."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    QUERY_NOT_FOUND = 22
    GO_AWAY = 1500


def with_name(code: int, kind: type[RequestCode] | type[ResponseCode]) -> str:
    """A code as people are told of it, with RocketMQ's name: ``17 (TOPIC_NOT_EXIST)``; alone where it has none here."""
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
VERSION_V3_0_11: Final = 37  # a broker below it sends the bare topic wrapper as its register body
VERSION_V4_8_0: Final = 373
VERSION_V4_9_4: Final = 401  # from here on a client reads standard JSON: quoted broker ids in a route
VERSION_V4_9_7: Final = 407
VERSION_V5_0_0: Final = 413  # from here on a compressed register body ends with the static topic mappings
VERSION_V5_3_3: Final = 479
VERSION_V5_5_0: Final = 513

SERVER_VERSION: Final = VERSION_V5_5_0
"""The version in our replies, unless the settings ask for an older server."""

# The position of a name is its number in a binary header (LanguageCode).
LANGUAGES: Final = (
    "JAVA",
    "CPP",
    "DOTNET",
    "PYTHON",
    "DELPHI",
    "ERLANG",
    "RUBY",
    "OTHER",
    "HTTP",
    "GO",
    "PHP",
    "OMS",
    "RUST",
    "NODE_JS",
)
