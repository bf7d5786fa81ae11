"""A Redis client for code without an event loop: the pipeline's source reads streams with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from redis import Redis, RedisCluster, Sentinel
from redis.backoff import ExponentialBackoff
from redis.cluster import ClusterNode
from redis.retry import Retry

from registry.errors import ConfigError
from registry.store.address import Address, without_password
from registry.store.connect import UNANNOUNCED

_RETRIES = 3


class _RawCluster(RedisCluster):
    """A cluster client that leaves some commands' answers as they came; its nodes' clients parse them, not it."""

    raw: Iterable[str] = ()

    def get_redis_connection(self, node: Any) -> Any:
        client: Any = super().get_redis_connection(node)
        _leave_raw(client, self.raw)
        return client


def _leave_raw(client: Any, commands: Iterable[str]) -> None:
    for command in commands:
        client.set_response_callback(command, lambda reply, **options: reply)


def _take_tickets(connection: Any) -> None:
    """TLS 1.3 sends session tickets behind the handshake; redis-py takes them for data that nobody asked for, and
    gives the connection up, unless a first answer has come behind them. After a login one has.
    """
    if not (connection.username or connection.password):
        connection.send_command("PING")
        connection.read_response()


def _connected(connection: Any) -> None:
    connection.on_connect()
    _take_tickets(connection)


def open_blocking_client(address: Address, *, timeout_ms: int, raw: Iterable[str] = ()) -> Any:
    """A redis-py client; nothing is connected yet. Meant for reads: a call without an answer is repeated.

    Args:
        timeout_ms: for connecting and for each answer.
        raw: commands whose answers are wanted as Redis sent them.

    Raises:
        ConfigError: an option of the URL is wrong.
    """
    options: dict[str, Any] = {
        "socket_timeout": timeout_ms / 1000,
        "socket_connect_timeout": timeout_ms / 1000,
        "retry": Retry(ExponentialBackoff(cap=1, base=0.05), _RETRIES),
        "protocol": 2,
        **UNANNOUNCED,
    }
    if address.form == "cluster":
        nodes: list[Any] = [ClusterNode(host, port) for host, port in address.hosts]  # type: ignore[no-untyped-call]
        if address.login.get("ssl"):
            options["redis_connect_func"] = _take_tickets
        cluster = _RawCluster(startup_nodes=nodes, require_full_coverage=False, **options, **address.login)
        cluster.raw = tuple(raw)
        return cluster
    if address.login.get("ssl") or address.url.startswith("rediss:"):
        options["redis_connect_func"] = _connected
    client = _open_one(address, options)
    _leave_raw(client, raw)
    return client


def _open_one(address: Address, options: dict[str, Any]) -> Any:
    if address.form == "sentinel":
        sentinel: Any = Sentinel(  # type: ignore[no-untyped-call]
            address.hosts, sentinel_kwargs=options | address.sentinel_login, **options, **address.login
        )
        return sentinel.master_for(address.master, db=address.database)
    try:
        return Redis.from_url(address.url, **options, **address.login)
    except ValueError as error:
        raise ConfigError(f"redis: {without_password(address.url)!r}: {error}") from error
