"""The differences between the NameServers of RocketMQ 4.8.0 and 5.x, as named flags.

A namespace is made for one of the two (``--compat``), and all its front ends have the same :class:`Behaviour`. The
number at each flag is its row in the table "4.8.0 -> 5.3.3" of docs/semantics.md. Some rows have no flag, because this
project differs from both versions (docs/differences.md): it answers unknown codes (6, 21), completes a removal before
it answers (5, 18), and its lists have an order that does not depend on hash values (23).
"""

from __future__ import annotations

from typing import Final

import msgspec

from .errors import ConfigError
from .model import DataVersion, Registration, who


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """How one version of the NameServer behaves."""

    compat: str
    reply_version: int
    """The MQVersion number that every reply carries."""
    faq: str  # 16
    """The address in the remark of code 17."""
    absent_codes: frozenset[int]  # 6, 24
    """Requests that this version does not know."""
    proxy_protocol: bool  # 20
    """A front end waits for the first 12 bytes of a connection, because a PROXY protocol header may come first."""
    keeps_empty_binary_fields: bool
    """An extField of length 0 in a binary header is an empty text, not null."""

    refuses_first_single_topic: bool  # 1
    null_topics_are_void: bool  # 1: Java fails when it counts the topics
    unregisters_by_id: bool  # 2
    restores_deleted_topics: bool  # 3
    live_by_cluster: bool  # 4
    """The live table and the filter servers have the key (cluster, address), not only the address."""
    state_versions: bool  # 7
    acting_masters: bool  # 8, 9
    heartbeat_timeouts: bool  # 26
    static_topics: bool  # 15
    zones: bool  # 12, 17
    deletes_in_one_cluster: bool  # 13
    version_query_needs_body: bool  # 14
    version_query_always_refreshes: bool  # 25

    standard_json: bool  # 10
    """The broker ids in a route are quoted if the request asks for standard JSON."""
    old_bodies: bool  # 11, 12
    """Bodies have topicSynFlag, and neither enableActingMaster nor zoneName."""

    black_list: frozenset[str]  # 19
    """Keys that 318 refuses in addition to configBlackList."""
    ignored_settings: frozenset[str]  # 22
    """Keys that only the other version has: they have no effect, 318 treats them as unknown, 319 does not show them."""
    shown_settings: tuple[str, ...]  # 22
    """The keys that 319 shows, in this order; () = all keys of 5.x, sorted."""
    shown_defaults: dict[str, str]  # 22
    """Defaults that differ from those of 5.x."""

    def who(self, cluster: str, broker_addr: str) -> str:
        """The identity of a broker process in the live table."""
        return who(cluster if self.live_by_cluster else "", broker_addr)

    def seen(self, registration: Registration) -> Registration:
        """A registration without the fields that this version does not know."""
        return msgspec.structs.replace(
            registration,
            data_version=self.seen_version(registration.data_version),
            enable_acting_master=registration.enable_acting_master if self.acting_masters else None,
            heartbeat_timeout_ms=registration.heartbeat_timeout_ms if self.heartbeat_timeouts else None,
            mappings=registration.mappings if self.static_topics else {},
            zone_name=registration.zone_name if self.zones else None,
        )

    def seen_version(self, version: DataVersion) -> DataVersion:
        """A data version without the number that 4.8.0 does not know."""
        return version if self.state_versions else DataVersion(version.counter, version.timestamp)


FIVE: Final = Behaviour(
    compat="5.x",
    reply_version=513,
    faq="https://rocketmq.apache.org/docs/bestPractice/06FAQ",
    absent_codes=frozenset(),
    proxy_protocol=True,
    keeps_empty_binary_fields=False,
    refuses_first_single_topic=True,
    null_topics_are_void=True,
    unregisters_by_id=False,
    restores_deleted_topics=True,
    live_by_cluster=True,
    state_versions=True,
    acting_masters=True,
    heartbeat_timeouts=True,
    static_topics=True,
    zones=True,
    deletes_in_one_cluster=True,
    version_query_needs_body=False,
    version_query_always_refreshes=True,
    standard_json=True,
    old_bodies=False,
    black_list=frozenset({"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"}),
    ignored_settings=frozenset(),
    shown_settings=(),
    shown_defaults={},
)

FOUR_EIGHT: Final = Behaviour(
    compat="4.8",
    reply_version=373,
    faq="http://rocketmq.apache.org/docs/faq/",
    absent_codes=frozenset({217, 327, 901, 904}),
    proxy_protocol=False,
    keeps_empty_binary_fields=True,
    refuses_first_single_topic=False,
    null_topics_are_void=False,
    unregisters_by_id=True,
    restores_deleted_topics=False,
    live_by_cluster=False,
    state_versions=False,
    acting_masters=False,
    heartbeat_timeouts=False,
    static_topics=False,
    zones=False,
    deletes_in_one_cluster=False,
    version_query_needs_body=True,
    version_query_always_refreshes=False,
    standard_json=False,
    old_bodies=True,
    black_list=frozenset(),
    ignored_settings=frozenset(
        {
            "configBlackList", "deleteTopicWithBrokerRegistration", "enableAllTopicList", "enableTopicList",
            "needWaitForService", "notifyMinBrokerIdChanged", "returnOrderTopicConfigToBroker",
            "scanNotActiveBrokerInterval", "supportActingMaster", "waitSecondsForService",
            "enableControllerInNamesrv", "unRegisterBrokerQueueCapacity", "clientRequestThreadPoolNums",
            "clientRequestThreadPoolQueueCapacity", "defaultThreadPoolNums", "defaultThreadPoolQueueCapacity",
            "serverNettyWorkerGroupEnable", "writeBufferLowWaterMark",
        }
    ),
    shown_settings=(
        "serverWorkerThreads", "serverSelectorThreads", "serverChannelMaxIdleTimeSeconds", "serverSocketRcvBufSize",
        "serverAsyncSemaphoreValue", "kvConfigPath", "configStorePath", "clusterTest", "orderMessageEnable",
        "serverSocketSndBufSize", "serverCallbackExecutorThreads", "serverOnewaySemaphoreValue", "listenPort",
        "rocketmqHome", "productEnvName", "useEpollNativeSelector", "serverPooledByteBufAllocatorEnable",
    ),
    shown_defaults={"serverSocketRcvBufSize": "65535", "serverSocketSndBufSize": "65535"},
)  # fmt: skip


def behaviour_of(compat: str) -> Behaviour:
    """The behaviour that the setting ``compat`` names.

    Raises:
        ConfigError: the setting names no version.
    """
    for behaviour in (FIVE, FOUR_EIGHT):
        if behaviour.compat == compat:
            return behaviour
    raise ConfigError(f"compat={compat!r}: expected {FIVE.compat} or {FOUR_EIGHT.compat}")
