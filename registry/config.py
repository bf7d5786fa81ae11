"""The settings of one process: each defined once, built once at the edge, frozen, passed in.

Precedence: default < properties file < shared configuration in Redis < environment < flag. Each setting knows
where its value came from (``Settings.sources``).
"""

from __future__ import annotations

import difflib
import functools
import logging
import os
import re
import types
import typing
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

from registry import properties
from registry.errors import ConfigError

logger = logging.getLogger(__name__)

PREFIX: Final = "MQREGISTRY_"
DEFAULT: Final = "default"
SHARED: Final = "shared configuration"
MIB: Final = 1024 * 1024

# Names with our prefix that are no setting: they are read elsewhere.
_OTHER_VARIABLES: Final = frozenset(
    {
        "MQREGISTRY_REDIS_PASSWORD", "MQREGISTRY_CONFIG",
        "MQREGISTRY_CACHE", "MQREGISTRY_INTEROP", "MQREGISTRY_INTEROP_SERVER",  # of the tests with real RocketMQ
    }
)  # fmt: skip


class RunTime(NamedTuple):
    """Whether 318 may change a setting of a whole namespace: anybody who reaches the port may send one."""

    allowed: bool
    why: str


class About(NamedTuple):
    """What stands beside a setting's type and default: property key, help, scope, limits.

    flag: the command line's name where it differs from the attribute (also an environment name).
    shared: the value may come from Redis and then counts for every front end of the namespace.
    run_time: of a shared one: whether 318 may change it unless ``configAllowList`` says more, and why.
    zero_is_default: 0 asks for our default, as it asks for Netty's in Java.
    form: (regular expression, what it means) of a text.
    secret: its value is never shown.
    """

    key: str
    help: str
    shared: bool = False
    run_time: RunTime | None = None
    least: int | None = None
    most: int | None = None
    choices: tuple[str, ...] = ()
    flag: str = ""
    zero_is_default: bool = False
    form: tuple[str, str] = ("", "a text")
    secret: bool = False


_SHOWN: Final = RunTime(True, "what is told changes, the tables do not, and the next request changes it back")

# A namespace stands between braces in every key (the hash tag), so it must not hold any.
_NAMESPACE: Final = (r"[A-Za-z0-9_.-]{1,64}", "1 to 64 letters, digits, _ . or -")

_KEYS: Final = (r"(?:[A-Za-z0-9]*;)*[A-Za-z0-9]*", "keys, separated by ;")
_PORT: Final = r"(?:[1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])"
_ADDRESSES: Final = (
    rf"(?:(?:[^\s;:\[\]]+|\[[0-9A-Fa-f:.]+\]):{_PORT}(?:;|$))*",
    "addresses host:port, separated by ;",
)
_DOMAIN: Final = (rf"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])?(?::{_PORT})?", "host or host:port")
# 319 writes one line a key: a value with a line end would be read as another key.
_LINE: Final = (r"[^\r\n]{0,1000}", "one line of at most 1000 characters")

_KEPT: Final = RunTime(False, "a small value throws away what the pipeline has not read, a large one fills Redis")


def _kept(key: str, help: str, least: int = 1, most: int = 2**31 - 1) -> About:
    """How much of the streams stays: one value for a namespace, whoever sweeps."""
    return About(key, help, shared=True, run_time=_KEPT, least=least, most=most)


