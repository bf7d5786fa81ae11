"""Shell completion of names in the tables of the registry that is found: topics, brokers, KV namespaces and keys;
and of users.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import click

from ..store.auth.policies import PolicyStore
from ..store.operator_reads import read_clusters, read_topic_names
from ..store.snapshot import read_kv
from ..store.store import Store
from .target import find_target, open_target

_TIMEOUT_S: Final = 2.0
_MOST_NAMES: Final = 200

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def _names(read: Callable[[Store, dict[str, Any]], Awaitable[Iterable[str]]]) -> Complete:
    """What ``read`` gives, as ``shell_complete`` of an argument: none, silently, when there is any difficulty."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        async def ask() -> Iterable[str]:
            settings = find_target({name: ctx.params.get(name) for name in ("redis", "namespace")}, config_file)
            async with asyncio.timeout(_TIMEOUT_S), open_target(settings) as store:
                return await read(store, ctx.params)

        config_file = ctx.params.get("config_file")
        with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(Exception):
            return sorted(name for name in asyncio.run(ask()) if name.startswith(incomplete))[:_MOST_NAMES]
        return []

    return complete


async def _topics(store: Store, given: dict[str, Any]) -> Iterable[str]:
    return await read_topic_names(store)


async def _broker_names(store: Store, given: dict[str, Any]) -> Iterable[str]:
    return (await read_clusters(store))[1]


async def _kv_namespaces(store: Store, given: dict[str, Any]) -> Iterable[str]:
    return await read_kv(store)


async def _clusters(store: Store, given: dict[str, Any]) -> Iterable[str]:
    return (await read_clusters(store))[0]


async def _users(store: Store, given: dict[str, Any]) -> Iterable[str]:
    return (await PolicyStore(store).read()).users


async def _secret_ids(store: Store, given: dict[str, Any]) -> Iterable[str]:
    users = (await PolicyStore(store).read()).users
    return [secret.id for secret in users[given["name"]].secrets]


async def _keys(store: Store, given: dict[str, Any]) -> Iterable[str]:
    return (await read_kv(store)).get(given["kv_namespace"], {})


topics, clusters, broker_names, kv_namespaces, keys, users, secret_ids = map(
    _names, (_topics, _clusters, _broker_names, _kv_namespaces, _keys, _users, _secret_ids)
)
