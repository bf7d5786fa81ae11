"""From a URL to a Redis client, and from its errors to ours.

The forms stand in :mod:`registry.store.address`.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

from redis import exceptions
from redis.asyncio import (
    BlockingConnectionPool,
    Connection,
    Redis,
    Sentinel,
    SentinelConnectionPool,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelManagedConnection, SentinelManagedSSLConnection
from redis.backoff import NoBackoff

from registry.errors import ConfigError, StoreError, StoreUnavailable
from registry.store.address import PASSWORD_VARIABLE, parse_url, without_password

# Answers of a Redis that cannot take a write just now, though it talks: it is "away" for our purposes.
_AWAY = (
    "LOADING",
    "READONLY",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "NOREPLICAS",
    "MISCONF",
    "OOM",
    "BUSY",
    "UNBLOCKED",
)
# Answers of a Redis that is no master any more: whoever is the master now, it is to be looked for anew.
_DEMOTED = ("READONLY", "UNBLOCKED")

# How a script says that its user lacks a right: Redis 6.2, and 7 or later.
_REFUSALS = ("The user executing the script can't", "ACL failure in script")

# How much longer than for an answer a call waits for its turn. When a thousand brokers come at once, the last of them
# waits for all others although Redis is well.
_TURN_TIMEOUTS = 3
_NO_TURN = ("No connection available", "no connection became free")

# Without these, each new connection says CLIENT SETINFO first: two commands that older servers and the least
# rights refuse. The second form is that of redis-py before 8.
UNANNOUNCED: dict[str, Any] = (
    {"driver_info": None}
    if "driver_info" in inspect.signature(Redis.__init__).parameters
    else {"lib_name": None, "lib_version": None}
)


@contextlib.contextmanager
def mapped_errors(what: str) -> Iterator[None]:
    """Turn redis-py's errors into ours; ``what`` names the operation in the message."""
    try:
        yield
    except exceptions.AuthenticationError as error:
        raise _refused_login(what, error) from error
    except (exceptions.ConnectionError, exceptions.TimeoutError, OSError, TimeoutError) as error:
        if str(error).startswith(_NO_TURN):
            raise StoreUnavailable(f"{what}: too much is asked of Redis at once, this call had no turn") from error
        raise StoreUnavailable(f"{what}: Redis is away: {error}") from error
    except exceptions.ResponseError as error:
        text = str(error)
        if isinstance(error, exceptions.NoPermissionError) or any(refusal in text for refusal in _REFUSALS):
            raise StoreError(
                f"{what}: this Redis user lacks a right: {error}; ACL LOG on the server names the command, and "
                "deploy/users.acl holds every right that is needed"
            ) from error
        if _says(text, _AWAY):
            raise StoreUnavailable(f"{what}: Redis cannot write now: {error}") from error
        raise StoreError(f"{what}: {error}") from error
    except (exceptions.RedisError, exceptions.RedisClusterException) as error:  # the latter stands by itself
        if isinstance(error.__cause__, exceptions.AuthenticationError):  # of a node of a cluster
            raise _refused_login(what, error) from error
        raise StoreUnavailable(f"{what}: {error}") from error


def _refused_login(what: str, error: Exception) -> StoreError:
    return StoreError(
        f"{what}: Redis refuses this login: {error}; check user and password in the URL (the password may also "
        f"come from {PASSWORD_VARIABLE}), and that the user is on"
    )


