"""Stores routes in a file, so that a client can start while no name server answers."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Final, Literal

import msgspec

from ...model import TopicRoute

logger = logging.getLogger(__name__)

KEPT_MS: Final = 30 * 24 * 3600 * 1000
"""Routes that no name server sent for this time are dropped."""


class KeptRoute(msgspec.Struct, frozen=True):
    """A topic's route, and when a name server last sent it (milliseconds since 1970)."""

    at_ms: int
    route: TopicRoute


class _RouteFileContent(msgspec.Struct, frozen=True):
    format: Literal[1]
    routes: dict[str, KeptRoute]


_decoder = msgspec.json.Decoder(_RouteFileContent)


class RouteFile:
    """A file of routes, which one client writes. Errors of the file are only logged.

    ``kept``: topic -> its route in the file, now or after the next ``write``.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).absolute()
        self.kept: dict[str, KeptRoute] = {}
        self._is_new = False
        self._failed = False
        self._lock = threading.Lock()

    def read(self) -> None:
        """Read the routes of an earlier run, if there is a readable file."""
        try:
            routes = _decoder.decode(self._path.read_bytes()).routes
        except FileNotFoundError:
            return
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or error
            logger.warning(
                "the file of routes %s cannot be used: %s. It is ignored, and replaced with the next routes that are "
                "found", self._path, why,
            )  # fmt: skip
            return
        oldest_ms = _now_ms() - KEPT_MS
        self.kept = {topic: one for topic, one in routes.items() if one.at_ms > oldest_ms}

    def keep(self, topic: str, route: TopicRoute) -> None:
        """Keep a route that a name server has just sent."""
        self.kept[topic] = KeptRoute(_now_ms(), route)
        self._is_new = True

    def drop(self, topic: str) -> None:
        """Remove the route of a topic from the file."""
        self._is_new |= self.kept.pop(topic, None) is not None

    def write(self) -> None:
        """Replace the whole file if a route is new or gone; any thread may call. Readers see the old or new file."""
        with self._lock:
            if not self._is_new:
                return
            self._is_new = False
            content = msgspec.json.encode(_RouteFileContent(1, dict(self.kept)))
            try:
                self._replace(content)
            except OSError as error:
                if not self._failed:
                    logger.warning("the file of routes %s cannot be written: %s", self._path, error.strerror or error)
                self._failed = True
            else:
                self._failed = False

    def _replace(self, content: bytes) -> None:
        fd, name = tempfile.mkstemp(prefix=f".{self._path.name}.", dir=self._path.parent)  # only its user can read it
        try:
            with open(fd, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(fd)
            os.replace(name, self._path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise


def _now_ms() -> int:
    return int(time.time() * 1000)
