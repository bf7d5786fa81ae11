"""Lists the topics that a Java broker registers by itself when it starts with an empty store and default settings.

Source: the first registrations of brokers 4.8.0, 4.9.7, 5.3.3 and 5.5.0 (tests/golden).
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import PERM_READ, PERM_WRITE, TopicConfig
from ...protocol.codes import VERSION_V5_0_0, VERSION_V5_5_0
from .config import BrokerConfig

_PERM_INHERIT = 1
_RW = PERM_READ | PERM_WRITE
_ALL = _RW | _PERM_INHERIT


def system_topics(config: BrokerConfig) -> Iterator[TopicConfig]:
    """The system topics of a broker of this name, cluster and version."""
    cluster, name = config.cluster_name, config.broker_name
    yield TopicConfig("TBW102", 8, 8, _ALL)
    yield TopicConfig("SELF_TEST_TOPIC", 1, 1, _RW)
    yield TopicConfig("BenchmarkTest", 1024, 1024, _RW)
    yield TopicConfig(cluster, 16, 16, _ALL)
    yield TopicConfig(name, 1, 1, _ALL)
    yield TopicConfig("OFFSET_MOVED_EVENT", 1, 1, _RW)
    yield TopicConfig("SCHEDULE_TOPIC_XXXX", 18, 18, _RW)
    yield TopicConfig(f"{cluster}_REPLY_TOPIC", 1, 1, _RW)
    if config.version >= VERSION_V5_0_0:
        yield TopicConfig("RMQ_SYS_TRANS_HALF_TOPIC", 1, 1, _RW)
        yield TopicConfig("RMQ_SYS_TRANS_OP_HALF_TOPIC", 1, 1, _RW)
        yield TopicConfig(f"rmq_sys_REVIVE_LOG_{cluster}", 8, 8, _RW)
        yield TopicConfig(f"rmq_sys_SYNC_BROKER_MEMBER_{name}", 1, 1, _PERM_INHERIT)
        yield TopicConfig("rmq_sys_wheel_timer", 1, 1, _RW)
    if config.version >= VERSION_V5_5_0:
        yield TopicConfig("RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", 1, 1, _RW)
        yield TopicConfig("RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC", 1, 1, _RW)