_Port = Annotated[int, About("listenPort", "Port of the name server.", least=1, most=65535, flag="port")]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting with its type, its default and what there is to know about it."""

    listen_port: _Port = 9876
    bind_address: Annotated[str, About("bindAddress", "Address to listen on.", flag="host")] = "0.0.0.0"
    http_port: Annotated[
        int | None,
        About("httpPort", "Port of /metrics, /healthz, /readyz; 0 = off; default port + 1000.", least=0, most=65535),
    ] = None
    workers: Annotated[int, About("workers", "Worker processes of this front end.", least=1, most=256)] = 1
    redis: Annotated[
        str, About("redis", "Redis URL: redis://, rediss://, unix://, redis+sentinel://, redis+cluster://.")
    ] = ""
    namespace: Annotated[
        str, About("namespace", "Namespace: front ends of one namespace share one set of tables.", form=_NAMESPACE)
    ] = "default"
    compat: Annotated[str, About("compat", "NameServer version to behave like.", choices=("5.x", "4.8"))] = "5.x"
    serialize_type: Annotated[
        str,
        About(
            "serializeType", "How the headers of replies are written (rocketmq.serialize.type of a Java NameServer).",
            choices=("JSON", "ROCKETMQ"),
        ),
    ] = "JSON"  # fmt: skip
    redis_timeout_ms: Annotated[
        int, About("redisTimeoutMs", "Longest wait for one answer of Redis.", least=10, most=60_000)
    ] = 2000
    sweep: Annotated[bool, About("sweep", "Run a sweeper here (brokers that fall silent, dead workers).")] = True
    data_dir: Annotated[str, About("dataDir", "Folder of the embedded Redis (up only).")] = ""
    log_level: Annotated[
        str, About("logLevel", "Least level that is logged.", choices=("debug", "info", "warning", "error"))
    ] = "info"
    log_file: Annotated[str, About("logFile", "Rotating log file; empty = stderr.")] = ""
    server_channel_max_idle_time_seconds: Annotated[
        int, About("serverChannelMaxIdleTimeSeconds", "Idle connections are closed after this.", least=1)
    ] = 120
    server_socket_backlog: Annotated[
        int, About("serverSocketBacklog", "Connections waiting to be accepted.", least=1, most=65535)
    ] = 1024
    write_buffer_high_water_mark_bytes: Annotated[
        int,
        About(
            "writeBufferHighWaterMark", "Unsent bytes from which a client is paused.", least=1024, zero_is_default=True
        ),
    ] = 4 * MIB
    slow_client_timeout_seconds: Annotated[
        int, About("slowClientTimeoutSeconds", "A paused client that reads nothing for so long is closed.", least=1)
    ] = 30
    max_connections: Annotated[int, About("maxConnections", "Connections of one worker.", least=1)] = 20_000
    max_in_flight: Annotated[int, About("maxInFlight", "Requests of one worker that wait for Redis.", least=1)] = 10_000
    worker_silence_timeout_ms: Annotated[
        int,
        About(
            "workerSilenceTimeoutMs",
            "A worker that runs and tells the supervisor nothing for so long is killed and started anew; 0: never.",
            most=3_600_000,
        ),
    ] = 30_000
    lookup_counts_interval_ms: Annotated[
        int,
        About("lookupCountsIntervalMs", "How often lookup counts go to the stream lookups.", least=100, most=600_000),
    ] = 10_000
    enable_shutdown_gracefully: Annotated[
        bool, About("enableShutdownGracefully", "Send clients that understand it away (1500) while draining.")
    ] = True
    shutdown_wait_time_seconds: Annotated[
        int, About("shutdownWaitTimeSeconds", "Bound of a drain.", least=0, most=3600)
    ] = 10

    proxy_protocol: Annotated[
        bool,
        About("proxyProtocol", "A PROXY protocol header (1 or 2) may come first and name the client's address (5.x)."),
    ] = True
    handshake_timeout_ms: Annotated[
        int,
        About("handshakeTimeoutMs", "Longest time for a PROXY header or a TLS handshake.", least=100, most=600_000),
    ] = 10_000
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
        str, About("tlsServerTrustCertPath", "Certificates that clients' certificates must come from, PEM.")
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
        bool, About("tlsTestModeEnable", "Without a certificate, make one that nobody has reason to trust.")
    ] = False
    tls_config_file: Annotated[
        str, About("tlsConfigFile", "RocketMQ's own TLS properties file (tls.server.certPath, ...), if it is there.")
    ] = "/etc/rocketmq/tls.properties"

    product_env_namesrv_addr: Annotated[
        str,
        About(
            "productEnvNamesrvAddr", "Name servers that are asked for unknown topics with clusterTest.", form=_ADDRESSES
        ),
    ] = ""
    product_env_namesrv_domain: Annotated[
        str,
        About(
            "productEnvNamesrvDomain",
            "Address server that names them when productEnvNamesrvAddr does not: http://DOMAIN:8080/rocketmq/"
            "nsaddr-<productEnvName> (RocketMQ's rocketmq.namesrv.domain).",
            form=_DOMAIN,
        ),
    ] = ""
    config_allow_list: Annotated[
        str, About("configAllowList", "Keys that 318 may change besides those that it may anyway.", form=_KEYS)
    ] = ""

    cluster_test: Annotated[
        bool,
        About(
            "clusterTest", "Answer unknown topics from another environment.", shared=True,
            run_time=RunTime(False, "it sends clients to the brokers of another environment"),
        ),
    ] = False  # fmt: skip
    product_env_name: Annotated[
        str,
        About(
            "productEnvName", "That environment's name: in the log, and for productEnvNamesrvDomain.", shared=True,
            form=_LINE,
            run_time=RunTime(True, "a name in the log: who is asked was settled when the process started"),
        ),
    ] = "center"  # fmt: skip
    order_message_enable: Annotated[
        bool, About("orderMessageEnable", "Routes carry the order configuration.", shared=True, run_time=_SHOWN)
    ] = False
    return_order_topic_config_to_broker: Annotated[
        bool, About("returnOrderTopicConfigToBroker", "Registrations are answered with it.", shared=True,
                    run_time=_SHOWN)
    ] = True  # fmt: skip
    scan_not_active_broker_interval_ms: Annotated[
        int,
        About(
            "scanNotActiveBrokerInterval", "Longest pause between two sweeps.", shared=True, least=100, most=600_000,
            run_time=RunTime(True, "within its limits; sweeps also come when a deadline is known to be due"),
        ),
    ] = 5000  # fmt: skip
    support_acting_master: Annotated[
        bool, About("supportActingMaster", "A slave may stand in for its master.", shared=True, run_time=_SHOWN)
    ] = False
    enable_all_topic_list: Annotated[
        bool, About("enableAllTopicList", "Answer 206.", shared=True, run_time=_SHOWN)
    ] = True  # fmt: skip
    enable_topic_list: Annotated[
        bool, About("enableTopicList", "Answer 224, 311, 312, 313.", shared=True, run_time=_SHOWN)
    ] = True
    notify_min_broker_id_changed: Annotated[
        bool,
        About(
            "notifyMinBrokerIdChanged", "Tell brokers (905) when the lowest id changed.", shared=True,
            run_time=RunTime(True, "brokers are told something true, or learn it by asking"),
        ),
    ] = False  # fmt: skip
    need_wait_for_service: Annotated[
        bool,
        About(
            "needWaitForService", "Accepted for Java's sake.", shared=True,
            run_time=RunTime(True, "no effect: ready as soon as the tables are readable"),
        ),
    ] = False  # fmt: skip
    wait_seconds_for_service: Annotated[
        int,
        About(
            "waitSecondsForService", "Accepted for Java's sake.", shared=True, least=0,
            run_time=RunTime(True, "no effect: ready as soon as the tables are readable"),
        ),
    ] = 45  # fmt: skip
    delete_topic_with_broker_registration: Annotated[
        bool,
        About(
            "deleteTopicWithBrokerRegistration", "Topics missing from a registration go.", shared=True,
            run_time=RunTime(False, "a broker that splits its registration would lose the topics of all parts but one"),
        ),
    ] = False  # fmt: skip
    config_black_list: Annotated[
        str,
        About(
            "configBlackList", "Keys that 318 never changes, separated by ;", shared=True, form=_LINE,
            run_time=RunTime(False, "Java's black list holds it"),
        ),
    ] = "configBlackList;configStorePath;kvConfigPath"  # fmt: skip
    broker_channel_expired_time_ms: Annotated[
        int,
        About(
            "brokerChannelExpiredTimeMs", "Life of a broker that names no timeout.", shared=True, least=1000,
            run_time=RunTime(False, "a value below the brokers' heartbeat period removes brokers that live"),
        ),
    ] = 120_000  # fmt: skip

    changes_max_age_hours: Annotated[
        int, _kept("changesMaxAgeHours", "How long events are kept (stream changes).", most=100_000)
    ] = 168
    changes_max_entries: Annotated[
        int, _kept("changesMaxEntries", "How many events are kept.", least=1000)
    ] = 500_000  # fmt: skip
    changes_max_mib: Annotated[int, _kept("changesMaxMib", "How many MiB of events are kept.", most=100_000)] = 64
    heartbeats_max_age_hours: Annotated[
        int, _kept("heartbeatsMaxAgeHours", "How long entries of the stream heartbeats are kept.", most=100_000)
    ] = 24
    heartbeats_max_entries: Annotated[
        int, _kept("heartbeatsMaxEntries", "How many are kept; a thousand need about 0.2 MB.", least=1000)
    ] = 200_000
    lookups_max_age_hours: Annotated[
        int, _kept("lookupsMaxAgeHours", "How long entries of the stream lookups are kept.", most=100_000)
    ] = 24
    lookups_max_entries: Annotated[
        int, _kept("lookupsMaxEntries", "How many are kept.", least=1000)
    ] = 50_000  # fmt: skip
    lookups_max_mib: Annotated[int, _kept("lookupsMaxMib", "How many MiB of them are kept.", most=100_000)] = 32
    stream_hard_limit_percent: Annotated[
        int,
        _kept(
            "streamHardLimitPercent",
            "How much of these numbers and MiB is kept at most while a reader has not acknowledged it.",
            least=100, most=10_000,
        ),
    ] = 200  # fmt: skip
    stream_reader_timeout_hours: Annotated[
        int,
        _kept(
            "streamReaderTimeoutHours", "A reader that was not heard of for so long keeps nothing any more.",
            most=100_000,
        ),
    ] = 24  # fmt: skip

    sources: dict[str, str] = {}
    """attribute -> where its value came from; what is absent is a default."""

    def source(self, name: str) -> str:
        """Where a setting's value came from, e.g. ``default`` or ``environment MQREGISTRY_PORT``."""
        return self.sources.get(name, DEFAULT)

    @property
    def effective_http_port(self) -> int:
        """With its default; 0 = off."""
        if self.http_port is None:
            # the last thousand ports have no port + 1000
            return self.listen_port + 1000 if self.listen_port + 1000 <= 65535 else self.listen_port - 1000
        return self.http_port


