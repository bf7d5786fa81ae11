"""The schema of a namespace: whether this release may work on it, and how one of an older form is converted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from ...errors import OlderSchema, StoreError
from ...events.changes import SCHEMA_MAJOR

ENFORCING: Final = "+auth"
"""What the schema major of a namespace ends in while requests are refused there that no rule allows. A release before
1.2, which would let everybody in, takes that for another major, and does not start."""

# The second is what it is while it is converted.
_CONVERTIBLE: Final = ("1", "1>2")
_CELLS_AT_ONCE: Final = 5000


def check_schema(namespace: str, major: str) -> None:
    """Check that this release may work on a namespace of this schema major (see mqregistry.events.changes).

    Raises:
        OlderSchema: it may after :func:`convert`.
        StoreError: it may not; the message says what to do.
    """
    form = major.removesuffix(ENFORCING)
    if form in _CONVERTIBLE:
        raise OlderSchema(
            f"namespace {namespace!r} has schema version {major}, this is version {SCHEMA_MAJOR}: stop all processes "
            "of the older release, then 'mqregistry convert' changes its form, and nothing is lost (the section "
            "Upgrading of docs/operating.md)"
        )
    if form != str(SCHEMA_MAJOR):
        raise StoreError(
            f"namespace {namespace!r} has schema version {major}, this is version {SCHEMA_MAJOR}: use the release "
            "that wrote it, or another --namespace (the section Upgrading of docs/operating.md shows how brokers move)"
        )


async def convert(call: Callable[..., Awaitable[Any]], namespace: str, *, alone: bool = False) -> int:
    """Bring a namespace of schema 1 into the form of this release; if it is stopped half way, repeat it.

    Args:
        call: runs a script on the namespace (``Store.call``).
        alone: no other process can reach this Redis, so whatever seems to run there has ended.

    Returns:
        Topics that were moved.

    Raises:
        StoreError: a process of the older release runs, or the namespace is of another schema.
    """
    topics, more = 0, 1
    while more:
        status, *found = await call("convert_1_to_2", _CELLS_AT_ONCE, int(alone))
        if status != b"OK":
            raise StoreError(
                f"{len(found)} worker(s) or sweeper(s) of the older release run on namespace {namespace!r}, or "
                "ended in the last ten seconds: stop them all, then repeat this"
            )
        topics, more = topics + found[0], found[1]
    return topics
