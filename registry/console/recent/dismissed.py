"""Keeps the departures that operators took off the page Now, with their names, in a file beside the checkpoints."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from .lanes import Moment

_FILE: Final = "dismissed.json"
_MOST: Final = 200


class Dismissed(msgspec.Struct, frozen=True):
    """A dismissed departure: it covers every broker that left for this cause within this time."""

    cause: str
    since_ms: int
    until_ms: int
    by: str  # the name that the operator gave, or logged in with
    ms: int  # when it was dismissed

    def covers(self, moment: Moment) -> bool:
        """Whether the broker that left at this moment belongs to it."""
        return moment.kind == self.cause and self.since_ms <= moment.ms <= self.until_ms


_decode: Final = msgspec.json.Decoder(list[Dismissed]).decode


def read_dismissed(folder: Path) -> list[Dismissed]:
    """The dismissed departures. A missing or damaged file counts as empty."""
    try:
        return _decode((folder / _FILE).read_bytes())
    except (OSError, msgspec.DecodeError):
        return []


def dismiss(folder: Path, one: Dismissed) -> None:
    """Add a departure; if there are too many, the oldest are forgotten."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    kept = [*read_dismissed(folder), one][-_MOST:]
    new = folder / f"{_FILE}.{os.getpid()}.new"
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(msgspec.json.encode(kept))
    new.replace(folder / _FILE)
