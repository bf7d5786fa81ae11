"""Runs the Lua scripts on one namespace of one Redis, and checks at the start that this Redis can keep route tables."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import secrets
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from redis import exceptions

from ..errors import NoNamespace, StoreError, StoreUnavailable
from ..events.by import DIRECT, By, this_process
from ..events.changes import SCHEMA_MAJOR, SCHEMA_MINOR
from ..histograms import DurationHistogram, Told
from . import keys, scripts
from .connection.asyncio_client import open_client
from .connection.errors import mapped_errors
from .connection.fitness import server_findings
from .connection.schema import check_schema
from .connection.url import username_of, without_password

logger = logging.getLogger(__name__)

# A Redis that lacks one script lacks all scripts. Within this time after a load, NOSCRIPT errors cause no other load.
_LOAD_AGAIN_S = 1.0


class CallTimes:
    """How long calls of Redis took, including the network, and how many failed."""

    def __init__(self) -> None:
        self.scripts: defaultdict[str, DurationHistogram] = defaultdict(DurationHistogram)  # by script
        self.reads = DurationHistogram()  # of plain commands, sent together
        self.away = self.refused = 0  # calls that Redis did not answer; calls that it answered with an error

    @contextlib.contextmanager
    def failures(self) -> Iterator[None]:
        """Count a StoreUnavailable or StoreError that is raised in this context."""
        try:
            yield
        except StoreUnavailable:
            self.away += 1
            raise
        except StoreError:
            self.refused += 1
            raise

    def durations(self) -> dict[str, Told]:
        """The histograms, by metric."""
        scripts = {f'script_seconds{{script="{name}"}}': times.told() for name, times in self.scripts.items()}
        return {**scripts, "redis_read_seconds": self.reads.told()}

    def counters(self) -> dict[str, int]:
        """The failures so far, by the name of the metric."""
        return {
            'redis_failures_total{kind="away"}': self.away,
            'redis_failures_total{kind="refused"}': self.refused,
        }


class Namespace(NamedTuple):
    """A namespace as ``init_namespace`` describes it; schema_minor: the highest of all releases that wrote to it."""

    epoch: str
    schema: str
    compat: str
    seq: int
    created: bool
    schema_minor: int = 0


class RedisFigures(NamedTuple):
    """Figures from the INFO of Redis; the fields have the names of the metrics."""

    memory_bytes: int
    memory_limit_bytes: int
    clients: int
    replicas: int
    persistence_failing: bool


class Store:
    """One namespace of one Redis: runs scripts on it.

    Every method raises StoreUnavailable when Redis does not answer, and StoreError when it answers with an error that
    a repetition does not cure. After StoreUnavailable the script may have run; the caller may repeat every call.

    Args:
        by: the author of changes without another author; default: a program that uses this library. The store sets its
            ``login``.
        fresh: nothing was ever in this Redis: if the namespace does not exist, Redis has not lost it.

    Attributes:
        history: returns the last change that this process knows, in the form of lua/include/emit; "" = none.
    """

    def __init__(
        self, url: str, namespace: str = "default", *, timeout_ms: int = 2000, compat: str = "5.x",
        max_connections: int = 32, by: By | None = None, fresh: bool = False,
    ) -> None:  # fmt: skip
        self.url = url
        self.namespace = namespace
        self.compat = compat
        self.timeout_ms = timeout_ms
        self.client = open_client(url, timeout_ms=timeout_ms, max_connections=max_connections)
        self.by = msgspec.structs.replace(by or this_process(DIRECT), login=username_of(url))
        self.times = CallTimes()
        self.history: Callable[[], str] = lambda: ""
        self._fresh = fresh
        self._meta_key = keys.meta(namespace)
        self._scripts = scripts.load()
        self._keeps_tables = False
        self._load_again_at_s = 0.0

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def on_behalf_of(self, by: By) -> Store:
        """The same store, with the same connections, for changes by another author with this store's ``login``."""
        other = copy.copy(self)
        other.by = msgspec.structs.replace(by, login=self.by.login)
        return other

    def knowing(self, history: str) -> Store:
        """The same store, with the same connections, whose calls send this ``history``."""
        other = copy.copy(self)
        other.history = lambda: history
        return other

    async def close(self) -> None:
        """Close every connection to Redis."""
        await self.client.aclose()

    async def is_answered_anew(self, within_s: float) -> bool:
        """Whether Redis answers a new connection in time; never raises an error of Redis."""
        client = open_client(self.url, timeout_ms=max(1, int(within_s * 1000)), max_connections=1)
        try:
            async with asyncio.timeout(within_s):
                await client.exists(self._meta_key)
        except (exceptions.RedisError, OSError, TimeoutError):
            return False
        finally:
            await client.aclose()
        return True

    async def hang_up(self) -> None:
        """Close every connection: calls that wait for an answer fail at once, later calls connect again."""
        nodes = getattr(self.client, "nodes_manager", None)
        with mapped_errors("closing connections"):
            if nodes is None:
                await self.client.connection_pool.disconnect()
            else:
                await nodes.aclose()

    async def call(self, name: str, *arguments: Any, by: By | None = None) -> Any:
        """Run a script; one round trip, unless Redis lacks the script or the namespace.

        If Redis lacks the script (after a restart or a failover), the call sends its text. If Redis lacks the namespace
        (it came back empty), the call makes the namespace, and runs the script again.
        ``by``: the author of the changes; default: this process.
        """
        script = self._scripts[name]
        script.check(arguments)
        if script.emits:
            arguments = (*arguments, self.history().encode() + (by or self.by).encoded())
        started = time.perf_counter()
        with self.times.failures(), mapped_errors(f"{name} in namespace {self.namespace!r}"):
            try:
                reply = await self._run(script, arguments)
            except exceptions.ResponseError as error:
                if "MQUNINIT" not in str(error):
                    raise
                await self.init_namespace()
                reply = await self._run(script, arguments)
        self.times.scripts[name].add(time.perf_counter() - started)
        return reply

    async def read(self, *commands: Sequence[Any]) -> list[Any]:
        """Send plain read commands together, not as a transaction; only for modules of this folder."""
        if not commands:
            return []
        started = time.perf_counter()
        with self.times.failures(), mapped_errors(f"reading namespace {self.namespace!r}"):
            pipeline = self.client.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)
            replies: list[Any] = await pipeline.execute()
        self.times.reads.add(time.perf_counter() - started)
        return replies

    async def _run(self, script: scripts.Script, arguments: Sequence[Any]) -> Any:
        try:
            return await self.client.evalsha(script.sha, 1, self._meta_key, *arguments)
        except exceptions.NoScriptError:
            with scripts.may_be_sent(script.name):
                reply = await self.client.eval(script.source, 1, self._meta_key, *arguments)
            if self._keeps_tables:  # this Redis has just started, or was a replica: it lacks all scripts
                await self._load_for_readers()
            return reply

    async def _load_for_readers(self) -> None:
        """Load the scripts for logins that may not load scripts; an error is only logged."""
        if time.monotonic() < self._load_again_at_s:
            return
        self._load_again_at_s = time.monotonic() + _LOAD_AGAIN_S
        try:
            for name in scripts.FOR_READERS:
                await self.client.execute_command("SCRIPT LOAD", self._scripts[name].source, **self._any_node())
        except (exceptions.RedisError, OSError) as error:
            lacks_right = isinstance(error, exceptions.NoPermissionError)
            logger.warning(
                "scripts are not loaded for logins that may not send them (mqoperator, mqconsole, mqpipeline): %s%s",
                error,
                "; the right is script|load, in deploy/users.acl" if lacks_right else "",
            )  # fmt: skip

    async def exists(self) -> bool:
        """Whether the namespace exists."""
        with mapped_errors(f"namespace {self.namespace!r}"):
            return bool(await self.client.exists(self._meta_key))

    async def init_namespace(self, *, fresh: bool = False) -> Namespace:
        """Make the namespace, or check that it has our schema major and compat mode (else StoreError).

        ``fresh``: as of :class:`Store`.
        """
        with mapped_errors(f"namespace {self.namespace!r}"):
            epoch, schema, compat, seq, created, minor = await self._run(
                self._scripts["init_namespace"],
                (secrets.token_hex(8), SCHEMA_MAJOR, self.compat, SCHEMA_MINOR, int(fresh)),
            )
        found = Namespace(epoch.decode(), schema.decode(), compat.decode(), int(seq), bool(created), int(minor))
        check_schema(self.namespace, found.schema)
        if found.compat != self.compat:
            raise StoreError(
                f"namespace {self.namespace!r} was made for compat {found.compat}, this front end is set to "
                f"{self.compat}: start it with --compat {found.compat}, or use another --namespace"
            )
        return found

    async def move_clock(self, offset_ms: int, *, seen_ms: int = 0) -> None:
        """Shift the time that scripts see in this namespace; no other process may use the namespace then.

        Args:
            offset_ms: added to the time of Redis; 0 ends the shift.
            seen_ms: the last lease renewal, in the shifted time (lua/include/seen).
        """
        fields = {"clock_offset_ms": offset_ms} | ({"seen_ms": seen_ms} if seen_ms else {})
        with mapped_errors(f"namespace {self.namespace!r}"):
            await self.client.hset(self._meta_key, mapping=fields)

    async def check_server(self) -> list[str]:
        """Check that this Redis can keep route tables.

        Returns:
            Warnings that name a risk.

        Raises:
            StoreError: Redis is older than 6.2, or its eviction policy may drop keys.
            StoreUnavailable: no answer.
        """
        found = list(server_findings(await self.info("server", "memory", "persistence"), self.url))
        for finding in found:
            if finding.state == "wrong":
                raise StoreError(str(finding))
        return [str(finding) for finding in found if finding.state == "warning"]

    async def info(self, *sections: str) -> dict[str, Any]:
        """These sections of the INFO of Redis."""
        found: dict[str, Any] = {}
        with mapped_errors(f"cannot use Redis at {without_password(self.url)}"):
            initialize = getattr(self.client, "initialize", None)
            if initialize is not None:  # a cluster client asks once which node has which slot
                await initialize()
            for section in sections:
                found |= await self.client.info(section, **self._any_node())
        return found

    async def try_command(self, *command: str) -> Any:
        """Send one command; only for modules of this folder. It raises the errors of redis-py."""
        return await self.client.execute_command(*command, **self._any_node())

    async def figures(self) -> RedisFigures:
        """Figures of Redis about its memory, connections and persistence."""
        found = await self.info("memory", "clients", "replication", "persistence")
        failing = "err" in (found.get("aof_last_write_status"), found.get("rdb_last_bgsave_status"))
        return RedisFigures(
            int(found.get("used_memory", 0)), int(found.get("maxmemory", 0)), int(found.get("connected_clients", 0)),
            int(found.get("connected_slaves", 0)), failing,
        )  # fmt: skip

    def _any_node(self) -> dict[str, Any]:
        """For a cluster: the option that sends a command to the node with this namespace."""
        node = getattr(self.client, "get_node_from_key", None)
        if node is None:
            return {}
        found = node(self._meta_key)
        return {"target_nodes": found} if found is not None else {}

    async def connect(self) -> Namespace:
        """Check the server, make the namespace if it is new, and load scripts; for front ends and sweepers."""
        for warning in await self.check_server():
            logger.warning("%s", warning)
        found = await self.init_namespace(fresh=self._fresh)
        self._keeps_tables = True
        await self._load_for_readers()
        if found.schema_minor > SCHEMA_MINOR:
            logger.info(
                "namespace %s was also written with schema %s.%d; this process has %d.%d and ignores later additions",
                self.namespace, found.schema, found.schema_minor, SCHEMA_MAJOR, SCHEMA_MINOR,
            )  # fmt: skip
        return found


@contextlib.asynccontextmanager
async def open_existing(
    url: str, namespace: str, *, timeout_ms: int = 10_000, by: By | None = None
) -> AsyncIterator[Store]:
    """A store on an existing namespace, in its compat mode.

    Args:
        by: as of :class:`Store`.

    Raises:
        NoNamespace: the namespace does not exist; it is not made.
        StoreError: the namespace has another schema major.
        StoreUnavailable: no answer.
    """
    async with Store(url, namespace, timeout_ms=timeout_ms, by=by) as store:
        where = f"Redis at {without_password(url)}"
        with mapped_errors(where):
            schema, compat = await store.client.hmget(keys.meta(namespace), "schema", "compat")
        if schema is None:
            raise NoNamespace(
                f"no namespace {namespace!r} in the {where}: no front end has served it yet; is it another "
                "--namespace, or another --redis?"
            )
        check_schema(namespace, schema.decode())
        store.compat = compat.decode()
        yield store


def text(value: bytes | None) -> str:
    """Decode a string of a script's reply; "" for None."""
    return value.decode() if value else ""
