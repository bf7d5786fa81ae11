"""Checks whether this release may work on a namespace, by its schema major."""

from __future__ import annotations

from ...errors import StoreError
from ...events.changes import SCHEMA_MAJOR


def check_schema(namespace: str, major: str) -> None:
    """Raise StoreError unless this is the schema major of this release (see events.changes)."""
    if major != str(SCHEMA_MAJOR):
        raise StoreError(
            f"namespace {namespace!r} has schema version {major}, this is version {SCHEMA_MAJOR}: use the release "
            "that wrote it, or another --namespace (the section Upgrading of docs/operating.md shows how brokers move)"
        )