class JavaKey(NamedTuple):
    """A key that means nothing here: Java's default, which 319 shows, and why it has no effect."""

    default: str
    why: str


# Keys that Java's NamesrvConfig, NettyServerConfig and RemotingServer know and that mean nothing here. A file that
# served a Java NameServer is taken as it is; 318 keeps a value for 319 to show, as Java does.
KNOWN_TO_JAVA: Final[Mapping[str, JavaKey]] = {
    "rocketmqHome": JavaKey("", "there is no installation folder"),
    "kvConfigPath": JavaKey("", "KV configuration is kept in Redis"),
    "configStorePath": JavaKey("", "changed configuration is kept in Redis"),
    "enableControllerInNamesrv": JavaKey("false", "the controller is not part of this server"),
    "unRegisterBrokerQueueCapacity": JavaKey("3000", "unregistrations are not queued"),
    "clientRequestThreadPoolNums": JavaKey("8", "no thread pools"),
    "clientRequestThreadPoolQueueCapacity": JavaKey("50000", "no thread pools"),
    "defaultThreadPoolNums": JavaKey("16", "no thread pools"),
    "defaultThreadPoolQueueCapacity": JavaKey("10000", "no thread pools"),
    "serverWorkerThreads": JavaKey("8", "no thread pools: see workers"),
    "serverCallbackExecutorThreads": JavaKey("0", "no thread pools"),
    "serverSelectorThreads": JavaKey("3", "one event loop a worker: see workers"),
    "serverNettyWorkerGroupEnable": JavaKey("true", "no Netty"),
    "serverPooledByteBufAllocatorEnable": JavaKey("true", "no Netty"),
    "useEpollNativeSelector": JavaKey("false", "the event loop always uses epoll"),
    "serverOnewaySemaphoreValue": JavaKey("256", "see maxInFlight"),
    "serverAsyncSemaphoreValue": JavaKey("64", "see maxInFlight"),
    "serverSocketSndBufSize": JavaKey("0", "left to the kernel"),
    "serverSocketRcvBufSize": JavaKey("0", "left to the kernel"),
    "writeBufferLowWaterMark": JavaKey("0", "a quarter of the high mark"),
}

