"""The settings that say how much of each stream is kept, for how long, and for whom."""

# No "from __future__ import annotations": to evaluate a hundred texts takes some milliseconds of every start.

from typing import Annotated, Final

from .limit_settings import LimitSettings
from .option import About, RunTime

_KEPT: Final = RunTime(False, "a small value deletes entries that the pipeline has not read, a large value fills Redis")


def _kept(key: str, help: str, least: int = 1, most: int = 2**31 - 1) -> About:
    return About(key, help, run_time=_KEPT, least=least, most=most)


class StreamSettings(LimitSettings, frozen=True, kw_only=True):
    """The limits of the streams; each has one value in a namespace, so that every sweeper trims in the same way.

    It inherits LimitSettings only because a Struct can have one base.
    """

    changes_max_age_hours: Annotated[
        int, _kept("changesMaxAgeHours", "How long events are kept (stream changes).", most=100_000)
    ] = 168
    changes_max_entries: Annotated[
        int, _kept("changesMaxEntries", "How many events are kept.", least=1000)
    ] = 500_000  # fmt: skip
    changes_max_mib: Annotated[int, _kept("changesMaxMib", "How many MiB of events are kept.", most=100_000)] = 64
    heartbeats_max_age_hours: Annotated[
        int, _kept("heartbeatsMaxAgeHours", "How long entries of the stream heartbeats are kept.", most=100_000)
    ] = 24
    heartbeats_max_entries: Annotated[
        int, _kept("heartbeatsMaxEntries", "How many heartbeats are kept; a thousand need about 0.2 MB.", least=1000)
    ] = 200_000
    lookups_max_age_hours: Annotated[
        int, _kept("lookupsMaxAgeHours", "How long entries of the stream lookups are kept.", most=100_000)
    ] = 24
    lookups_max_entries: Annotated[
        int, _kept("lookupsMaxEntries", "How many entries of the stream lookups are kept.", least=1000)
    ] = 50_000  # fmt: skip
    lookups_max_mib: Annotated[int, _kept("lookupsMaxMib", "How many MiB of lookups are kept.", most=100_000)] = 32
    stream_hard_limit_percent: Annotated[
        int,
        _kept(
            "streamHardLimitPercent",
            "Limit for entries that a reader has not acknowledged, in percent of the limits above.",
            least=100, most=10_000,
        ),
    ] = 200  # fmt: skip
    stream_reader_timeout_hours: Annotated[
        int,
        _kept(
            "streamReaderTimeoutHours", "Nothing is kept for a reader that was silent for this time.",
            most=100_000,
        ),
    ] = 24  # fmt: skip
