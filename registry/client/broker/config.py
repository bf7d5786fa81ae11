"""Who a broker is, and how it registers."""

from __future__ import annotations

import random
from typing import Final

import msgspec

from registry.errors import ConfigError
from registry.model import MASTER_ID, PERM_READ, PERM_WRITE
from registry.protocol.codes import SERVER_VERSION, Encoding

_FIRST_S: Final = 10.0
_PERIOD_MS: Final = (10_000, 60_000)
_JITTER: Final = 0.1


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's settings, by the names and with the defaults of RocketMQ's BrokerConfig.

    Args:
        broker_addr: host:port that clients reach it at.
        ha_server_addr: host:port that slaves replicate from.
        broker_permission: replaces (4.x) or narrows (5.x) every topic's permission when it lacks read or write.
        zone_name: for route requests that ask for one zone (5.x).
        filter_servers: their addresses; an empty list says that there is none.
        version: MQVersion number that requests carry: servers treat the broker as one of that release.
        encoding: of request headers.
        compressed_register: bodies as zlib; cannot carry topic_sys_flag.
        oneway: registrations that nobody answers: nothing is learnt from them but that they were sent.
        force_register: each period sends the whole table; else 322 asks first whether it is known.
        register_name_server_period_ms: clamped to 10 to 60 s.
        register_broker_timeout_ms: one registration at one server, connecting included. (Java: 24 s since 5.x.)
        incremental_register: a changed topic is sent alone; else the whole table is, as servers that run with
            deleteTopicWithBrokerRegistration need it.
        enable_split_registration: no more than split_registration_size topics a request (5.x).
        enable_slave_acting_master: heartbeats each broker_heartbeat_interval_ms (904; 322 while
            compatible_with_old_name_srv), and a broker that is silent for broker_not_active_timeout_ms is gone.
        unregister_timeout_ms: the goodbye at one server.

    Raises:
        ConfigError: from :meth:`check`: a value that name servers refuse, or cannot store.
    """

    broker_name: str
    broker_addr: str
    cluster_name: str = "DefaultCluster"
    broker_id: int = MASTER_ID
    ha_server_addr: str = ""
    broker_permission: int = PERM_READ | PERM_WRITE
    zone_name: str | None = None
    filter_servers: tuple[str, ...] = ()
    version: int = SERVER_VERSION
    encoding: Encoding = Encoding.JSON
    compressed_register: bool = False
    oneway: bool = False
    force_register: bool = True
    register_name_server_period_ms: int = 30_000
    register_broker_timeout_ms: int = 6_000
    incremental_register: bool = True
    enable_split_registration: bool = False
    split_registration_size: int = 800
    enable_slave_acting_master: bool = False
    broker_not_active_timeout_ms: int = 10_000
    broker_heartbeat_interval_ms: int = 1_000
    compatible_with_old_name_srv: bool = True
    unregister_timeout_ms: int = 3_000

    def check(self) -> None:
        """See whether a name server could take it."""
        for name in ("cluster_name", "broker_name", "broker_addr"):
            if not getattr(self, name):
                raise ConfigError(f"{name} is empty: name servers store no broker without it")
        host, colon, port = self.broker_addr.rpartition(":")
        if not (host and colon and port.isdigit() and int(port) < 65536) or "|" in self.broker_addr:
            raise ConfigError(f"broker_addr {self.broker_addr!r} is not host:port")
        if not -(2**63) <= self.broker_id < 2**63:
            raise ConfigError(f"broker_id {self.broker_id} is no 64-bit number")
        least = {
            "register_broker_timeout_ms": 1,
            "unregister_timeout_ms": 1,
            "split_registration_size": 1,
            "broker_not_active_timeout_ms": 1,
            "broker_heartbeat_interval_ms": 1,
        }
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise ConfigError(f"{name} is {getattr(self, name)}: {bound} or more is needed")

    @property
    def overrides_perm(self) -> bool:
        """Whether the topics' own permissions are not what is registered."""
        both = PERM_READ | PERM_WRITE
        return self.broker_permission & both != both

    @property
    def heartbeat_timeout_ms(self) -> int | None:
        """After which silence the broker is gone; None: as the name server has it (120 s)."""
        return self.broker_not_active_timeout_ms if self.enable_slave_acting_master else None


class Pace(msgspec.Struct, frozen=True):
    """When a registrar registers again (seconds): ``first_s`` after the start, then each ``period_s``.

    After a failure or a lost connection it tries sooner: after ``retry_s``, then twice that, up to the period.
    Periods have a jitter of a tenth downwards; what comes of a failure, which mostly is that of many brokers at once,
    is spread over three quarters of its time.
    """

    first_s: float
    period_s: float
    retry_s: float = 1.0

    @classmethod
    def of(cls, config: BrokerConfig) -> Pace:
        """As a Java broker."""
        low, high = _PERIOD_MS
        return cls(_FIRST_S, min(max(config.register_name_server_period_ms, low), high) / 1000)

    def retry_after_s(self, failures: int) -> float:
        """How long to wait after so many failures in a row."""
        return random.uniform(0.25, 1.0) * min(self.period_s, self.retry_s * 2.0 ** min(failures - 1, 30))


def jittered(seconds: float) -> float:
    """A little less."""
    return seconds * random.uniform(1 - _JITTER, 1)
