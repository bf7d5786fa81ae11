"""Reads the past from the lake, without Redis and Spark: for ``--at`` of route, brokers and tables, and the console."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ...embedded import how_it_ended
from ...errors import RegistryError, StartError
from ...events.by import By
from ...model import TopicRoute
from ...operators.closest_names import closest_names
from ...store.operator_reads import BrokerInfo, broker_info
from ...tables.tables import Tables
from ..extras import extra
from ..options import read_settings

if TYPE_CHECKING:
    from mqregistry.pipeline.past.travel import BrokerThen, EpochPast, ValueOrigin

    from ...console.past import Then

_REPORT_S: Final = 120.0

_Answer = TypeVar("_Answer")


def read_route_at(
    topic: str, at_ms: int, lake: str, flags: dict[str, Any], config_file: Path | None
) -> tuple[TopicRoute, dict[str, ValueOrigin]]:
    """One topic's route as it was at ``at_ms``, and for each brokerName, who set it and when.

    Raises:
        click.ClickException: there was no such topic; the message says who ended it.
        LakeError: the lake does not know this instant; the other functions here also raise it.
    """

    def question(past: EpochPast) -> tuple[TopicRoute, dict[str, ValueOrigin]]:
        found = past.route(topic, at_ms)
        if found is None:
            raise click.ClickException(_no_such_topic(past, topic, at_ms))
        return found, past.origins(topic, at_ms)

    return _ask(at_ms, lake, flags, config_file, question)


def read_brokers_at(at_ms: int, lake: str, flags: dict[str, Any], config_file: Path | None) -> list[BrokerInfo]:
    """Every broker process as it was at ``at_ms``.

    A broker without a heartbeat in the lake counts as last heard when it registered. Its front ends are the front ends
    that got its latest heartbeats.
    """
    return _ask(at_ms, lake, flags, config_file, lambda past: [_info(broker, at_ms) for broker in past.brokers(at_ms)])


def read_tables_at(at_ms: int, lake: str, flags: dict[str, Any], config_file: Path | None) -> Tables:
    """All tables as they were at ``at_ms``."""
    return _ask(at_ms, lake, flags, config_file, lambda past: past.tables(at_ms))


class LakePast:
    """The past of a namespace in a lake, for the console's time travel; ``lake``: its folder or URI."""

    def __init__(self, lake: str, namespace: str) -> None:
        with extra("spark"):
            from mqregistry.pipeline.lake.lake import Lake
        self._lake = Lake(lake)
        self._namespace = namespace

    def since_ms(self) -> int | None:
        """The first instant in the lake; None: the lake is empty, or cannot be read."""
        from mqregistry.pipeline.past.travel import all_pasts

        try:
            return min((past.begin_ms for past in all_pasts(self._lake, self._namespace)), default=None)
        except (RegistryError, OSError):
            return None

    def at(self, at_ms: int) -> Then:
        """The tables of an instant, and for each brokerName, when and by whom its row was set."""
        from mqregistry.pipeline.past.travel import ask

        from ...console.past import Then

        def question(past: EpochPast) -> Then:
            since = dict[str, tuple[int, By | None]]()
            for name, origin in past.row_origins(at_ms):
                if name not in since or since[name][0] < origin.ms:
                    since[name] = origin.ms, origin.by
            return Then(at_ms, 0, at_ms, past.tables(at_ms), since, of_lake=True)

        return ask(self._lake, self._namespace, at_ms, question)

    def report(self) -> tuple[str, int]:
        """The report of the last 24 hours that the lake knows, and the end of these hours (ms).

        A process of its own makes it: drawing the charts holds Python's lock for seconds, during which the console
        would answer no request, and takes much memory.

        Raises:
            StartError: there are no figures, the packages for the report are not installed, or it failed.
        """
        command = [sys.executable, "-P", "-c", f"import {__name__} as here; here.print_report()"]
        try:
            done = subprocess.run(
                [*command, self._lake.root, self._namespace], stdin=subprocess.DEVNULL, capture_output=True,
                timeout=_REPORT_S, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StartError(f"the report could not be made: {error}") from error
        until, _, html = done.stdout.decode().partition("\n")
        if done.returncode:
            raise StartError(done.stderr.decode(errors="replace").strip() or how_it_ended(done.returncode))
        return html, int(until)


def print_report() -> None:
    """Print the end of the report's period (ms), then the report; without a report, the reason on stderr.

    The lake and the namespace are the arguments of this process.
    """
    root, namespace = sys.argv[1:]
    try:
        with extra("spark"):
            from mqregistry.pipeline.lake.lake import Lake
            from mqregistry.pipeline.report.page import make
        found, html = make(Lake(root), namespace)
    except RegistryError as error:
        sys.exit(str(error))
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    sys.stdout.write(f"{max(facts.until_ms for facts in found)}\n{html}")


def _ask(
    at_ms: int, lake: str, flags: dict[str, Any], config_file: Path | None, question: Callable[[EpochPast], _Answer]
) -> _Answer:
    if flags.get("redis") is not None:
        raise click.UsageError("--at shows the past, from the pipeline's tables, --redis the present: give one of them")
    namespace = read_settings({"namespace": flags.get("namespace")}, config_file).namespace
    with extra("spark"):
        from mqregistry.pipeline.lake.lake import Lake
        from mqregistry.pipeline.past.travel import ask
    return ask(Lake(lake), namespace, at_ms, question)


def _info(broker: BrokerThen, at_ms: int) -> BrokerInfo:
    heard_ms = max(broker.registered_ms, broker.sign.ms) if broker.sign else broker.registered_ms
    return broker_info(
        broker.broker_name, broker.info, heard_ms=heard_ms, deadline_ms=heard_ms + broker.info.timeout_ms,
        now_ms=at_ms, front_ends=broker.sign.front_ends if broker.sign else 0, by=broker.by,
    )  # fmt: skip


def _no_such_topic(past: EpochPast, topic: str, at_ms: int) -> str:
    from mqregistry.pipeline.past.travel import show_ms

    text = f"no topic {topic!r} at {show_ms(at_ms)}; "
    if end := past.end_of(topic, at_ms):
        return (
            f"{text}it was at {', '.join(end.broker_names)} until {show_ms(end.ms)}: {end.kind} by "
            f"{end.by or 'somebody not known'}. 'route {topic} --at TIME' with an earlier time shows where it was"
        )
    names = past.topic_names(at_ms)
    if close := closest_names(topic, names)[:3]:
        return f"{text}did you mean {' or '.join(close)}?"
    return f"{text}there were {len(names)} topics then"
