"""Shows the five tables under their names in the Java NameServer (RouteInfoManager)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec
from msgspec import UNSET, UnsetType

from ..events.cells import addr_of
from ..model import BrokerRow
from .tables import Tables


class JavaQueueData(msgspec.Struct, frozen=True, rename="camel"):
    """RocketMQ's QueueData: one row of topicQueueTable."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int


class JavaBrokerData(msgspec.Struct, frozen=True, rename="camel"):
    """RocketMQ's BrokerData: one row of brokerAddrTable."""

    cluster: str
    broker_name: str
    broker_addrs: dict[int, str]
    zone_name: str | UnsetType
    enable_acting_master: bool


class JavaDataVersion(msgspec.Struct, frozen=True, rename="camel"):
    """RocketMQ's DataVersion of a broker's topics."""

    counter: int
    state_version: int
    timestamp: int


class JavaLiveInfo(msgspec.Struct, frozen=True, rename="camel"):
    """BrokerLiveInfo, and the key that it has in 5.x (BrokerAddrInfo)."""

    cluster_name: str
    broker_addr: str
    last_update_timestamp: int
    heartbeat_timeout_millis: int
    data_version: JavaDataVersion
    channel: list[str]  # the broker's connection to each front end; in Java a single connection
    ha_server_addr: str


class JavaTables(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The tables; UNSET: not asked for, or the source does not have it.

    brokerLiveTable is keyed by address, as in 4.8. An address that two clusters have (possible in 5.x) has a key
    ``<cluster>|<address>`` in each.
    """

    topic_queue_table: dict[str, list[JavaQueueData]] | UnsetType = UNSET
    broker_addr_table: dict[str, JavaBrokerData] | UnsetType = UNSET
    cluster_addr_table: dict[str, list[str]] | UnsetType = UNSET
    broker_live_table: dict[str, JavaLiveInfo] | UnsetType = UNSET
    filter_server_table: dict[str, list[str]] | UnsetType = UNSET


NAMES = ("topicQueueTable", "brokerAddrTable", "clusterAddrTable", "brokerLiveTable", "filterServerTable")
"""The tables in the order of RouteInfoManager."""


def java_tables(tables: Tables, lives: Iterable[JavaLiveInfo] | None) -> JavaTables:
    """All five tables, sorted by name; ``lives``: the live info of broker processes, None: unknown."""
    return JavaTables(
        topic_queue_table={
            topic: [
                JavaQueueData(name, data.read_queue_nums, data.write_queue_nums, data.perm, data.topic_sys_flag)
                for name, data in sorted(datas.items())
            ]
            for topic, datas in sorted(tables.topics.items())
        },
        broker_addr_table={name: _broker_data(name, row) for name, row in sorted(tables.brokers.items())},
        cluster_addr_table={name: sorted(names) for name, names in sorted(tables.clusters.items())},
        broker_live_table=UNSET if lives is None else _by_address(lives),
        filter_server_table={
            addr_of(who): list(tables.filter_servers[who])
            for who in sorted(tables.filter_servers, key=lambda who: (addr_of(who), who))
        },
    )


def _broker_data(name: str, row: BrokerRow) -> JavaBrokerData:
    addrs = dict(sorted(row.broker_addrs.items()))
    return JavaBrokerData(row.cluster, name, addrs, row.zone_name or UNSET, row.enable_acting_master)


def _by_address(lives: Iterable[JavaLiveInfo]) -> dict[str, JavaLiveInfo]:
    processes = {(live.broker_addr, live.cluster_name): live for live in lives}
    times = Counter(addr for addr, _ in processes)
    return {
        addr if times[addr] == 1 else f"{cluster}|{addr}": live for (addr, cluster), live in sorted(processes.items())
    }
