"""Keeps the streams within what the settings say, and tells whose readers are about to lose something."""

from __future__ import annotations

import logging

from registry.config import Settings
from registry.store.streams import Alarm, Limits, StreamStore

logger = logging.getLogger(__name__)

_HOUR_MS = 3_600_000
_MIB = 1024 * 1024


def limits_of(settings: Settings) -> dict[str, Limits]:
    """The limits of every stream."""
    percent = settings.stream_hard_limit_percent

    def limits(age_hours: int, entries: int, mib: int) -> Limits:
        size = mib * _MIB
        return Limits(age_hours * _HOUR_MS, entries, size, entries * percent // 100, size * percent // 100)

    s = settings
    return {
        "changes": limits(s.changes_max_age_hours, s.changes_max_entries, s.changes_max_mib),
        "heartbeats": limits(s.heartbeats_max_age_hours, s.heartbeats_max_entries, 0),
        "lookups": limits(s.lookups_max_age_hours, s.lookups_max_entries, s.lookups_max_mib),
    }


async def trim(streams: StreamStore, settings: Settings) -> tuple[bool, list[Alarm]]:
    """One call of the trim, its alarms logged; returns whether there is more to trim now, and the alarms.

    Raises:
        StoreUnavailable, StoreError: Redis.
    """
    done = await streams.trim(
        limits_of(settings), reader_timeout_ms=settings.stream_reader_timeout_hours * _HOUR_MS
    )  # fmt: skip
    for alarm in done.alarms:
        logger.warning("%s", explained(alarm, settings))
    return done.more, done.alarms


def explained(alarm: Alarm, settings: Settings) -> str:
    """An alarm in words."""
    if alarm.kind == "near":
        return (
            f"reader {alarm.reader} is far behind on the stream {alarm.stream}: more than 80 % of what is kept at most "
            f"waits for it; what is beyond {settings.stream_hard_limit_percent} % of {alarm.stream}MaxEntries or "
            "MaxMib goes unread: let it run, or raise these limits"
        )
    if alarm.kind == "lost":
        return (
            f"reader {alarm.reader} cannot go on without a gap: entries of the stream {alarm.stream} that it has not "
            "acknowledged were trimmed, or vanished with a Redis that lost its last writes; it has to begin anew"
        )
    return (
        f"reader {alarm.reader} was not heard of for {settings.stream_reader_timeout_hours} h: nothing is kept for it "
        "any more; if it will not come back, forget it: mqregistry streams --forget NAME"
    )
