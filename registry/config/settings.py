"""The table of settings: every setting is one entry of :class:`Settings`, with its type, default, limits and help."""

# No "from __future__ import annotations": to evaluate a hundred texts takes some milliseconds of every start.

import functools
import types
import typing
from typing import Annotated, Final

import msgspec

from .limit_settings import LimitSettings
from .option import About, Kind, Option, RunTime
from .stream_settings import StreamSettings

_KINDS: Final[dict[type, Kind]] = {bool: "bool", int: "int", str: "str"}

DEFAULT: Final = "default"
MIB: Final = 1024 * 1024

_SHOWN: Final = RunTime(True, "it changes only answers, not the tables, and another request can undo it")

# Every key has the namespace between braces (the hash tag), so a namespace must not contain braces.
_NAMESPACE: Final = (r"[A-Za-z0-9_.-]{1,64}", "1 to 64 letters, digits, _ . or -")

_KEYS: Final = (r"(?:[A-Za-z0-9]*;)*[A-Za-z0-9]*", "keys, separated by ;")
_PORT: Final = r"(?:[1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])"
_ADDRESSES: Final = (
    rf"(?:(?:[^\s;:\[\]]+|\[[0-9A-Fa-f:.]+\]):{_PORT}(?:;|$))*",
    "addresses host:port, separated by ;",
)
_DOMAIN: Final = (rf"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])?(?::{_PORT})?", "host or host:port")
# Request 319 answers with one line for each key: readers would take the text after a line end in a value for a key.
_LINE: Final = (r"[^\r\n]{0,1000}", "one line of at most 1000 characters")

_Port = Annotated[int, About("listenPort", "Port of the name server.", least=1, most=65535, flag="port")]


