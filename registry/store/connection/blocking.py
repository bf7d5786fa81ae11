"""Redis for code without an event loop: a client, and the commands with which the pipeline reads a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from redis import Redis, RedisCluster, Sentinel
from redis.backoff import ExponentialBackoff
from redis.cluster import ClusterNode
from redis.retry import Retry

from ...errors import ConfigError, StoreError
from ...events.journal import Stream
from .. import keys
from .asyncio_client import NO_CLIENT_INFO
from .errors import mapped_errors
from .url import RedisAddress, without_password

_RETRIES = 3

Entry = tuple[bytes, list[bytes]]
"""An entry of a stream as Redis sends it: id, [field, value, ...]."""


class StreamInfo(NamedTuple):
    """A stream now. ``first`` and ``last`` are None if it is empty; ``max_deleted`` is None before Redis 7."""

    first: Entry | None
    last: Entry | None
    length: int
    last_generated: str
    max_deleted: str | None


class BlockingStream:
    """The commands that read one stream of a namespace.

    Every method raises StoreUnavailable when Redis does not answer, and StoreError when its answer is an error.

    Args:
        open_client: calls :func:`open_blocking_client` with ``raw=RAW``; called at the first command.
        where: names the Redis in messages, without a password.
    """

    RAW = ("XRANGE", "XREVRANGE", "XINFO STREAM")

    def __init__(self, open_client: Callable[[], Any], namespace: str, name: Stream, where: str) -> None:
        self.key: str = getattr(keys, name)(namespace)
        self._meta = keys.meta(namespace)
        self._open_client = open_client
        self._what = f"reading {self.key} from {where}"
        self._client: Any = None

    def close(self) -> None:
        """Close the connection to Redis."""
        if self._client is not None:
            self._client.close()

    def _call(self, *command: Any) -> Any:
        with mapped_errors(self._what):
            if self._client is None:
                self._client = self._open_client()
            return self._client.execute_command(*command)

    def meta(self) -> tuple[str, int, str] | None:
        """The namespace's epoch, seq and schema major; None: there is no such namespace."""
        epoch, seq, schema = self._call("HMGET", self._meta, "epoch", "seq", "schema")
        return None if epoch is None or schema is None else (epoch.decode(), int(seq or 0), schema.decode())

    def info(self) -> StreamInfo | None:
        """The stream now; None: it does not exist."""
        try:
            flat = self._call("XINFO STREAM", self.key)
        except StoreError as error:
            if "no such key" not in str(error):
                raise
            return None
        info = dict(zip(flat[::2], flat[1::2], strict=True))
        deleted = info.get(b"max-deleted-entry-id")
        return StreamInfo(
            info[b"first-entry"], info[b"last-entry"], info[b"length"], info[b"last-generated-id"].decode(),
            deleted.decode() if deleted else None,
        )  # fmt: skip

    def range(self, begin: str, end: str, count: int) -> list[Entry]:
        """At most ``count`` entries from ``begin`` to ``end``, the oldest first; ``(`` before an id leaves it out."""
        found: list[Entry] = self._call("XRANGE", self.key, begin, end, "COUNT", count)
        return found

    def range_back(self, end: str, count: int) -> list[Entry]:
        """At most ``count`` entries up to ``end``, the newest first."""
        found: list[Entry] = self._call("XREVRANGE", self.key, end, "-", "COUNT", count)
        return found

    def length(self) -> int:
        """How many entries the stream has."""
        return int(self._call("XLEN", self.key))


class _RawCluster(RedisCluster):
    """A cluster client that returns the answers of some commands as Redis sent them.

    The clients of the single nodes parse answers, so this class sets ``raw`` on each of them.
    """

    raw: Iterable[str] = ()

    def get_redis_connection(self, node: Any) -> Any:
        client: Any = super().get_redis_connection(node)
        _leave_raw(client, self.raw)
        return client


def _leave_raw(client: Any, commands: Iterable[str]) -> None:
    for command in commands:
        client.set_response_callback(command, lambda reply, **options: reply)


def _read_session_tickets(connection: Any) -> None:
    """Read the session tickets that TLS 1.3 sends after the handshake, by a PING.

    redis-py closes a connection with unread session tickets, as with any unexpected data. With a login no PING is
    needed: redis-py reads the tickets when it reads the answer to AUTH.
    """
    if not (connection.username or connection.password):
        connection.send_command("PING")
        connection.read_response()


def _connected(connection: Any) -> None:
    connection.on_connect()
    _read_session_tickets(connection)


def open_blocking_client(address: RedisAddress, *, timeout_ms: int, raw: Iterable[str] = ()) -> Any:
    """Open a redis-py client, which connects with the first call. Only for reads: an unanswered call is sent again.

    Args:
        timeout_ms: for connecting and for each answer.
        raw: commands whose answers are returned as Redis sent them.

    Raises:
        ConfigError: an option of the URL is wrong.
    """
    options: dict[str, Any] = {
        "socket_timeout": timeout_ms / 1000,
        "socket_connect_timeout": timeout_ms / 1000,
        "retry": Retry(ExponentialBackoff(cap=1, base=0.05), _RETRIES),
        "protocol": 2,
        **NO_CLIENT_INFO,
    }
    if address.form == "cluster":
        nodes: list[Any] = [ClusterNode(host, port) for host, port in address.hosts]  # type: ignore[no-untyped-call]
        if address.login.get("ssl"):
            options["redis_connect_func"] = _read_session_tickets
        cluster = _RawCluster(startup_nodes=nodes, require_full_coverage=False, **options, **address.login)
        cluster.raw = tuple(raw)
        return cluster
    if address.login.get("ssl") or address.url.startswith("rediss:"):
        options["redis_connect_func"] = _connected
    client = _open_one(address, options)
    _leave_raw(client, raw)
    return client


def _open_one(address: RedisAddress, options: dict[str, Any]) -> Any:
    if address.form == "sentinel":
        sentinel: Any = Sentinel(  # type: ignore[no-untyped-call]
            address.hosts, sentinel_kwargs=options | address.sentinel_login, **options, **address.login
        )
        return sentinel.master_for(address.master, db=address.database)
    try:
        return Redis.from_url(address.url, **options, **address.login)
    except ValueError as error:
        raise ConfigError(f"redis: {without_password(address.url)!r}: {error}") from error