Kind = Literal["bool", "int", "int?", "str"]
_KINDS: Final[dict[Any, Kind]] = {bool: "bool", int: "int", str: "str"}


class Option(NamedTuple):
    """One setting as the table of settings has it."""

    name: str
    kind: Kind
    default: Any
    about: About

    @property
    def run_time(self) -> RunTime:
        """Whether 318 may change it unless configAllowList says more, and why."""
        return self.about.run_time or RunTime(False, "it belongs to one process")

    @property
    def key(self) -> str:
        """Its name in properties files, in 318 and in 319."""
        return self.about.key

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return "--" + (self.about.flag or self.name).replace("_", "-")

    @property
    def variables(self) -> tuple[str, ...]:
        """Its names in the environment; the first that is set counts."""
        names = dict.fromkeys((self.about.flag, self.name, _snake(self.key)))
        return tuple(PREFIX + name.upper() for name in names if name)

    @property
    def allowed(self) -> str:
        """What a value may be, for messages and help."""
        about = self.about
        if self.kind == "bool":
            return "true or false"
        if about.choices:
            return "one of " + ", ".join(about.choices)
        if self.kind == "str":
            return about.form[1]
        if about.least is not None and about.most is not None:
            return f"a whole number from {about.least} to {about.most}"
        return "a whole number" if about.least is None else f"a whole number from {about.least} on"

    def parse(self, text: str) -> Any:
        """A value from its text.

        Raises:
            ValueError: it is not what is allowed.
        """
        about, text = self.about, text.strip()
        if self.kind == "str":
            if (about.choices and text not in about.choices) or (
                about.form[0] and re.fullmatch(about.form[0], text) is None
            ):
                raise ValueError(text)
            return text
        if self.kind == "bool":
            if text.lower() not in ("true", "false"):
                raise ValueError(text)
            return text.lower() == "true"
        if self.kind == "int?" and not text:
            return None
        if not text.lstrip("-").isdecimal() or not text.isascii():
            raise ValueError(text)
        number = int(text)
        if number == 0 and about.zero_is_default:
            return self.default
        if not (about.least or 0) <= number <= (2**31 - 1 if about.most is None else about.most):
            raise ValueError(text)
        return number

    def show(self, value: Any) -> str:
        """A value as ``parse`` reads it, unless it is secret."""
        if self.about.secret:
            return "***" if value else ""
        if isinstance(value, bool):
            return "true" if value else "false"
        return "" if value is None else str(value)


