"""Runs the pipeline: for each namespace the queries of ``namespace.py``, in one Spark session, until it is stopped.

Every query goes on from its checkpoint, so that a run may be killed at any moment and started again.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Callable
from typing import Final

from pyspark.sql import SparkSession

from mqregistry.errors import RegistryError
from mqregistry.events.journal import STREAMS

from .lake.lake import Lake
from .maintain import Upkeep
from .namespace import NamespaceRun, RunSettings
from .progress import RunReport, Unwatched
from .spark.errors import plain_errors
from .spark.lock import locked
from .turns import Stopped, Turns

_LOOK_S: Final = 0.5

logger = logging.getLogger(__name__)


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
        With ``once`` how many entries each stream brought, over all namespaces; None: stopped.

    Raises:
        OtherWriter: another application writes to this lake.
        As :meth:`mqregistry.pipeline.namespace.NamespaceRun.once`. If one of several namespaces fails,
        the others go on, and the error is raised at the end.
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
            works[name] = NamespaceRun(
                spark, lake, settings, name, None if once else interval_s,
                tell=tell if len(names) == 1 else functools.partial(_tell_of, tell, name),
                progress=progress or Unwatched(), writing=writing, stop=stop,
            )  # fmt: skip
            closing.callback(works[name].close)
        closing.callback(set_log_level, "OFF")  # Spark logs a stack trace for each batch that a stop interrupts
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
