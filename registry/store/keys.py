"""Every Redis key of the project, by name. ``P`` is ``mq:{<namespace>}:``: one namespace is one hash slot."""

from __future__ import annotations


def prefix(namespace: str) -> str:
    """``P`` of a namespace."""
    return f"mq:{{{namespace}}}:"


def meta(namespace: str) -> str:
    """HASH: epoch, seq, n, config_rev, schema, schema_minor, compat, seen_ms, up_since.

    Of the streams: the most entries each may have (``stream_limits``), the bytes of all entries there ever were
    (``changes_bytes``, ``lookups_bytes``).
    """
    return prefix(namespace) + "meta"


def changes(namespace: str) -> str:
    """STREAM: every change of the tables, one field ``e``."""
    return prefix(namespace) + "changes"


def heartbeats(namespace: str) -> str:
    """STREAM: one entry a heartbeat, one field ``e``."""
    return prefix(namespace) + "heartbeats"


def lookups(namespace: str) -> str:
    """STREAM: lookup counts, an entry or more per front-end worker and ten seconds, one field ``e``."""
    return prefix(namespace) + "lookups"


def topic(namespace: str, name: str) -> str:
    """HASH: brokerName -> queue data of this topic."""
    return f"{prefix(namespace)}topic:{name}"


def readers(namespace: str) -> str:
    """HASH: reader of the streams -> JSON: when it was last heard of, its position in each stream."""
    return prefix(namespace) + "readers"
