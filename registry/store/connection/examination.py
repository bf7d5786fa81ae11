"""Measures a Redis for ``doctor``; :mod:`mqregistry.store.connection.fitness` judges the facts. Read-only."""

from __future__ import annotations

import time
from typing import Any, Final

from redis import exceptions

from .. import keys
from ..store import Store
from .errors import mapped_errors
from .fitness import (
    Finding,
    rights_findings,
    round_trip_findings,
    server_findings,
    state_findings,
)

_SECTIONS: Final = ("server", "memory", "persistence", "replication", "cluster", "commandstats")
_ROUND_TRIPS: Final = 10

# For each command that a front end uses, a call that changes nothing. KEY is a key that never exists, META the meta key
# of the namespace, AUTH a key of authentication that never exists. Redis checks rights first, so an error about
# arguments or types shows that the login has the right.
TRIES: Final[tuple[tuple[str, ...], ...]] = (
    ("EVAL", "return 1", "1", "KEY"),
    ("EVALSHA", "0" * 40, "1", "KEY"),
    ("SCRIPT LOAD", "return 1"),
    ("EXISTS", "KEY"), ("EXISTS", "AUTH"), ("TYPE", "KEY"), ("DEL", "KEY"), ("UNLINK", "KEY"), ("TIME",),
    ("MEMORY USAGE", "KEY"),
    ("HDEL", "KEY", "f"), ("HEXISTS", "KEY", "f"), ("HGET", "KEY", "f"), ("HGETALL", "KEY"), ("HKEYS", "KEY"),
    ("HLEN", "KEY"), ("HMGET", "KEY", "f"), ("HSCAN", "KEY", "0"), ("HVALS", "KEY"),
    ("HSET", "KEY", "f", "v", "without a value"), ("HINCRBY", "KEY", "f", "no number"),
    ("LRANGE", "KEY", "0", "0"), ("RPUSH", "META", "v"),
    ("SADD", "META", "v"), ("SCARD", "KEY"), ("SISMEMBER", "KEY", "v"), ("SMEMBERS", "KEY"), ("SRANDMEMBER", "KEY"),
    ("HRANDFIELD", "KEY"), ("ZCARD", "KEY"), ("RENAME", "AUTH", "AUTH"),
    ("SREM", "KEY", "v"), ("SSCAN", "KEY", "0"),
    ("SET", "KEY", "v", "XX"),
    ("XADD", "KEY", "NOMKSTREAM", "*", "e", "v"), ("XLEN", "KEY"), ("XRANGE", "KEY", "-", "+", "COUNT", "1"),
    ("XREVRANGE", "KEY", "+", "-", "COUNT", "1"), ("XREAD", "COUNT", "1", "STREAMS", "KEY", "0"),
    ("XTRIM", "KEY", "MAXLEN", "1"),
    ("ZADD", "KEY", "XX", "1", "v"), ("ZRANGE", "KEY", "0", "0"), ("ZRANGEBYSCORE", "KEY", "0", "0"),
    ("ZREM", "KEY", "v"), ("ZSCAN", "KEY", "0"),
)  # fmt: skip


async def examine(store: Store) -> list[Finding]:
    """Every finding about the Redis of a store."""
    info: dict[str, Any] = await store.info(*_SECTIONS)
    return [
        *server_findings(info, store.url), *state_findings(info, store.url),
        *round_trip_findings(*await _round_trips(store)), *rights_findings(*await _rights(store)),
    ]  # fmt: skip


async def read_schema_minor(store: Store) -> int:
    """The highest schema minor of the releases that have written to the namespace."""
    (minor,) = await store.read(("HGET", keys.meta(store.namespace), "schema_minor"))
    return int(minor or 0)


async def _round_trips(store: Store) -> tuple[list[float], float]:
    """The times of ten small requests, and how far the clock of Redis is ahead, both in ms.

    The fastest request measures the clock.
    """
    found = []
    for _ in range(_ROUND_TRIPS):
        before_s, started = time.time(), time.perf_counter()
        with mapped_errors("asking for the time"):
            seconds, microseconds = await store.try_command("TIME")
        took_s = time.perf_counter() - started
        found.append((took_s * 1000, (seconds + microseconds / 1e6 - before_s - took_s / 2) * 1000))
    return [took_ms for took_ms, _ in found], min(found)[1]


async def _rights(store: Store) -> tuple[list[str], list[str]]:
    """The commands that this login may not use, and the commands that cannot be tried without a namespace."""
    missing: list[str] = []
    not_tried: list[str] = []
    named = {
        "KEY": keys.prefix(store.namespace) + "never",
        "META": keys.meta(store.namespace),
        "AUTH": keys.auth_prefix(store.namespace) + "never",
    }
    with mapped_errors("trying the rights of this login"):
        is_there = await _may(store, "EXISTS", keys.meta(store.namespace)) and await store.exists()
        for command, *arguments in TRIES:
            name = f"{command} of {keys.auth_prefix('')[:6]}*" if "AUTH" in arguments else command
            if "META" in arguments and not is_there:
                not_tried.append(name)
            elif not await _may(store, command, *(named.get(one, one) for one in arguments)):
                missing.append(name)
    return missing, not_tried


async def _may(store: Store, command: str, *arguments: str) -> bool:
    try:
        await store.try_command(command, *arguments)
    except exceptions.NoPermissionError:
        return False
    except exceptions.ResponseError:
        return True
    return True
