"""A Redis client for code without an event loop: the pipeline's source reads streams with it."""

from __future__ import annotations

from typing import Any

from redis import Redis, RedisCluster, Sentinel
from redis.backoff import ExponentialBackoff
from redis.cluster import ClusterNode
from redis.retry import Retry

from registry.errors import ConfigError
from registry.store.address import Address, without_password
from registry.store.connect import UNANNOUNCED

_RETRIES = 3


def open_blocking_client(address: Address, *, timeout_ms: int) -> Any:
    """A redis-py client; nothing is connected yet. Meant for reads: a call without an answer is repeated.

    Args:
        timeout_ms: for connecting and for each answer.

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
        return RedisCluster(startup_nodes=nodes, require_full_coverage=False, **options, **address.login)
    if address.form == "sentinel":
        sentinel: Any = Sentinel(  # type: ignore[no-untyped-call]
            address.hosts, sentinel_kwargs=options | address.sentinel_login, **options, **address.login
        )
        return sentinel.master_for(address.master, db=address.database)
    try:
        return Redis.from_url(address.url, **options, **address.login)
    except ValueError as error:
        raise ConfigError(f"redis: {without_password(address.url)!r}: {error}") from error
