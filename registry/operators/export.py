"""Changes as lines of CSV, for spreadsheets."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from typing import Final

import msgspec

from ..events.changes import Change
from ..names import printable
from .words import what

_COLUMNS: Final = ("seq", "time", "type", "what", "how", "user", "peer", "via", "front_end", "event")
_FORMULAS: Final = ("=", "+", "-", "@")


def csv_head() -> str:
    """The first line: the names of the columns."""
    return _line(_COLUMNS)


def csv_line(change: Change) -> str:
    """A change as one line of CSV: ``time`` is in UTC, ``what`` names its objects, ``event`` is the whole as JSON."""
    iso = datetime.fromtimestamp(change.ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    by = change.by
    author = ("", "", "", "", "") if by is None else (by.how, by.user, by.peer, by.via, by.front_end)
    return _line((change.seq, iso, change.type, what(change), *author, msgspec.json.encode(change).decode()))


def _line(cells: tuple[object, ...]) -> str:
    """A line of CSV. A text that looks like a formula gets an apostrophe, as texts from outside must not run."""
    file = io.StringIO()
    texts = ["" if cell is None else printable(str(cell)) for cell in cells]
    csv.writer(file, lineterminator="\r\n").writerow([f"'{one}" if one.startswith(_FORMULAS) else one for one in texts])
    return file.getvalue()
