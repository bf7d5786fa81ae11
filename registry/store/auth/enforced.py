"""Tells whether rules are enforced in a namespace, of which revision they are, and who does not know of them.

For whom cannot read them, or need not yet.
"""

from __future__ import annotations

from typing import Final

from .. import keys
from ..connection.schema import ENFORCING
from ..store import Store

AUTH_MINOR: Final = 2
"""The least schema minor of a release whose front ends decide on requests."""


async def is_enforced(store: Store) -> bool:
    """Whether requests are refused there that no rule allows; it needs no right to read the rules."""
    (schema,) = await store.read(("HGET", keys.meta(store.namespace), "schema"))
    return schema is not None and schema.decode().endswith(ENFORCING)


async def read_revision(store: Store) -> int:
    """The revision of the policy that is in force; it needs no right to read the policy."""
    (revision,) = await store.read(("HGET", keys.meta(store.namespace), "auth_revision"))
    return int(revision or 0)


async def older_workers(store: Store) -> list[str]:
    """The incarnations of worker processes of releases that decide on nothing.

    They take a lease, as all do, and do not say of which release they are. O(workers).
    """
    namespace = store.namespace
    incarnations, releases = await store.read(
        ("SMEMBERS", keys.leases(namespace)), ("HGETALL", keys.releases(namespace))
    )
    older = sorted(one.decode() for one in incarnations if int(releases.get(one, 0)) < AUTH_MINOR)
    alive = await store.read(*(("EXISTS", keys.lease(namespace, one)) for one in older))
    return [one for one, there in zip(older, alive, strict=True) if there]
