"""Shell completion of names, read from the registry: topics, clusters, brokers, KV namespaces and keys, users."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import click

from ..auth.users import User
from ..store.auth.policies import PolicyStore
from ..store.operator_reads import read_clusters, read_topic_names
from ..store.snapshot import read_kv
from ..store.store import Store
from .target import find_target, open_target

_TIMEOUT_S: Final = 2.0
_MOST_NAMES: Final = 200

_Found = TypeVar("_Found")
Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def _names(
    read: Callable[[Store], Awaitable[_Found]], names_of: Callable[[_Found, dict[str, Any]], Iterable[str]]
) -> Complete:
    """Make a ``shell_complete``: ``names_of`` gets what ``read`` returns, and the words so far. Errors are hidden."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        async def ask() -> Iterable[str]:
            settings = find_target({name: ctx.params.get(name) for name in ("redis", "namespace")}, config_file)
            async with asyncio.timeout(_TIMEOUT_S), open_target(settings) as store:
                return names_of(await read(store), ctx.params)

        config_file = ctx.params.get("config_file")
        with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(Exception):
            return sorted(name for name in asyncio.run(ask()) if name.startswith(incomplete))[:_MOST_NAMES]
        return []

    return complete


async def _read_users(store: Store) -> Mapping[str, User]:
    return (await PolicyStore(store).read()).users


topics: Final = _names(read_topic_names, lambda names, _: names)
clusters: Final = _names(read_clusters, lambda found, _: found[0])
broker_names: Final = _names(read_clusters, lambda found, _: found[1])
kv_namespaces: Final = _names(read_kv, lambda tables, _: tables)
keys: Final = _names(read_kv, lambda tables, given: tables.get(given["kv_namespace"], {}))
users: Final = _names(_read_users, lambda users, _: users)
secret_ids: Final = _names(_read_users, lambda users, given: [secret.id for secret in users[given["name"]].secrets])
