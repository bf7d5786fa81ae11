"""Checks the schema major of a namespace: whether this release may work on it."""

from __future__ import annotations

from ...errors import StoreError
from ...events.changes import SCHEMA_MAJOR


def check_schema(namespace: str, major: str) -> None:
    """Check that this release may work on a namespace of this schema major (see mqregistry.events.changes).

    Raises:
        StoreError: it may not; the message says what to do.
    """
    if major != str(SCHEMA_MAJOR):
        raise StoreError(
            f"namespace {namespace!r} has schema version {major}, this is version {SCHEMA_MAJOR}: use the release "
            "that wrote it, or another --namespace (the section Upgrading of docs/operating.md shows how brokers move)"
        )