def _snake(key: str) -> str:
    return "".join("_" + char.lower() if char.isupper() else char for char in key)


@functools.cache
def options() -> dict[str, Option]:
    """The table of settings, by attribute."""
    hints = typing.get_type_hints(Settings, include_extras=True)
    table = {}
    for field in msgspec.structs.fields(Settings):
        if field.name == "sources":
            continue
        kind, about = typing.get_args(hints[field.name])
        optional = typing.get_origin(kind) in (typing.Union, types.UnionType)
        table[field.name] = Option(field.name, "int?" if optional else _KINDS[kind], field.default, about)
    return table


@functools.cache
def options_by_key() -> dict[str, Option]:
    """The table of settings, by property key."""
    return {option.key: option for option in options().values()}


def build(
    *,
    flags: Mapping[str, Any] | None = None,
    assigned: Mapping[str, Any] | None = None,
    config_file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    defaults: Mapping[str, Any] | None = None,
    warn: Callable[[str], None] = logger.warning,
) -> Settings:
    """The settings of this process; the shared configuration is put in later, by :func:`with_shared`.

    Args:
        flags: attribute -> value from the command line, None where it was not given.
        assigned: the same, of --set; a flag of its own goes before it.
        config_file: a properties file.
        environ: default: the process environment.
        defaults: defaults of the command at hand, where they differ.
        warn: gets one line for each unknown key or variable.

    Raises:
        ConfigError: a file that cannot be read, or a value that is not allowed; with key, value, file and line.
    """
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {"data_dir": str(default_data_dir(environ)), **(defaults or {})}
    sources: dict[str, str] = {}

    def put(option: Option, text: str, source: str, said: str) -> None:
        try:
            values[option.name] = option.parse(text)
        except ValueError:
            raise ConfigError(f"{said}={text!r} ({source}): expected {option.allowed}") from None
        sources[option.name] = source

    if config_file is not None:
        for entry in _read_file(config_file):
            option = options_by_key().get(entry.key)
            place = f"{config_file}:{entry.line}"
            if option is not None:
                put(option, entry.value, f"file {place}", entry.key)
            elif entry.key not in KNOWN_TO_JAVA:
                warn(f"{place}: unknown key {entry.key!r}{_closest(entry.key, options_by_key())}")
            elif entry.key == "enableControllerInNamesrv" and entry.value.strip().lower() == "true":
                warn(f"{place}: {entry.key}=true has no effect: {KNOWN_TO_JAVA[entry.key].why}")
    known = set(_OTHER_VARIABLES)
    for option in options().values():
        known.update(option.variables)
        variable = next((name for name in option.variables if name in environ), None)
        if variable is not None:
            put(option, environ[variable], f"environment {variable}", variable)
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known:
            warn(f"environment: unknown variable {name}{_closest(name, known)}")
    for name, value in (assigned or {}).items():
        values[name], sources[name] = value, f"flag --set {options()[name].key}"
    for name, value in (flags or {}).items():
        if value is not None:
            option = options()[name]
            values[name], sources[name] = value, f"flag {option.flag}"
    settings = Settings(**values, sources=sources)
    shared = [key for key, option in options_by_key().items() if option.about.shared]
    for key in settings.config_allow_list.split(";"):
        if key and key not in shared:
            warn(f"configAllowList: no request can change {key!r}{_closest(key, shared)}")
    return settings


