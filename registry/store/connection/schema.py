"""The schema of a namespace: whether this release may work on it, and how one of an older form is converted."""

from __future__ import annotations

import asyncio
import time
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
# The lease of a worker lasts 5 s, and a sweeper that ended seems to run for ten.
_PATIENCE_S: Final = 15.0
_LOOK_EVERY_S: Final = 0.2


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
            "Upgrading of docs/operating.md)",
            half_way=form != _CONVERTIBLE[0],
        )
    if form != str(SCHEMA_MAJOR):
        raise StoreError(
            f"namespace {namespace!r} has schema version {major}, this is version {SCHEMA_MAJOR}: use the release "
            "that wrote it, or another --namespace (the section Upgrading of docs/operating.md shows how brokers move)"
        )


async def convert(call: Callable[..., Awaitable[Any]], namespace: str) -> int:
    """Bring a namespace of schema 1 into the form of this release; if it is stopped half way, repeat it.

    Waits for a while for what seems to run there: a killed worker keeps its lease for some seconds.

    Args:
        call: runs a script on the namespace (``Store.call``).

    Returns:
        Topics that were moved.

    Raises:
        StoreError: a process of the older release runs, or the namespace is of another schema.
    """
    deadline_s = time.monotonic() + _PATIENCE_S
    topics, more = 0, 1
    while more:
        status, *found = await call("convert_1_to_2", _CELLS_AT_ONCE)
        if status == b"OK":
            topics, more = topics + found[0], found[1]
        elif time.monotonic() < deadline_s:
            await asyncio.sleep(_LOOK_EVERY_S)
        else:
            raise StoreError(
                f"{len(found)} worker(s) or sweeper(s) of the older release run on namespace {namespace!r}: stop them "
                "all, then repeat this"
            )
    return topics
