"""The values in the route tables, in RocketMQ's own terms.

A *broker_name* is a replica group, a *broker_addr* is one process of it, and a process is identified by
``who(cluster, broker_addr)``. All values are immutable; shapes and names follow the NameServer's
RouteInfoManager (rocketmq 5.x).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""An int whose range is checked when it is decoded."""

MASTER_ID = 0

PERM_READ = 4
PERM_WRITE = 2

# For brokers that name no timeout (RouteInfoManager: DEFAULT_BROKER_CHANNEL_EXPIRED_TIME).
DEFAULT_HEARTBEAT_TIMEOUT_MS = 120_000

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"


def who(cluster: str, broker_addr: str) -> str:
    """The identity of one broker process: ``<cluster>|<broker_addr>``; an address never holds a ``|``.

    In a namespace of compat 4.8 the address alone counts: the cluster is then empty (``Behaviour.who``).
    """
    return f"{cluster}|{broker_addr}"


class QueueData(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={"read_queue_nums": "r", "write_queue_nums": "w", "perm": "p", "topic_sys_flag": "f", "registered": "b"},
):
    """The queues of one topic at one broker_name (QueueData, without the name).

    Redis holds it as JSON, short enough for a listpack: ``{"r":8,"w":8,"p":6,"f":0}``.

    ``registered``: the four numbers that the broker registered, if a request (205, 327, 217) has changed them since.
    """

    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int = 0
    registered: tuple[int, int, int, int] | msgspec.UnsetType = msgspec.UNSET

    @property
    def numbers(self) -> tuple[int, int, int, int]:
        """What clients get: readQueueNums, writeQueueNums, perm, topicSysFlag."""
        return self.read_queue_nums, self.write_queue_nums, self.perm, self.topic_sys_flag


class DataVersion(msgspec.Struct, frozen=True):
    """How new a broker's topic table is; in 5.x two versions are equal only if all three numbers are equal."""

    counter: int = 0
    timestamp: int = 0
    state_version: int = 0


class BrokerRow(msgspec.Struct, frozen=True):
    """One broker_name: its cluster (of its first registration) and the address of each broker id.

    ``rev``: the change number (``seq``) of the last change of this row or of its queue data; 0 when there is no row.
    """

    cluster: str
    broker_addrs: dict[int, str]
    zone_name: str | None = None
    enable_acting_master: bool = False
    rev: int = 0


class TopicConfig(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One topic as a broker registers it; its JSON is as in the body of a registration."""

    topic_name: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_sys_flag: Int32 = 0

    def queue_data(self) -> QueueData:
        """The fields that the route tables keep."""
        return QueueData(self.read_queue_nums, self.write_queue_nums, self.perm, self.topic_sys_flag)


class TopicQueueMapping(msgspec.Struct, frozen=True):
    """A static topic's mapping at one broker (TopicQueueMappingInfo, 5.x)."""

    topic: str | None
    bname: str | None
    total_queues: int = 0
    epoch: int = 0
    dirty: bool = False
    scope: str | None = None
    curr_id_map: dict[int, int] | None = None


class Registration(msgspec.Struct, frozen=True):
    """Everything that a registerBroker request (103) says, decoded and checked.

    ``filter_servers``: None leaves the list as it is, an empty list removes it.
    ``mappings``: static topic -> (brokerName the mapping is for, its JSON as the tables keep it).
    ``enable_acting_master``: None when the header field is absent (brokers before 5.x).
    ``heartbeat_timeout_ms``: None when the broker does not say.
    """

    cluster: str
    broker_name: str
    broker_id: int
    broker_addr: str
    ha_server_addr: str | None = None
    zone_name: str | None = None
    enable_acting_master: bool | None = None
    heartbeat_timeout_ms: int | None = None
    data_version: DataVersion = DataVersion()
    topics: dict[str, QueueData] = {}
    mappings: dict[str, tuple[str, str]] = {}
    filter_servers: list[str] | None = None


class TopicRoute(msgspec.Struct, frozen=True):
    """The answer to "where is this topic?" (TopicRouteData).

    ``queue_datas``: broker_name -> queues; ``broker_rows``: broker_name -> row;
    ``filter_servers``: broker_addr -> its filter servers (only of brokers that have some);
    ``mappings``: broker_name -> mapping JSON text, or None when the topic has none;
    ``order_topic_conf``: the ORDER_TOPIC_CONFIG value, or None.
    """

    queue_datas: dict[str, QueueData]
    broker_rows: dict[str, BrokerRow]
    filter_servers: dict[str, list[str]]
    mappings: dict[str, str] | None = None
    order_topic_conf: str | None = None
