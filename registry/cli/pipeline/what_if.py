"""``pipeline what-if``: which topics would have had no queue, if brokers, hosts, zones or clusters had been lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .. import output
from ..options import lake_option
from ..time_options import instant_option
from .session import SparkStart, namespace_options, spark_options

if TYPE_CHECKING:
    from mqregistry.pipeline.what_if.ask import Answer

_SHOWN = 30
_KINDS = ("broker", "cluster", "host", "zone")


def _lost(ctx: click.Context, param: click.Parameter, text: str) -> tuple[str, list[str]]:
    kind, _, names = text.partition("=")
    found = [name.strip() for name in names.split(",") if name.strip()]
    if kind not in _KINDS or not found:
        raise click.BadParameter(
            f"{text!r}: expected zone=NAME, cluster=NAME, host=HOST or broker=NAME,NAME", ctx, param
        )
    return kind, found


@click.command("what-if")
@click.option(
    "--lose", required=True, metavar="KIND=NAME[,NAME]", callback=_lost,
    help="What is lost at the same time: zone=b, cluster=c1, host=10.0.0.5, broker=broker-a,broker-b.",
)  # fmt: skip
@instant_option("--at", "at_ms", "At one instant: 14:03, -2h, 2026-11-21T14:03.")
@instant_option("--from", "from_ms", "At any instant from this one on.  [default: the last 30 days in the lake]")
@instant_option("--to", "to_ms", "Up to this time.  [default: the end of observation]")
@click.option("--json", "as_json", is_flag=True, help="JSON: every topic.")
@spark_options
@lake_option
@namespace_options
def what_if(
    lose: tuple[str, list[str]], at_ms: int | None, from_ms: int | None, to_ms: int | None, as_json: bool, lake: str,
    spark: SparkStart, namespace: str,
) -> None:  # fmt: skip
    """Tell which topics would have lost their last writable queue, their last master or their route.

    In the pipeline's tables, it looks at every instant of the period at which something changed. It also counts the
    lookups of clients that would have had no route. It needs no Redis.

    \b
    mqregistry pipeline what-if --lose zone=b --from -30d
    mqregistry pipeline what-if --lose broker=broker-a,broker-b --at 14:03
    """  # noqa: D301 (\\b is for click)
    if at_ms is not None and (from_ms is not None or to_ms is not None):
        raise click.UsageError("--at is one instant, --from and --to are a period: give one of them")
    from mqregistry.pipeline.lake.lake import Lake
    from mqregistry.pipeline.past.travel import all_pasts, find_past, no_past
    from mqregistry.pipeline.what_if import ask as work

    where, (kind, names) = Lake(lake), lose
    pasts = sorted(all_pasts(where, namespace), key=lambda past: past.begin_ms)
    if not pasts:
        raise no_past(where, namespace)
    past = pasts[-1] if at_ms is None else find_past(where, namespace, at_ms)
    work.check(past, kind, names)
    time = work.span(past, at_ms, from_ms, to_ms)
    with spark.session(err=True) as session:
        answer = work.ask(session, where, past, kind, names, time)
    if as_json:
        output.json_page({**answer._asdict(), "topics": [topic._asdict() for topic in answer.topics]})
        return
    click.echo(answer_text(answer, f"{kind} {', '.join(names)}", is_instant=at_ms is not None))


def answer_text(answer: Answer, what: str, *, is_instant: bool) -> str:
    """Return the answer as lines for a terminal."""
    from mqregistry.pipeline.past.travel import show_ms

    lost, topics = answer.lost, answer.topics
    when = f"at {show_ms(answer.from_ms)}" if is_instant else (
        f"at any instant from {show_ms(answer.from_ms)} to {show_ms(answer.to_ms)}"
    )  # fmt: skip
    counts = [
        f"{sum(getattr(topic, column) > 0 for topic in topics)} their last {thing}"
        for column, thing in (("no_queue_ms", "writable queue"), ("no_master_ms", "master"), ("no_route_ms", "route"))
    ]
    lines = [f"Without {what} {when}, of {len(topics)} topics {', '.join(counts)} would have been lost."]
    if not is_instant:
        risk_ms = sum(topic.no_queue_ms for topic in topics)
        lookups, gone = (sum(getattr(topic, name) for topic in topics) for name in ("lookups", "lost_lookups"))
        lines.append(
            f"{risk_ms / 60_000:,.1f} minutes at risk, all topics together; {gone:,} of {lookups:,} lookups that were "
            "made would have had no route."
        )
    if not lost:
        return "\n".join(lines)
    if is_instant:
        rows = [
            [topic.topic, *("lost" if ms else "" for ms in (topic.no_queue_ms, topic.no_master_ms, topic.no_route_ms))]
            for topic in lost[:_SHOWN]
        ]
        table = output.table(("TOPIC", "LAST QUEUE", "LAST MASTER", "ROUTE"), rows)
    else:
        rows = [
            [topic.topic, *(output.duration(ms) if ms else "" for ms in times), f"{times[0] / topic.there_ms:.1%}",
             f"{topic.lost_lookups:,}"]
            for topic in lost[:_SHOWN]
            for times in [(topic.no_queue_ms, topic.no_master_ms, topic.no_route_ms)]
        ]  # fmt: skip
        headings = ("TOPIC", "NO QUEUE FOR", "NO MASTER FOR", "NO ROUTE FOR", "AT RISK", "LOOKUPS LOST")
        table = output.table(headings, rows, right=headings[4:])
    more = [f"... and {len(lost) - _SHOWN} more topics (--json shows all)"] if len(lost) > _SHOWN else []
    return "\n".join([*lines, table, *more])