class Settings(StreamSettings, frozen=True, kw_only=True):
    """Every setting with its type, its default and its help."""

    listen_port: _Port = 9876
    bind_address: Annotated[str, About("bindAddress", "Address to listen on.", flag="host")] = "0.0.0.0"
    advertised_address: Annotated[
        str,
        About(
            "advertisedAddress",
            "Address (host or host:port) at which others reach this front end; empty = bindAddress, or the machine's "
            "own address.",
            form=_DOMAIN,
        ),
    ] = ""
    http_port: Annotated[
        int | None,
        About(
            "httpPort", "Port of /metrics, /healthz, /readyz, /rocketmq/nsaddr; 0 = off; default port + 1000.",
            least=0, most=65535,
        ),
    ] = None  # fmt: skip
    workers: Annotated[int, About("workers", "Worker processes of this front end.", least=1, most=256)] = 1
    redis: Annotated[
        str,
        About("redis", "Redis URL: redis://, rediss://, unix://, redis+sentinel://, redis+cluster://.", metavar="URL"),
    ] = ""
    namespace: Annotated[
        str, About("namespace", "Namespace: front ends of one namespace share one set of tables.", form=_NAMESPACE)
    ] = "default"
    compat: Annotated[str, About("compat", "NameServer version to behave like.", choices=("5.x", "4.8"))] = "5.x"
    serialize_type: Annotated[
        str,
        About(
            "serializeType", "How the headers of replies are written; as for Java, ROCKETMQ_SERIALIZE_TYPE sets it.",
            choices=("JSON", "ROCKETMQ"),
        ),
    ] = "JSON"  # fmt: skip
    redis_timeout_ms: Annotated[
        int, About("redisTimeoutMs", "Longest wait for one answer of Redis.", least=10, most=60_000)
    ] = 2000
    sweep: Annotated[bool, About("sweep", "Run a sweeper here: it removes silent brokers and dead workers.")] = True
    data_dir: Annotated[str, About("dataDir", "Folder of the embedded Redis (up only).", metavar="DIR")] = ""
    log_level: Annotated[
        str, About("logLevel", "Lowest level that is logged.", choices=("debug", "info", "warning", "error"))
    ] = "info"
    log_format: Annotated[
        str, About("logFormat", "Lines for people, or JSON for programs.", choices=("text", "json"))
    ] = "text"
    log_file: Annotated[str, About("logFile", "Rotating log file; empty = stderr.", metavar="FILE")] = ""
    server_channel_max_idle_time_seconds: Annotated[
        int, About("serverChannelMaxIdleTimeSeconds", "Idle connections are closed after this time.", least=1)
    ] = 120
    server_socket_backlog: Annotated[
        int, About("serverSocketBacklog", "The most connections that wait to be accepted.", least=1, most=65535)
    ] = 1024
    write_buffer_high_water_mark_bytes: Annotated[
        int,
        About(
            "writeBufferHighWaterMark",
            "Unsent bytes at which a client's requests wait.",
            least=1024,
            zero_is_default=True,
        ),
    ] = 4 * MIB
    slow_client_timeout_seconds: Annotated[
        int, About("slowClientTimeoutSeconds", "A waiting client that reads nothing for this time is closed.", least=1)
    ] = 30
    max_connections: Annotated[int, About("maxConnections", "The most connections of one worker.", least=1)] = 20_000
    max_in_flight: Annotated[
        int, About("maxInFlight", "The most requests of a worker that wait for Redis.", least=1)
    ] = 10_000
    broker_metrics: Annotated[
        int, About("brokerMetrics", "Number of broker processes whose last heartbeat is in /metrics.", most=10_000)
    ] = 0
    worker_silence_timeout_ms: Annotated[
        int,
        About(
            "workerSilenceTimeoutMs",
            "A worker that runs and sends the supervisor nothing for this time is killed and started again; 0: never.",
            most=3_600_000,
        ),
    ] = 30_000
    lookup_counts_interval_ms: Annotated[
        int,
        About("lookupCountsIntervalMs", "How often lookup counts go to the stream lookups.", least=100, most=600_000),
    ] = 10_000
    enable_shutdown_gracefully: Annotated[
        bool, About("enableShutdownGracefully", "While draining, answer GO_AWAY (1500) to clients that know it.")
    ] = True
    shutdown_wait_time_seconds: Annotated[
        int, About("shutdownWaitTimeSeconds", "Longest time of a drain.", least=0, most=3600)
    ] = 10

    proxy_protocol: Annotated[
        bool,
        About(
            "proxyProtocol",
            "A connection may begin with a PROXY protocol header (1 or 2) that names the client's address (5.x).",
        ),
    ] = True
    auth_require_tls: Annotated[
        bool,
        About(
            "authRequireTls",
            "Requests that change something need TLS, loopback, or a network that the user is bound to.",
        ),
    ] = True
    handshake_timeout_ms: Annotated[
        int,
        About(
            "handshakeTimeoutMs", "Longest time for the first 12 bytes, a PROXY header or a TLS handshake.",
            least=100, most=600_000,
        ),
    ] = 10_000  # fmt: skip
    tls_server_mode: Annotated[
        str,
        About(
            "tlsServerMode", "TLS on the name server port; permissive: each connection chooses.",
            choices=("disabled", "permissive", "enforcing"),
        ),
    ] = "permissive"  # fmt: skip
    tls_server_cert_path: Annotated[str, About("tlsServerCertPath", "Certificate chain of this server, PEM.")] = ""
    tls_server_key_path: Annotated[str, About("tlsServerKeyPath", "Its private key, PEM.")] = ""
    tls_server_key_password: Annotated[
        str, About("tlsServerKeyPassword", "Password of the private key.", secret=True)
    ] = ""
    tls_server_trust_cert_path: Annotated[
        str, About("tlsServerTrustCertPath", "Certificates of the CAs that sign clients' certificates, PEM.")
    ] = ""
    tls_server_crl_path: Annotated[
        str, About("tlsServerCrlPath", "Lists of revoked client certificates, PEM; one of each CA that signs them.")
    ] = ""
    tls_server_need_client_auth: Annotated[
        str,
        About(
            "tlsServerNeedClientAuth", "Whether clients have to show a certificate.",
            choices=("none", "optional", "require"),
        ),
    ] = "none"  # fmt: skip
    tls_server_auth_client: Annotated[
        bool, About("tlsServerAuthClient", "Check the certificates that clients show.")
    ] = False
    tls_test_mode_enable: Annotated[
        bool, About("tlsTestModeEnable", "Without a certificate, make a self-signed one.")
    ] = False
    tls_config_file: Annotated[
        str, About("tlsConfigFile", "RocketMQ's own TLS properties file (tls.server.certPath, ...), if it is there.")
    ] = "/etc/rocketmq/tls.properties"

    product_env_namesrv_addr: Annotated[
        str,
        About(
            "productEnvNamesrvAddr", "With clusterTest: the name servers to ask for unknown topics.", form=_ADDRESSES
        ),
    ] = ""
    product_env_namesrv_domain: Annotated[
        str,
        About(
            "productEnvNamesrvDomain",
            "Address server to ask for these name servers if productEnvNamesrvAddr is empty: "
            "http://DOMAIN:8080/rocketmq/nsaddr-<productEnvName> (RocketMQ's rocketmq.namesrv.domain).",
            form=_DOMAIN,
        ),
    ] = ""
    config_allow_list: Annotated[
        str, About("configAllowList", "Keys that request 318 may change, besides harmless ones.", form=_KEYS)
    ] = ""

    cluster_test: Annotated[
        bool,
        About(
            "clusterTest", "Answer unknown topics from another environment.",
            run_time=RunTime(False, "it sends clients to the brokers of another environment"),
        ),
    ] = False  # fmt: skip
    product_env_name: Annotated[
        str,
        About(
            "productEnvName", "Name of the other environment, for the log and productEnvNamesrvDomain.",
            form=_LINE,
            run_time=RunTime(True, "only a name in the log: the servers that are asked are fixed at the start"),
        ),
    ] = "center"  # fmt: skip
    order_message_enable: Annotated[
        bool, About("orderMessageEnable", "Routes carry the order configuration.", run_time=_SHOWN)
    ] = False
    return_order_topic_config_to_broker: Annotated[
        bool, About(
            "returnOrderTopicConfigToBroker", "Registrations are answered with the order configuration.",
            run_time=_SHOWN,
        ),
    ] = True  # fmt: skip
    scan_not_active_broker_interval_ms: Annotated[
        int,
        About(
            "scanNotActiveBrokerInterval", "Longest pause between two sweeps.", least=100, most=600_000,
            run_time=RunTime(True, "within its limits; a sweep also runs at each known deadline"),
        ),
    ] = 5000  # fmt: skip
    support_acting_master: Annotated[
        bool, About("supportActingMaster", "A slave may act as a lost master.", run_time=_SHOWN)
    ] = False
    enable_all_topic_list: Annotated[
        bool, About("enableAllTopicList", "Answer request 206, the list of all topics.", run_time=_SHOWN)
    ] = True  # fmt: skip
    enable_topic_list: Annotated[
        bool, About("enableTopicList", "Answer 224, 311, 312, 313: topic lists.", run_time=_SHOWN)
    ] = True
    notify_min_broker_id_changed: Annotated[
        bool,
        About(
            "notifyMinBrokerIdChanged", "Tell brokers (905) when the lowest broker id changed.",
            run_time=RunTime(True, "with or without 905, brokers learn the true addresses"),
        ),
    ] = False  # fmt: skip
    need_wait_for_service: Annotated[
        bool,
        About(
            "needWaitForService", "Has no effect; accepted because Java has it.",
            run_time=RunTime(True, "no effect: ready as soon as the tables are readable"),
        ),
    ] = False  # fmt: skip
    wait_seconds_for_service: Annotated[
        int,
        About(
            "waitSecondsForService", "Has no effect; accepted because Java has it.", least=0,
            run_time=RunTime(True, "no effect: ready as soon as the tables are readable"),
        ),
    ] = 45  # fmt: skip
    delete_topic_with_broker_registration: Annotated[
        bool,
        About(
            "deleteTopicWithBrokerRegistration", "Topics that a registration does not name are removed.",
            run_time=RunTime(False, "a broker that splits its registration would lose the topics of all parts but one"),
        ),
    ] = False  # fmt: skip
    config_black_list: Annotated[
        str,
        About(
            "configBlackList", "Keys that request 318 never changes, separated by ;", form=_LINE,
            run_time=RunTime(False, "Java's black list holds it"),
        ),
    ] = "configBlackList;configStorePath;kvConfigPath"  # fmt: skip
    broker_channel_expired_time_ms: Annotated[
        int,
        About(
            "brokerChannelExpiredTimeMs", "Timeout of a broker whose registration has none.", least=1000,
            run_time=RunTime(False, "a value below the brokers' heartbeat period removes live brokers"),
        ),
    ] = 120_000  # fmt: skip

    # A Struct makes a new dict for each instance.
    sources: dict[str, str] = {}  # noqa: RUF012
    """attribute -> where its value came from; a setting that is not here has its default."""
    without_effect: dict[str, str] = {}  # noqa: RUF012
    """Keys of :mod:`mqregistry.config.java_keys` in the properties file -> their text, for request 319."""
    java_paths: dict[str, str] = {}  # noqa: RUF012
    """The paths that a Java NameServer would have here, for request 319."""

    def source(self, name: str) -> str:
        """Where a setting's value came from, e.g. ``default`` or ``environment MQREGISTRY_PORT``."""
        return self.sources.get(name, DEFAULT)

    def is_fixed(self, name: str) -> bool:
        """Whether the environment or a flag set it, so that the shared configuration does not change it."""
        return self.source(name).startswith(("environment ", "flag "))

    @property
    def has_order_in_routes(self) -> bool:
        """Whether routes carry the order configuration; in cluster-test mode always (ClusterTestRequestProcessor)."""
        return self.order_message_enable or self.cluster_test

    @property
    def effective_http_port(self) -> int:
        """The HTTP port: ``http_port``, or its default when that is None; 0 = off."""
        if self.http_port is None:
            # port + 1000 must not be above 65535
            return self.listen_port + 1000 if self.listen_port + 1000 <= 65535 else self.listen_port - 1000
        return self.http_port


@functools.cache
def options() -> dict[str, Option]:
    """The table of settings, by attribute."""
    hints = typing.get_type_hints(Settings, include_extras=True)
    table = {}
    # help shows the settings of this class first, then those of its bases (limits and streams)
    for field in sorted(
        msgspec.structs.fields(Settings),
        key=lambda field: sum(field.name in base.__struct_fields__ for base in (StreamSettings, LimitSettings)),
    ):
        if field.name in ("sources", "without_effect", "java_paths"):
            continue
        kind, about = typing.get_args(hints[field.name])
        optional = typing.get_origin(kind) in (typing.Union, types.UnionType)
        table[field.name] = Option(field.name, "int?" if optional else _KINDS[kind], field.default, about)
    return table


@functools.cache
def options_by_key() -> dict[str, Option]:
    """The table of settings, by property key."""
    return {option.key: option for option in options().values()}
