"""The time zone in which times are written and read: that of this machine, unless a page asks for another zone."""

from __future__ import annotations

import zoneinfo
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from typing import Final

_chosen: Final[ContextVar[tzinfo | None]] = ContextVar("zone", default=None)


def choose_time_zone(name: str) -> None:
    """Use a zone of the IANA database, or ``UTC``, in this task; anything else: the zone of this machine."""
    _chosen.set(_zone_of(name))


def _zone_of(name: str) -> tzinfo | None:
    if name == "UTC":
        return UTC
    try:
        return zoneinfo.ZoneInfo(name) if 0 < len(name) <= 64 else None
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):  # also of a machine without the database
        return None


def time_zone_name() -> str:
    """The name of the zone that was chosen; empty: that of this machine."""
    zone = _chosen.get()
    return "" if zone is None else str(zone)


def local_datetime(ms: float) -> datetime:
    """A time in the zone in use."""
    return datetime.fromtimestamp(ms / 1000, _chosen.get())


def in_time_zone(written: datetime) -> datetime:
    """A time with a zone: its own, else the zone in use."""
    return written if written.tzinfo is not None else written.replace(tzinfo=_chosen.get())
