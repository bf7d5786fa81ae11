"""Keeps the streams within the limits of the settings, and logs which readers are about to lose entries."""

from __future__ import annotations

import logging

from mqregistry.config.settings import Settings
from mqregistry.store.streams import Alarm, StreamLimits, StreamStore, Trimmed

logger = logging.getLogger(__name__)

_HOUR_MS = 3_600_000
_MIB = 1024 * 1024
# The most memory for an entry of heartbeats, on average: 2.5 times the usual, as brokers may have long names. The
# setting limits only the number of entries.
_HEARTBEAT_BYTES = 512


def limits_of(settings: Settings) -> dict[str, StreamLimits]:
    """The limits of every stream."""
    percent = settings.stream_hard_limit_percent

    def limits(age_hours: int, entries: int, size: int) -> StreamLimits:
        return StreamLimits(age_hours * _HOUR_MS, entries, size, entries * percent // 100, size * percent // 100)

    s = settings
    return {
        "changes": limits(s.changes_max_age_hours, s.changes_max_entries, s.changes_max_mib * _MIB),
        "heartbeats": limits(
            s.heartbeats_max_age_hours, s.heartbeats_max_entries, s.heartbeats_max_entries * _HEARTBEAT_BYTES
        ),
        "lookups": limits(s.lookups_max_age_hours, s.lookups_max_entries, s.lookups_max_mib * _MIB),
    }


async def trim(streams: StreamStore, settings: Settings) -> Trimmed:
    """Run the trim once, and log its alarms."""
    done = await streams.trim(
        limits_of(settings), reader_timeout_ms=settings.stream_reader_timeout_hours * _HOUR_MS
    )  # fmt: skip
    for alarm in done.alarms:
        logger.warning("%s", explained(alarm, settings))
    return done


def explained(alarm: Alarm, settings: Settings) -> str:
    """The text of an alarm, for the log."""
    if alarm.kind == "near":
        return (
            f"reader {alarm.reader} is far behind on the stream {alarm.stream}: more than 80 % of the "
            f"maximum is unread; entries beyond {settings.stream_hard_limit_percent} % of {alarm.stream}MaxEntries or "
            "MaxMib are removed unread: let it run, or raise these limits"
        )
    if alarm.kind == "lost":
        return (
            f"reader {alarm.reader} cannot go on without a gap: entries of the stream {alarm.stream} that it has not "
            "acknowledged were trimmed, or vanished with a Redis that lost its last writes; it has to start again "
            "from a snapshot"
        )
    return (
        f"reader {alarm.reader} was not heard of for {settings.stream_reader_timeout_hours} h: nothing is kept for it "
        "any more; if it will not come back, forget it: mqregistry streams --forget NAME"
    )