def with_shared(settings: Settings, shared: Mapping[str, str]) -> Settings:
    """The same settings under the shared configuration in Redis (``P:config``).

    Keys of one process, and values from the environment or a flag, stay as they are; so does a setting whose
    shared value is not allowed: it is logged, for nothing may stop a running front end.
    """
    values: dict[str, Any] = {}
    sources = dict(settings.sources)
    for key, text in shared.items():
        option = options_by_key().get(key)
        if option is None or not option.about.shared:
            continue
        if settings.source(option.name).startswith(("environment ", "flag ")):
            continue
        try:
            values[option.name] = option.parse(text)
        except ValueError:
            logger.warning("%s=%r of the %s is ignored: expected %s", key, text, SHARED, option.allowed)
            continue
        sources[option.name] = SHARED
    return msgspec.structs.replace(settings, **values, sources=sources)


def without(settings: Settings, keys: Collection[str]) -> Settings:
    """The same settings with the defaults of these property keys, whoever set them."""
    names = [option.name for key, option in options_by_key().items() if key in keys]
    sources = {name: source for name, source in settings.sources.items() if name not in names}
    defaults = {name: options()[name].default for name in names}
    return msgspec.structs.replace(settings, **defaults, sources=sources)


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """Where ``up`` keeps its data unless told otherwise (XDG base directories)."""
    home = environ.get("XDG_DATA_HOME") or ""
    base = Path(home) if home.startswith("/") else Path(environ.get("HOME") or Path.home()) / ".local" / "share"
    return base / "mqregistry"


def _read_file(path: Path) -> list[properties.Property]:
    try:
        return properties.parse(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot read the properties file {path}: {error.strerror or error}") from error
    except properties.PropertiesSyntaxError as error:
        raise ConfigError(f"{path}:{error.line}: {error}") from error


def _closest(name: str, known: typing.Iterable[str]) -> str:
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_lower, 1, 0.7)
    return f"; did you mean {by_lower[close[0]]}?" if close else ""
