"""One namespace of one Redis: runs scripts on it, and checks at the start that it is fit for the job."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from redis import exceptions

from registry.change import SCHEMA_MAJOR, SCHEMA_MINOR
from registry.errors import StoreError, StoreUnavailable
from registry.store import keys, scripts
from registry.store.address import without_password
from registry.store.connect import mapped_errors, open_client

logger = logging.getLogger(__name__)

OLDEST_REDIS = (6, 2)


class ScriptTimes:
    """How often each script ran and how long it took, as seen from here (milliseconds)."""

    def __init__(self) -> None:
        self.count: dict[str, int] = {}
        self.total_ms: dict[str, float] = {}

    def add(self, name: str, elapsed_ms: float) -> None:
        """One more run."""
        self.count[name] = self.count.get(name, 0) + 1
        self.total_ms[name] = self.total_ms.get(name, 0.0) + elapsed_ms


class Namespace(NamedTuple):
    """What ``init_namespace`` tells of it; schema_minor: the highest that ever wrote here."""

    epoch: str
    schema: str
    compat: str
    seq: int
    created: bool
    schema_minor: int = 0


def check_schema(namespace: str, major: str) -> None:
    """May this release work on a namespace with this schema major (see registry.change)?

    Raises:
        StoreError: no; the message says what to do.
    """
    if major != str(SCHEMA_MAJOR):
        raise StoreError(
            f"namespace {namespace!r} has schema version {major}, this is version {SCHEMA_MAJOR}: use the release "
            "that wrote it, or another --namespace (the README's section Upgrading shows how brokers move)"
        )


class Store:
    """A namespace on a Redis.

    Every method raises StoreUnavailable when Redis does not answer (indefinite: repeat it, all scripts may be
    repeated) and StoreError when it answers with something that no repetition mends.
    """

    def __init__(
        self, url: str, namespace: str = "default", *, timeout_ms: int = 2000, compat: str = "5.x",
        max_connections: int = 32,
    ) -> None:  # fmt: skip
        self.url = url
        self.namespace = namespace
        self.compat = compat
        self.timeout_ms = timeout_ms
        self.client = open_client(url, timeout_ms=timeout_ms, max_connections=max_connections)
        self.times = ScriptTimes()
        self._meta_key = keys.meta(namespace)
        self._scripts = scripts.load()

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self.client.aclose()

    async def call(self, name: str, *arguments: Any) -> Any:
        """Run a script; one round trip, unless Redis lost the script or the namespace.

        NOSCRIPT (a restart, a failover) sends the text once; a namespace that was never initialised (Redis
        came back empty) is initialised, and the script runs again.
        """
        script = self._scripts[name]
        script.check(arguments)
        started = time.perf_counter()
        with mapped_errors(f"{name} in namespace {self.namespace!r}"):
            try:
                reply = await self._run(script, arguments)
            except exceptions.ResponseError as error:
                if "MQUNINIT" not in str(error):
                    raise
                await self.init_namespace()
                reply = await self._run(script, arguments)
        self.times.add(name, (time.perf_counter() - started) * 1000)
        return reply

    async def _run(self, script: scripts.Script, arguments: Sequence[Any]) -> Any:
        try:
            return await self.client.evalsha(script.sha, 1, self._meta_key, *arguments)
        except exceptions.NoScriptError:
            return await self.client.eval(script.source, 1, self._meta_key, *arguments)

    async def init_namespace(self) -> Namespace:
        """Make the namespace if it is new; see who made it otherwise.

        Raises:
            StoreError: it is of another schema major or compat mode than this process.
        """
        with mapped_errors(f"namespace {self.namespace!r}"):
            epoch, schema, compat, seq, created, minor = await self._run(
                self._scripts["init_namespace"], (secrets.token_hex(8), SCHEMA_MAJOR, self.compat, SCHEMA_MINOR)
            )
        found = Namespace(epoch.decode(), schema.decode(), compat.decode(), int(seq), bool(created), int(minor))
        check_schema(self.namespace, found.schema)
        if found.compat != self.compat:
            raise StoreError(
                f"namespace {self.namespace!r} was made for compat {found.compat}, this front end is set to "
                f"{self.compat}: start it with --compat {found.compat}, or use another --namespace"
            )
        return found

    async def check_server(self) -> list[str]:
        """Is this Redis fit to keep route tables? Returns warnings that name a risk.

        Raises:
            StoreError: older than 6.2, or an eviction policy that may drop keys.
            StoreUnavailable: no answer.
        """
        with mapped_errors(f"cannot use Redis at {without_password(self.url)}"):
            info = await self.client.info("server", **self._any_node())
            memory = await self.client.info("memory", **self._any_node())
            persistence = await self.client.info("persistence", **self._any_node())
        version = str(info.get("redis_version", "0"))
        numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
        if numbers < OLDEST_REDIS:
            raise StoreError(f"Redis {version} at {without_password(self.url)} is too old: 6.2 or later is needed")
        policy = str(memory.get("maxmemory_policy", "noeviction"))
        if int(memory.get("maxmemory", 0)) > 0 and policy != "noeviction":
            raise StoreError(
                f"Redis has maxmemory-policy {policy}: it may drop route tables when memory is short; "
                "set it to noeviction (CONFIG SET maxmemory-policy noeviction)"
            )
        warnings = []
        if not int(persistence.get("aof_enabled", 0)):
            warnings.append(
                "Redis does not write an append-only file: after a Redis restart routes return with the brokers' "
                "next heartbeats, and KV configuration only if a front end still has it; set appendonly yes"
            )
        return warnings

    def _any_node(self) -> dict[str, Any]:
        """Cluster clients want to know which node INFO is for: the one that holds this namespace."""
        node = getattr(self.client, "get_node_from_key", None)
        if node is None:
            return {}
        found = node(self._meta_key)
        return {"target_nodes": found} if found is not None else {}

    async def connect(self) -> Namespace:
        """First contact: server checks, namespace, warnings logged."""
        initialize = getattr(self.client, "initialize", None)
        if initialize is not None:
            with mapped_errors(f"cannot use Redis at {without_password(self.url)}"):
                await initialize()
        for warning in await self.check_server():
            logger.warning("%s", warning)
        found = await self.init_namespace()
        if found.schema_minor > SCHEMA_MINOR:
            logger.info(
                "namespace %s was also written by schema %s.%d; this is %d.%d, and passes over what that adds",
                self.namespace, found.schema, found.schema_minor, SCHEMA_MAJOR, SCHEMA_MINOR,
            )  # fmt: skip
        return found


def text(value: bytes | None) -> str:
    """A script's string, None as empty."""
    return value.decode() if value else ""


__all__ = ["Namespace", "ScriptTimes", "Store", "StoreError", "StoreUnavailable", "text"]
