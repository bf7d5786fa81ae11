"""The settings of a broker that registers."""

from __future__ import annotations

import msgspec

from ...errors import ConfigError
from ...model import MASTER_ID, PERM_READ, PERM_WRITE
from ...protocol.codes import SERVER_VERSION, Encoding
from ..checks import MAX_PERM, check_field_types, check_name, check_range


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's settings, by the names and with the defaults of RocketMQ's BrokerConfig.

    Args:
        broker_name, cluster_name: 1 to 255 bytes of UTF-8, no control characters.
        broker_addr: host:port at which clients reach the broker.
        broker_id: 0 is the master, 1 and more are slaves.
        ha_server_addr: host:port from which slaves replicate.
        broker_permission: without read or write, it replaces (4.x) or limits (5.x) the permission of every topic.
        zone_name: the broker's zone; a route request may ask for the brokers of one zone (5.x).
        filter_servers: addresses of the broker's filter servers; an empty list removes the registered ones.
        version: the MQVersion number in requests: servers treat the broker as a broker of this release.
        encoding: of request headers.
        compressed_register: send zlib bodies; this format has no topic_sys_flag and no topic names with a space.
        oneway: servers do not answer registrations, so the result is not known.
        force_register: send the whole table each period; if false, ask first (322) whether the server has it.
        register_name_server_period_ms: how often it registers; clamped to 10 to 60 s.
        register_broker_timeout_ms: of one registration at one server, including the connection. (Java: 24 s since 5.x.)
        incremental_register: if a topic changed, send only this topic. Servers with deleteTopicWithBrokerRegistration
            need false: then the whole table is sent.
        enable_split_registration: send at most split_registration_size topics in a request (5.x).
        enable_slave_acting_master: send a heartbeat each broker_heartbeat_interval_ms (904; with
            compatible_with_old_name_srv 322); servers remove a broker that was silent for broker_not_active_timeout_ms.
        unregister_timeout_ms: of the request 104 at one server.

    Raises:
        ConfigError: a value has the wrong type, or name servers refuse it or cannot store it.
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

    def __post_init__(self) -> None:
        try:
            self._check()
        except (TypeError, ValueError) as error:
            raise ConfigError(str(error)) from None

    def _check(self) -> None:
        check_field_types(self, "the broker's settings")
        for name in ("cluster_name", "broker_name"):
            check_name(getattr(self, name), name)
        host, _, port = check_name(self.broker_addr, "broker_addr").rpartition(":")
        if not host or not port.isdecimal() or int(port) >= 65536 or "|" in host:
            raise ValueError(f"broker_addr {self.broker_addr!r} is not host:port")
        check_range(self.broker_id, MASTER_ID, 2**63 - 1, "broker_id", "0 is the master")
        check_range(self.broker_permission, 0, MAX_PERM, "broker_permission", "the sum of 4 (read) and 2 (write)")
        check_range(self.version, 0, 2**31 - 1, "version", "an MQVersion number")
        for name in (
            "register_broker_timeout_ms", "unregister_timeout_ms", "split_registration_size",
            "broker_not_active_timeout_ms", "broker_heartbeat_interval_ms",
        ):  # fmt: skip
            check_range(getattr(self, name), 1, 2**31 - 1, name)

    @property
    def overrides_perm(self) -> bool:
        """Whether ``broker_permission`` changes the permissions of topics."""
        both = PERM_READ | PERM_WRITE
        return self.broker_permission & both != both

    @property
    def heartbeat_timeout_ms(self) -> int | None:
        """The silence after which name servers remove the broker; None: their default (120 s)."""
        return self.broker_not_active_timeout_ms if self.enable_slave_acting_master else None
