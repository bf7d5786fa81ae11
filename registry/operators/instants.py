"""Reads times as operators write them (14:03, -2h, 2026-11-21T14:03), and lengths of time (10m, 1h30m)."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta

from .language import marked, say
from .time_zone import in_time_zone, local_datetime

_AGO = re.compile(r"-(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+\Z")
_LENGTH = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+\Z")
_STEP = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?\Z")
EXPECTED = marked("expected e.g. 2026-11-21T14:03, 2026-11-21T14:03:05.250Z, 14:03 (the last one), -2h, -1h30m or now")


def parse_instant(text: str, *, now_ms: int | None = None) -> int:
    """Read a time as people write it; returns ms since 1970.

    ``2026-11-21``, ``2026-11-21T14:03:05`` and the like (ISO 8601): in the time zone in use unless they name one.
    ``14:03``, ``14:03:05``: the last time that the local clock showed this, perhaps yesterday. If a clock change
    repeats the hour: its first time. ``-2h``, ``-1h30m``, ``-90s``, ``-2d``: this long before now. ``now``.

    Raises:
        ValueError: it is none of these.
    """
    now_ms = round(time.time() * 1000) if now_ms is None else now_ms
    text = text.strip()
    if text == "now":
        return now_ms
    if _AGO.match(text):
        return round(now_ms - _length_ms(text))
    clock = _CLOCK.match(text)
    try:
        if clock:
            hour, minute, second, fraction = clock.groups()
            now = local_datetime(now_ms)
            of_day = now.replace(
                hour=int(hour), minute=int(minute), second=int(second or 0),
                microsecond=int((fraction or "").ljust(6, "0")), fold=0,
            )  # fmt: skip
            if of_day > now:
                of_day -= timedelta(days=1)
            return round(of_day.timestamp() * 1000)
        return round(in_time_zone(datetime.fromisoformat(text)).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise ValueError(say("{text} is no time: ", text=repr(text)) + say(EXPECTED)) from None


def parse_length_ms(text: str) -> int:
    """Read a length of time as people write it: ``30s``, ``10m``, ``1h30m``; returns ms.

    Raises:
        ValueError: it is none of these.
    """
    if not _LENGTH.match(text.strip()):
        raise ValueError(say("{text} is no length of time: expected e.g. 500ms, 30s, 10m or 1h30m", text=repr(text)))
    return round(_length_ms(text))


def _length_ms(text: str) -> float:
    return sum(float(number) * _UNITS_MS[unit] for number, unit in _STEP.findall(text))
