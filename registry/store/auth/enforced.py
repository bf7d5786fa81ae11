"""Tells whether rules are enforced in a namespace, for whom cannot read them."""

from __future__ import annotations

from .. import keys
from ..store import ENFORCING, Store


async def is_enforced(store: Store) -> bool:
    """Whether requests are refused there that no rule allows; it needs no right to read the rules."""
    (schema,) = await store.read(("HGET", keys.meta(store.namespace), "schema"))
    return schema is not None and schema.decode().endswith(ENFORCING)
