"""How much of the streams is kept, from the settings; the sweeper's part that keeps it so."""

from __future__ import annotations

from registry.config import Settings
from registry.store.streams import Limits

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
