"""Logging, set up once by the command that runs: one stream, each line with the part that it comes from."""

from __future__ import annotations

import logging
import sys
from typing import Final

from ...config.settings import Settings
from ...errors import StartError
from ...names import PrintableFormatter

_FILE_BYTES: Final = 50 * 1024 * 1024
_FILES: Final = 10

_PARTS: Final = {
    "mqregistry.worker.sweeper": "sweeper",
    "mqregistry.server.process.supervisor": "supervisor",
    "mqregistry.server.process.http": "http",
}


class _Formatter(PrintableFormatter):
    def format(self, record: logging.LogRecord) -> str:
        record.part = _PARTS.get(record.name) or record.name.rpartition(".")[2]
        return super().format(record)


def configure_logging(settings: Settings) -> None:
    """Log to stderr, or to the rotating file that the settings name.

    Raises:
        StartError: the file cannot be written.
    """
    handler: logging.Handler
    if settings.log_file:
        from logging.handlers import RotatingFileHandler

        try:
            handler = RotatingFileHandler(settings.log_file, maxBytes=_FILE_BYTES, backupCount=_FILES, encoding="utf-8")
        except OSError as error:
            raise StartError(f"cannot write the log file {settings.log_file}: {error.strerror or error}") from error
    else:
        handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)-7s [%(part)s] %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    # What stderr cannot take (a closed terminal) must not end a name server.
    logging.raiseExceptions = False