class _LeavesReplicas:
    """A connection that hangs up when its server turns out to be no master any more.

    Sentinel closes the connections of a master that it demotes, but a demotion by hand does not, nor does an
    address in front of several servers know of it. redis-py looks for READONLY alone, and only at the beginning
    of an error; an error inside a script has it in the middle.
    """

    async def read_response(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return await super().read_response(*args, **kwargs)  # type: ignore[misc]
        except exceptions.ResponseError as error:
            if not _says(str(error), _DEMOTED):
                raise
            await self.disconnect()  # type: ignore[attr-defined]
            raise exceptions.ConnectionError(f"this Redis is not the master any more: {error}") from error


class _Connection(_LeavesReplicas, Connection):
    pass


class _SSLConnection(_LeavesReplicas, SSLConnection):
    pass


class _UnixConnection(_LeavesReplicas, UnixDomainSocketConnection):
    pass


class _SentinelConnection(_LeavesReplicas, SentinelManagedConnection):
    pass


class _SentinelSSLConnection(_LeavesReplicas, SentinelManagedSSLConnection):
    pass


_LEAVING = {Connection: _Connection, SSLConnection: _SSLConnection, UnixDomainSocketConnection: _UnixConnection}


class _SentinelPool(SentinelConnectionPool, BlockingConnectionPool):
    """Asks Sentinel for the master; calls beyond ``max_connections`` wait for a free connection."""


class _SentinelRedis(Redis):
    """Closes its connections to the Sentinels too, which redis-py leaves open."""

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        await super().aclose(close_connection_pool)
        pool: Any = self.connection_pool
        for sentinel in pool.sentinel_manager.sentinels:
            await sentinel.aclose()


class _Cluster(RedisCluster):
    """A cluster client whose calls wait for a free connection, and which outlives the node it began with.

    redis-py asks a node where the key of an XREAD stands (COMMAND GETKEYS): before every read, always the same
    node, and it does not look for another one when that is dead. Here the key is found without asking.
    """

    def __init__(self, *, max_connections: int, wait_s: float, **options: Any) -> None:
        # twice: a redirected call takes a second connection
        super().__init__(max_connections=2 * max_connections, **options)
        self._turns = asyncio.Semaphore(max_connections)
        self._wait_s = wait_s

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        try:
            async with asyncio.timeout(self._wait_s):
                await self._turns.acquire()
        except TimeoutError:
            raise exceptions.ConnectionError("no connection became free") from None
        try:
            return await super().execute_command(*args, **options)
        finally:
            self._turns.release()

    async def _determine_slot(self, command: str, *args: Any) -> int:
        if command == "XREAD":
            return int(self.keyslot(args[args.index(b"STREAMS") + 1]))
        return int(await super()._determine_slot(command, *args))

    async def aclose(self) -> None:
        """Close every connection; redis-py closes none of a client whose last call failed."""
        await super().aclose()
        await self.nodes_manager.aclose()
        await self.nodes_manager.aclose("startup_nodes")


def _says(text: str, words: tuple[str, ...]) -> bool:
    """Whether an error is one of these, by itself or inside of a script's."""
    return text.startswith(words) or any(f"-{word}" in text or f" {word} " in text for word in words)


def open_client(url: str, *, timeout_ms: int, max_connections: int) -> Any:
    """A redis-py asyncio client for any of the forms above; nothing is connected yet.

    Args:
        timeout_ms: for connecting and for each answer.
        max_connections: calls beyond this many at once wait for their turn, three times as long at most.

    Raises:
        ConfigError: the URL has none of the forms.
    """
    options: dict[str, Any] = {
        "socket_timeout": timeout_ms / 1000,
        "socket_connect_timeout": timeout_ms / 1000,
        "retry": Retry(NoBackoff(), 0),  # we know ourselves what may be repeated, and when
        "protocol": 2,
        "socket_keepalive": True,
        **UNANNOUNCED,
    }
    address = parse_url(url)
    if not address.form:
        if url.startswith("unix"):
            options.pop("socket_keepalive")
        try:
            pool = BlockingConnectionPool.from_url(
                url,
                max_connections=max_connections,
                timeout=_TURN_TIMEOUTS * timeout_ms / 1000,
                **options,
                **address.login,
            )
        except ValueError as error:
            raise ConfigError(f"redis: {without_password(url)!r}: {error}") from error
        pool.connection_class = _LEAVING[pool.connection_class]
        return Redis.from_pool(pool)  # closing the client closes the pool
    if address.form == "cluster":
        nodes = [ClusterNode(host, port) for host, port in address.hosts]
        return _Cluster(
            startup_nodes=nodes,
            max_connections=max_connections,
            wait_s=_TURN_TIMEOUTS * timeout_ms / 1000,
            require_full_coverage=False,
            **options,
            **address.login,
        )
    # All of them may be asked in one call, and the last may be the one that lives.
    sentinel_timeout_s = timeout_ms / 1000 / (len(address.hosts) + 1)
    sentinel: Any = Sentinel(  # type: ignore[no-untyped-call]
        address.hosts,
        sentinel_kwargs=options
        | {"socket_timeout": sentinel_timeout_s, "socket_connect_timeout": sentinel_timeout_s}
        | address.sentinel_login,
        **options,
        **address.login,
    )
    sentinel_pool: Any = _SentinelPool(  # type: ignore[no-untyped-call]
        address.master,
        sentinel,
        is_master=True,
        max_connections=max_connections,
        timeout=_TURN_TIMEOUTS * timeout_ms / 1000,
        connection_class=_SentinelSSLConnection if address.login.get("ssl") else _SentinelConnection,
        db=address.database,
        **options,
        **address.login,
    )
    return _SentinelRedis.from_pool(sentinel_pool)
