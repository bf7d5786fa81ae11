"""The three streams of a namespace, and the schema of every entry in them.

Each entry has one field, ``e``: a JSON object with ``ms``, the Redis time of the script that wrote it (with the clock
offset of a test), at most about a millisecond earlier than the time in the entry's id. What
:mod:`mqregistry.events.changes` says of a schema minor holds here too: members may be added, absent means "not known".

==============  ===================  ====================================================
stream          an entry is          written by
==============  ===================  ====================================================
``changes``     :class:`Change`      every script that changes a table, with that change
``heartbeats``  :class:`Heartbeat`   heartbeat, register_broker, touch_broker
``lookups``     :class:`Lookups`     every worker of a front end, each ten seconds
==============  ===================  ====================================================

How long entries stay, and how a reader keeps those that it still needs: ``lua/trim_streams``,
``lua/acknowledge`` and :mod:`mqregistry.store.streams`.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from .changes import Change, decode_change

Stream = Literal["changes", "heartbeats", "lookups"]
CHANGES: Final = "changes"
HEARTBEATS: Final = "heartbeats"
LOOKUPS: Final = "lookups"
STREAMS: Final[tuple[Stream, ...]] = (CHANGES, HEARTBEATS, LOOKUPS)

SAME: Final = "same"
CHANGED: Final = "changed"


class Heartbeat(msgspec.Struct, frozen=True):
    """One sign of life of a broker process, over one front end; a broker sends one to each of its namesrvAddr."""

    ms: int
    # the process, <cluster>|<brokerAddr>; with compat 4.8 |<brokerAddr>: the broker_registered event has the cluster
    who: str
    front_end: str
    # same: a registration that changes nothing; changed: one that was decoded and stored (an event of the same time
    # shows whether a table changed); refused: one that was not taken, and is no sign of life; touch: 322 or 904
    kind: str
    # since the previous sign of life of this process over whichever front end, -1 if there was none
    interval_ms: int = -1
    bytes: int = 0  # size of the request's body
    # the name it registered under (103); "" for a touch: it counts for the process under all its names
    broker_name: str = ""


class Lookups(msgspec.Struct, frozen=True):
    """Route lookups (105) that one worker of a front end answered between since_ms and ms.

    A worker writes one entry of up to 500 topics each ten seconds, more where there are more topics, none where there
    was no lookup; after an outage of Redis, one covers all the time since the previous one. All counts add up: no
    lookup is in two entries. found: topic -> times it was answered with a route; missing: name -> times it was answered
    with "no such topic" (17). Names beyond what a worker keeps are counted together, as ``(others)``. clients: name ->
    addresses of the first clients that asked for it in vain in this time, at most three of each of 1,000 names.
    """

    ms: int
    front_end: str
    since_ms: int
    found: dict[str, int] = {}
    missing: dict[str, int] = {}
    clients: dict[str, list[str]] = {}
    at: int | None = None


_heartbeat = msgspec.json.Decoder(Heartbeat)
_lookups = msgspec.json.Decoder(Lookups)


def decode_heartbeat(entry: bytes) -> Heartbeat:
    """One entry's ``e`` field of ``heartbeats``; msgspec.DecodeError: it is no entry of this schema."""
    return _heartbeat.decode(entry)


def decode_lookups(entry: bytes) -> Lookups:
    """One entry's ``e`` field of ``lookups``; msgspec.DecodeError: it is no entry of this schema."""
    return _lookups.decode(entry)


def decode(stream: Stream, entry: bytes) -> Change | Heartbeat | Lookups:
    """One entry's ``e`` field of any stream; msgspec.DecodeError: it is no entry of this schema."""
    if stream == CHANGES:
        return decode_change(entry)
    return decode_heartbeat(entry) if stream == HEARTBEATS else decode_lookups(entry)
