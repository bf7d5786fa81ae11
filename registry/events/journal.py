"""The three streams of a namespace, and the schema of every entry in them.

Each entry has one field, ``e``: a JSON object with ``ms``, the Redis time of the script that wrote it (with the clock
offset of a test), at most about a millisecond before the time in the entry's id. A schema minor may add members; a
missing member means "not known" (:mod:`mqregistry.events.changes`).

==============  ===================  ====================================================
stream          an entry is          written by
==============  ===================  ====================================================
``changes``     :class:`Change`      every script that changes a table, with that change
``heartbeats``  :class:`Heartbeat`   heartbeat, register_broker, touch_broker
``lookups``     :class:`Lookups`     every worker of a front end, each ten seconds
==============  ===================  ====================================================

``lua/trim_streams`` and ``lua/acknowledge`` explain how long entries stay, and how a reader keeps the entries that it
has not read yet.
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
    """One heartbeat of a broker process at one front end; a broker sends one to each of its namesrvAddr."""

    ms: int
    # the process, <cluster>|<brokerAddr>; with compat 4.8 |<brokerAddr>: the broker_registered event has the cluster
    who: str
    front_end: str
    # same: a registration that changes nothing; changed: a registration that was decoded and stored (an event of the
    # same time shows whether a table changed); refused: a refused registration, which does not extend the deadline;
    # touch: 322 or 904
    kind: str
    # since the previous heartbeat of this process at any front end, -1 if there was none
    interval_ms: int = -1
    bytes: int = 0  # size of the request's body
    broker_name: str = ""  # of the registration (103); "" for a touch, which counts for all names of the process


class Lookups(msgspec.Struct, frozen=True):
    """Route lookups (105) that one worker of a front end answered between since_ms and ms.

    A worker writes one entry each ten seconds, more for more than 500 topics, none without a lookup. After an outage of
    Redis, an entry covers all the time since the previous entry. No lookup is in two entries. ``found``: topic ->
    number of answers with a route; ``missing``: name -> number of answers "no such topic" (17). A worker counts names
    beyond its limit together, as ``(others)``. ``clients``: missing name -> addresses of the first clients that asked
    for it, at most three for each of 1,000 names.
    """

    ms: int
    front_end: str
    since_ms: int
    found: dict[str, int] = {}
    missing: dict[str, int] = {}
    clients: dict[str, list[str]] = {}
    at: int | None = None


# Each decodes an entry's ``e`` field; msgspec.DecodeError: it is no entry of this schema.
decode_heartbeat: Final = msgspec.json.Decoder(Heartbeat).decode
decode_lookups: Final = msgspec.json.Decoder(Lookups).decode


def decode(stream: Stream, entry: bytes) -> Change | Heartbeat | Lookups:
    """Decode an entry's ``e`` field of any stream; msgspec.DecodeError: it is no entry of this schema."""
    if stream == CHANGES:
        return decode_change(entry)
    return decode_heartbeat(entry) if stream == HEARTBEATS else decode_lookups(entry)
