"""The application: one Spark session, and for each namespace the queries of ``namespace.py``, until it is stopped.

Every query goes on from its checkpoint, so that a run may be killed anywhere and begun again.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from mqregistry.errors import RegistryError
from mqregistry.events.journal import STREAMS
from mqregistry.store.connection.url import without_password

from .lake.lake import Lake
from .maintain import Upkeep
from .namespace import NamespaceRun, Plan
from .progress import RunReport, Unwatched
from .spark.errors import plain_errors
from .spark.lock import locked
from .turns import Stopped, Turns

READER: Final = "pipeline"
_LOOK_S: Final = 0.5

logger = logging.getLogger(__name__)


class RunSettings(NamedTuple):
    """What a pipeline reads, and how.

    namespaces: of one Redis. reader: the name under which Redis keeps entries for this lake. accept_gap: go on from a
    new snapshot where entries are lost. limit: entries of a batch.
    """

    redis_url: str
    namespaces: Sequence[str] = ("default",)
    reader: str = READER
    accept_gap: bool = False
    limit: int = 250_000

    def __repr__(self) -> str:  # the URL may hold a password
        return f"RunSettings({without_password(self.redis_url)!r}, {list(self.namespaces)!r})"


def run(
    spark: SparkSession, lake: Lake, settings: RunSettings, *, once: bool = False, interval_s: float = 60.0,
    tell: Callable[[str], None] = logger.info, stop: threading.Event | None = None, progress: RunReport | None = None,
) -> dict[str, int] | None:  # fmt: skip
    """Bring the lake up to date, until ``stop`` is set; or once.

    Args:
        interval_s: between two batches of a stream.
        tell: called with a sentence about every step that is done.
        progress: takes the reports of every batch.

    Returns:
        With ``once`` how many entries each stream brought, of all namespaces together; None: stopped.

    Raises:
        OtherWriter: another application writes to this lake.
        As :meth:`mqregistry.pipeline.namespace.NamespaceRun.once`; of several namespaces one that fails does not stop
        the others, and what it failed of is raised at the end.
    """
    stop = stop or threading.Event()
    names = list(dict.fromkeys(settings.namespaces))
    writing = Turns(stop)
    failed: list[RegistryError] = []
    with contextlib.ExitStack() as closing, plain_errors():
        closing.enter_context(locked(spark, lake, tell))
        works: dict[str, NamespaceRun] = {}
        set_log_level = spark.sparkContext.setLogLevel
        closing.callback(set_log_level, "ERROR")
        for name in names:
            plan = Plan(
                settings.redis_url, name, settings.reader, settings.limit, settings.accept_gap,
                None if once else interval_s,
            )  # fmt: skip
            works[name] = NamespaceRun(
                spark, lake, plan, tell=tell if len(names) == 1 else functools.partial(_tell_of, tell, name),
                progress=progress or Unwatched(), writing=writing, stop=stop,
            )  # fmt: skip
            closing.callback(works[name].close)
        closing.callback(set_log_level, "OFF")  # Spark logs a stack for each batch that a stop breaks off
        left, upkeep = dict(works), Upkeep(spark, lake)
        while left and not stop.is_set():
            for name, work in list(left.items()):
                try:
                    with plain_errors():
                        if not once:
                            work.go_on()
                            continue
                        work.once()
                        left.pop(name)
                except Stopped:
                    break
                except RegistryError as error:
                    if len(names) == 1:
                        raise
                    tell(f"namespace {name}: {error}")
                    failed.append(error)
                    left.pop(name).close()
            if not stop.is_set():
                with contextlib.suppress(Stopped), writing:
                    upkeep.when_due()
            if not once:
                stop.wait(_LOOK_S)
    if failed:
        raise failed[0]
    if stop.is_set():
        return None
    return {stream: sum(work.batches.entries[stream] for work in works.values()) for stream in STREAMS}


def _tell_of(tell: Callable[[str], None], namespace: str, text: str) -> None:
    tell(f"namespace {namespace}: {text}")
