"""Sets up logging, to stderr or a file; each line names the part of the program that wrote it."""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from typing import Any, Final

import msgspec

from ...config.settings import Settings
from ...errors import StartError
from ...names import PrintableFormatter
from ...queued_output import new_outlet, queue_output
from ..help.entries import entry_of_text

logger = logging.getLogger(__name__)

_FILE_BYTES: Final = 50 * 1024 * 1024
_FILES: Final = 10

_PARTS: Final = {
    "mqregistry.worker.sweeper": "sweeper",
    "mqregistry.server.process.supervisor": "supervisor",
    "mqregistry.server.process.http": "http",
}


class _Formatter(PrintableFormatter):
    def format(self, record: logging.LogRecord) -> str:
        record.part = _part(record)
        name = _entry(record)
        record.see = f" (mqregistry help {name})" if name else ""
        return super().format(record)


class _JsonFormatter(logging.Formatter):
    """A line of JSON for each record: time (UTC), level, part, message; with an exception its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "part": _part(record),
            "message": record.getMessage(),
        }
        if see := _entry(record):
            told["help"] = see
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(told).decode()


def _part(record: logging.LogRecord) -> str:
    return _PARTS.get(record.name) or record.name.rpartition(".")[2]


def _entry(record: logging.LogRecord) -> str | None:
    """The entry of the troubleshooting page that is about a warning or an error; None: there is none."""
    return entry_of_text(record.getMessage()) if record.levelno >= logging.WARNING else None


def _zip(source: str, target: str) -> None:
    """Give a log file the name of the next older one; a full file is compressed first, as Java's log files are."""
    if source.endswith(".gz"):
        os.replace(source, target)
        return
    full = f"{source}.full"
    os.replace(source, full)
    threading.Thread(target=_compress, args=(full, target), name="log compression").start()


def _compress(source: str, target: str) -> None:
    import gzip  # only a full file needs it
    import shutil

    try:
        with open(source, "rb") as full, gzip.open(f"{target}.part", "wb", compresslevel=6) as compressed:
            shutil.copyfileobj(full, compressed, 1 << 20)
        os.replace(f"{target}.part", target)
        os.remove(source)
    except OSError as error:  # a full disk: the file stays as it is
        logger.warning("cannot compress the log file %s: %s", source, error)


class _LogFile(RotatingFileHandler):
    """The rotating log file. A thread writes it, so that a full or slow disk delays nobody."""

    def __init__(self, path: str) -> None:
        super().__init__(path, maxBytes=_FILE_BYTES, backupCount=_FILES, encoding="utf-8")
        self.namer, self.rotator = "{}.gz".format, _zip
        self._outlet, self._torn = new_outlet(path, self._write), False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._outlet.put(self.format(record) + "\n")
        except Exception:  # noqa: BLE001 - as in every handler: a record that cannot be formatted must not end its writer
            self.handleError(record)

    def _open(self) -> io.TextIOWrapper:
        # without a buffer: a buffer would keep a line that the disk refused, and write a part of it again
        return io.TextIOWrapper(open(self.baseFilename, "ab", buffering=0), "utf-8", "replace", write_through=True)

    def _write(self, text: str) -> None:
        if self.stream is None:  # doRollover could not open the new file
            self.stream = self._open()
        if self.stream.seek(0, io.SEEK_END) + len(text) > self.maxBytes:
            self.doRollover()
        torn, self._torn = self._torn, True  # a write that fails may leave a part of a line
        self.stream.write("\n" + text if torn else text)
        self._torn = False


def configure_logging(settings: Settings) -> None:
    """Log to stderr, or to the rotating file that the settings name; a slow reader or disk never blocks this process.

    Raises:
        StartError: the file cannot be written.
    """
    queue_output()
    handler: logging.Handler
    if settings.log_file:
        try:
            handler = _LogFile(settings.log_file)
        except OSError as error:
            raise StartError(f"cannot write the log file {settings.log_file}: {error.strerror or error}") from error
    else:
        handler = logging.StreamHandler(sys.stderr)
    text = _Formatter("%(asctime)s %(levelname)-7s [%(part)s] %(message)s%(see)s")
    handler.setFormatter(_JsonFormatter() if settings.log_format == "json" else text)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    # A line that stderr cannot take (a closed terminal) must not end a name server.
    logging.raiseExceptions = False
