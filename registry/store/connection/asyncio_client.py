"""Opens an asyncio client for any of the forms of a Redis URL (:mod:`mqregistry.store.connection.url`)."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
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

from ...errors import ConfigError
from .errors import is_demoted
from .in_this_process import OPENERS
from .url import parse_url, without_password

logger = logging.getLogger(__name__)

# How often a client asks its Sentinels for the master: about as often as a worker renews its lease.
_LOOK_EVERY_S = 0.9
# How long a call waits for a free connection, in socket timeouts. Above 1: when a thousand brokers register at once,
# the last call waits for all others although Redis works.
_WAIT_TIMEOUTS = 3

# These options stop CLIENT SETINFO on new connections: old servers refuse it, and the users of deploy/users.acl have no
# right for it. The second form is for redis-py before 8.
NO_CLIENT_INFO: dict[str, Any] = (
    {"driver_info": None}
    if "driver_info" in inspect.signature(Redis.__init__).parameters
    else {"lib_name": None, "lib_version": None}
)


class _LeavesReplicas:
    """A connection that closes itself when its server answers that it is no longer the master.

    Sentinel closes the connections of a master that it demotes. A demotion by hand, or behind a load balancer, leaves
    them open. redis-py closes a connection only if an error begins with READONLY; errors of scripts have READONLY in
    the middle.
    """

    async def read_response(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return await super().read_response(*args, **kwargs)  # type: ignore[misc]
        except exceptions.ResponseError as error:
            if not is_demoted(error):
                raise
            await self.disconnect()  # type: ignore[attr-defined]
            raise exceptions.ConnectionError(f"this Redis is not the master any more: {error}") from error


_LEAVES_REPLICAS: dict[type, Any] = {
    kind: type(kind.__name__, (_LeavesReplicas, kind), {})
    for kind in (
        Connection, SSLConnection, UnixDomainSocketConnection, SentinelManagedConnection, SentinelManagedSSLConnection,
    )
}  # fmt: skip


class _SentinelPool(SentinelConnectionPool, BlockingConnectionPool):
    """Asks Sentinel for the master; calls beyond ``max_connections`` wait for a free connection.

    A task asks again every second, and closes all connections to a master that was replaced. A replaced master that
    still runs accepts writes until the Sentinels demote it ten seconds later; these writes are lost.
    """

    _looking: asyncio.Task[None] | None = None

    async def get_connection(self, *args: Any, **options: Any) -> Any:
        if self._looking is None:
            self._looking = asyncio.create_task(self._keep_looking(), name="asks Sentinel for the master")
        return await super().get_connection(*args, **options)  # type: ignore[no-untyped-call]

    async def _keep_looking(self) -> None:
        task = asyncio.current_task()
        while not (task and task.cancelling()):  # redis-py's timeouts can swallow a cancellation
            await asyncio.sleep(_LOOK_EVERY_S)
            with contextlib.suppress(exceptions.RedisError, OSError):  # the next connection raises the error
                await self._leave_replaced()

    async def _leave_replaced(self) -> None:
        self.master_address = address = await self.sentinel_manager.discover_master(self.service_name)
        connections: list[Any] = [*self._available_connections, *self._in_use_connections]
        replaced = [one for one in connections if one.is_connected and (one.host, one.port) != address]
        if replaced:
            logger.warning("Sentinel names another master, %s:%s: connections to the old one are closed", *address)
        for connection in replaced:
            await connection.disconnect()

    async def stop_looking(self) -> None:
        """End the task that asks the Sentinels: a running request would open a connection again."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)


class _SentinelRedis(Redis):
    """A client that also closes its connections to the Sentinels; redis-py leaves these open."""

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        await super().aclose(close_connection_pool)
        pool: Any = self.connection_pool
        await pool.stop_looking()
        for sentinel in pool.sentinel_manager.sentinels:
            await sentinel.aclose()


class _Cluster(RedisCluster):
    """A cluster client whose calls wait for a free connection; it also works if the cluster's first node is dead.

    Before every XREAD, redis-py asks a node for the command's key (COMMAND GETKEYS). It always asks the same node, even
    if this node is dead. This class finds the key itself.
    """

    def __init__(self, *, max_connections: int, wait_s: float, **options: Any) -> None:
        # 2 *: a redirected call takes a second connection
        super().__init__(max_connections=2 * max_connections, **options)
        self._free = asyncio.Semaphore(max_connections)
        self._wait_s = wait_s

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        try:
            async with asyncio.timeout(self._wait_s):
                await self._free.acquire()
        except TimeoutError:
            raise exceptions.ConnectionError("no connection became free") from None
        try:
            return await super().execute_command(*args, **options)
        finally:
            self._free.release()

    async def _determine_slot(self, command: str, *args: Any) -> int:
        if command == "XREAD":
            return int(self.keyslot(args[args.index(b"STREAMS") + 1]))
        return int(await super()._determine_slot(command, *args))

    async def aclose(self) -> None:
        """Close every connection; redis-py closes no connection if the client's last call failed."""
        await super().aclose()
        await self.nodes_manager.aclose()
        await self.nodes_manager.aclose("startup_nodes")


def open_client(url: str, *, timeout_ms: int, max_connections: int) -> Any:
    """Open a redis-py asyncio client; it connects with the first call.

    Args:
        url: any of the forms of :mod:`mqregistry.store.connection.url`.
        timeout_ms: for connecting and for each answer.
        max_connections: more calls at the same time wait for a free connection, at most three timeouts.

    Raises:
        ConfigError: the URL has none of the forms.
    """
    options: dict[str, Any] = {
        "socket_timeout": timeout_ms / 1000,
        "socket_connect_timeout": timeout_ms / 1000,
        "retry": Retry(NoBackoff(), 0),  # the caller decides about repetitions
        "protocol": 2,
        "socket_keepalive": True,
        **NO_CLIENT_INFO,
    }
    if url in OPENERS:
        return OPENERS[url]()
    address = parse_url(url)
    if not address.form:
        if url.startswith("unix"):
            options.pop("socket_keepalive")
        try:
            pool = BlockingConnectionPool.from_url(
                url,
                max_connections=max_connections,
                timeout=_WAIT_TIMEOUTS * timeout_ms / 1000,
                **options,
                **address.login,
            )
        except ValueError as error:
            # the error's text is not shown: it may quote a part of the password
            raise ConfigError(f"redis: {without_password(url)!r} cannot be read ({type(error).__name__})") from None
        pool.connection_class = _LEAVES_REPLICAS[pool.connection_class]
        return Redis.from_pool(pool)  # closing the client closes the pool
    if address.form == "cluster":
        nodes = [ClusterNode(host, port) for host, port in address.hosts]
        return _Cluster(
            startup_nodes=nodes,
            max_connections=max_connections,
            wait_s=_WAIT_TIMEOUTS * timeout_ms / 1000,
            require_full_coverage=False,
            **options,
            **address.login,
        )
    # One call may ask all Sentinels one after the other, if only the last one runs.
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
        timeout=_WAIT_TIMEOUTS * timeout_ms / 1000,
        connection_class=_LEAVES_REPLICAS[
            SentinelManagedSSLConnection if address.login.get("ssl") else SentinelManagedConnection
        ],
        db=address.database,
        **options,
        **address.login,
    )
    return _SentinelRedis.from_pool(sentinel_pool)
