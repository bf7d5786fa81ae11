"""Gets the report of the pipeline for the console, from a file or from the lake."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final, NamedTuple

from ..errors import RegistryError
from ..operators.language import say
from .past import PastRoutes

_FOR_S: Final = 60.0
_MOST_BYTES: Final = 64 * 1024 * 1024


class NoReport(RegistryError):
    """There is no report to show; the message says how to get one."""


class GoldReport(NamedTuple):
    """The report as a page, and what is known of it."""

    html: str  # a whole page, which loads nothing else
    made_ms: int
    until_ms: int | None  # the end of the time that it covers; None: only the page shows it
    source: str  # the name of its file; empty: it was made from the lake


class ReportSource:
    """Gives the report from a file that ``mqregistry pipeline report`` wrote, else one made from the lake.

    A report made from the lake is kept for a minute.
    """

    def __init__(self, file: Path | None, lake: PastRoutes | None) -> None:
        self._file = file
        self._lake = lake
        self._made: tuple[float, GoldReport] | None = None
        self._busy = asyncio.Lock()

    async def get(self) -> GoldReport:
        """The report. NoReport: neither was given, the file is not there, or the lake has no figures."""
        if self._file is not None:
            return await asyncio.to_thread(_read, self._file)
        if self._lake is None:
            raise NoReport(say(
                "this console was given no report: start it with --lake DIR, the folder of 'mqregistry pipeline run', "
                "or with --report FILE, a page that 'mqregistry pipeline report --out FILE' wrote"
            ))  # fmt: skip
        async with self._busy:
            if self._made is None or time.monotonic() - self._made[0] > _FOR_S:
                try:
                    html, until_ms = await asyncio.to_thread(self._lake.report)
                except RegistryError as error:
                    raise NoReport(str(error)) from error
                made_ms = round(time.time() * 1000)
                self._made = time.monotonic(), GoldReport(html, made_ms, until_ms, "")
            return self._made[1]


def _read(file: Path) -> GoldReport:
    try:
        about = file.stat()
        if about.st_size > _MOST_BYTES:
            raise NoReport(say("{file} has {number} bytes: too many for a report", file=file, number=about.st_size))
        return GoldReport(file.read_text(encoding="utf-8"), round(about.st_mtime * 1000), None, file.name)
    except (OSError, ValueError) as error:
        raise NoReport(say(
            "{file} cannot be read: {error}; 'mqregistry pipeline report --out {file}' writes it", file=file,
            error=error,
        )) from error  # fmt: skip
