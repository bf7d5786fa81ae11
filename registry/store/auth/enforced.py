"""Tells whether rules are enforced in a namespace, and of which revision they are, without reading the rules."""

from __future__ import annotations

from .. import keys
from ..store import Store


async def is_enforced(store: Store) -> bool:
    """Whether requests are refused there that no rule allows; it needs no right to read the rules."""
    (mode,) = await store.read(("HGET", keys.meta(store.namespace), "auth_mode"))
    return bool(mode == b"enforce")


async def read_revision(store: Store) -> int:
    """The revision of the policy that is in force; it needs no right to read the policy."""
    (revision,) = await store.read(("HGET", keys.meta(store.namespace), "auth_revision"))
    return int(revision or 0)
