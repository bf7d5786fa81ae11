"""Reads from silver, without Spark, what the registry's tables held at an instant.

With the statistics in Delta's log it skips most files, and most row groups of the other files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from mqregistry.behaviour import behaviour_of
from mqregistry.events.by import By
from mqregistry.model import ORDER_TOPIC_CONFIG, BrokerRow, QueueData, TopicRoute
from mqregistry.tables.live_table import LiveInfo
from mqregistry.tables.pick_up_route import pick_up_route
from mqregistry.tables.tables import Tables

from ..lake.gold_schema import MOMENT
from ..lake.lake import Lake, LakeError, whole_files
from ..lake.schema import SILVER, SILVER_KEYS, SILVER_VALUES, day_text
from ..silver import progress
from ..silver.progress import Progress

_FROM_BY: Final = SILVER["live"].names.index("from_by") - len(SILVER_KEYS["live"])
_Answer = TypeVar("_Answer")


class LastBeat(NamedTuple):
    """When a process was last heard before an instant, and through how many front ends at that time.

    No event shows that a front end ended, or that a process stopped sending to it. So a front end counts if the last
    heartbeat that it got from the process is not much older than the newest one at all front ends: by at most 1.5 times
    the longest time between two successive heartbeats of the process at one front end.
    """

    ms: int
    front_ends: int


class BrokerThen(NamedTuple):
    """One broker process under one brokerName, at an instant.

    ``sign``: None: the lake has no heartbeat of it. ``by``: who sent the registration that set these values; None: not
    known.
    """

    who: str
    broker_name: str
    info: LiveInfo
    registered_ms: int
    sign: LastBeat | None
    by: By | None = None


class ValueOrigin(NamedTuple):
    """When a value was set, and its author. ``by`` is None if the author is not known."""

    ms: int
    by: By | None


class End(NamedTuple):
    """When a topic was removed from the last brokerNames that had it, by which type of event, and by whom.

    ``by`` is None if the author is not known.
    """

    ms: int
    kind: str
    by: By | None
    broker_names: list[str]


class EpochPast:
    """One epoch of a namespace, as silver has it.

    Args:
        known: silver's last step.
        area: another folder for silver's tables.
    """

    def __init__(self, lake: Lake, namespace: str, epoch: str, known: Progress, area: str | None = None) -> None:
        self.lake = lake
        self._area = area
        self.namespace = namespace
        self.epoch = epoch
        self.progress = known

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """From when to when (ms) changes are missing."""
        return progress.gaps(self.lake, self.namespace, self.epoch)

    @property
    def begin_ms(self) -> int:
        """The first instant that is known, ms."""
        return self.progress.begin_ms

    def end_ms(self) -> int:
        """The last instant that is known (ms): when the stream was last read to its end.

        If the lake does not have this time, it is the time of the newest change or heartbeat.
        """
        if self.progress.observed_ms is not None:
            return max(self.progress.ms, self.progress.observed_ms)
        heard = pc.max(self._read("bronze/heartbeats", ["ms"], pc.field("ms") > self.progress.ms)["ms"]).as_py()
        return max(self.progress.ms, heard or 0)

    def _read(self, name: str, columns: list[str], where: Any) -> pa.Table:
        area = self._area if name.startswith("silver/") else None
        return self.lake.read(
            name, namespace=self.namespace, epoch=self.epoch, columns=columns, where=where, area=area
        )  # fmt: skip

    def rows(
        self, table: str, at_ms: int, *, wanted: Any = None, columns: list[str] | None = None
    ) -> list[tuple[Any, ...]]:
        """The rows of a table that hold at an instant.

        Args:
            wanted: a condition, as a pyarrow expression.
            columns: default: all.
        """
        at, seq = pa.scalar(at_ms * 1000, MOMENT), self.progress.seq
        # changes after ``seq`` do not count: values that they set are left out, values that they ended still hold
        holds = (pc.field("valid_from") <= at) & (pc.field("from_seq") <= seq) & (
            pc.field("to_seq").is_null() | (pc.field("to_seq") > seq) | (pc.field("valid_to") > at)
        )  # fmt: skip
        if wanted is not None:
            holds = wanted & holds
        columns = columns or SILVER[table].names
        found = self._read(f"silver/{table}", columns, holds)
        return list(zip(*(found.column(name).to_pylist() for name in columns), strict=True))

    def _cells(self, table: str, at_ms: int, *, wanted: Any = None) -> list[tuple[Any, ...]]:
        """What :meth:`rows` returns, without each row's author and time: to read those two takes longest."""
        return self.rows(table, at_ms, wanted=wanted, columns=SILVER_VALUES[table])

    def route(self, topic: str, at_ms: int) -> TopicRoute | None:
        """The route that clients got for a topic at an instant; None: the topic did not exist."""
        tables = Tables()
        self._add_topics(tables, at_ms, topic)
        if not tables.topics:
            return None
        self._add_brokers(tables, at_ms, list(tables.topics[topic]))
        self._add_filter_servers(tables, at_ms)
        wanted = (pc.field("kv_namespace") == ORDER_TOPIC_CONFIG) & (pc.field("key") == topic)
        for _, key, value in self._cells("kv", at_ms, wanted=wanted):
            tables.kv[ORDER_TOPIC_CONFIG] = {key: value}
        config = {key: value.lower() for key, value in self._cells("config", at_ms)}
        return pick_up_route(
            tables, topic, acting_master=config.get("supportActingMaster") == "true",
            order_messages=config.get("orderMessageEnable") == "true",
            live_by_cluster=behaviour_of(self.progress.compat).live_by_cluster,
        )  # fmt: skip

    def origins(self, topic: str, at_ms: int) -> dict[str, ValueOrigin]:
        """For each brokerName, who set the topic's queue data that held at an instant, and when."""
        columns = ["broker_name", "valid_from", "from_by"]
        rows = self.rows("queue_data", at_ms, wanted=pc.field("topic") == topic, columns=columns)
        return {name: ValueOrigin(_ms(since), _by(by)) for name, since, by in rows}

    def row_origins(self, at_ms: int) -> list[tuple[str, ValueOrigin]]:
        """Who set each value of the broker rows that held at an instant, and when, with its brokerName."""
        columns = ["broker_name", "valid_from", "from_by"]
        rows = [row for table in ("broker_row", "broker_addr") for row in self.rows(table, at_ms, columns=columns)]
        return [(name, ValueOrigin(_ms(since), _by(by))) for name, since, by in rows]

    def end_of(self, topic: str, at_ms: int) -> End | None:
        """For a topic that does not exist at an instant: how it ended before. None: it had never existed."""
        at, seq = pa.scalar(at_ms * 1000, MOMENT), self.progress.seq
        ended = (pc.field("topic") == topic) & (pc.field("valid_to") <= at) & (pc.field("to_seq") <= seq)
        columns = ["to_seq", "valid_to", "ended_by", "to_by", "broker_name"]
        rows = self._read("silver/queue_data", columns, ended).to_pylist()
        if not rows:
            return None
        last = max(rows, key=lambda row: row["to_seq"])
        names = sorted(row["broker_name"] for row in rows if row["to_seq"] == last["to_seq"])
        return End(_ms(last["valid_to"]), last["ended_by"], _by(last["to_by"]), names)

    def topic_names(self, at_ms: int) -> set[str]:
        """All topics that existed at an instant."""
        return {topic for (topic,) in self.rows("queue_data", at_ms, columns=["topic"])}

    def tables(self, at_ms: int) -> Tables:
        """All tables at an instant; rows have rev 0, because silver has no revisions."""
        tables = Tables()
        self._add_topics(tables, at_ms)
        self._add_brokers(tables, at_ms)
        self._add_filter_servers(tables, at_ms)
        for cluster, name in self._cells("cluster_member", at_ms):
            tables.clusters.setdefault(cluster, set()).add(name)
        for (namespace,) in self._cells("kv_namespace", at_ms):
            tables.kv[namespace] = {}
        for namespace, key, value in self._cells("kv", at_ms):
            tables.kv[namespace][key] = value
        tables.config = dict(self._cells("config", at_ms))
        return tables

    def _add_topics(self, tables: Tables, at_ms: int, topic: str | None = None) -> None:
        wanted = None if topic is None else pc.field("topic") == topic
        for name_of, name, *numbers in self._cells("queue_data", at_ms, wanted=wanted):
            tables.set_queue_data(name_of, name, QueueData(*numbers))
        for name_of, name, text in self._cells("mapping", at_ms, wanted=wanted):
            tables.set_mapping(name_of, name, text)

    def _add_brokers(self, tables: Tables, at_ms: int, names: Sequence[str] | None = None) -> None:
        wanted = None if names is None else pc.field("broker_name").isin(names)
        addrs: dict[str, dict[int, str]] = {}
        for name, broker_id, _, addr in self._cells("broker_addr", at_ms, wanted=wanted):
            addrs.setdefault(name, {})[broker_id] = addr
        for name, cluster, zone, acting in self._cells("broker_row", at_ms, wanted=wanted):
            tables.brokers[name] = BrokerRow(cluster, addrs.get(name, {}), zone, acting)

    def _add_filter_servers(self, tables: Tables, at_ms: int) -> None:
        for who, servers in self._cells("filter_server", at_ms):
            tables.set_filter_servers(who, servers)

    def lives(self, at_ms: int) -> dict[str, dict[str, LiveInfo]]:
        """The live table at an instant: who -> brokerName -> live info."""
        found: dict[str, dict[str, LiveInfo]] = {}
        for who, name, *values in self._cells("live", at_ms):
            found.setdefault(who, {})[name] = LiveInfo(*values)
        return found

    def brokers(self, at_ms: int) -> list[BrokerThen]:
        """Every broker process that counted as alive at an instant, by cluster, brokerName and id."""
        found = []
        rows = self.rows("live", at_ms)
        infos = [LiveInfo(*row[2 : 2 + len(LiveInfo._fields)]) for row in rows]
        signs = self._signs({row[0]: info.timeout_ms for row, info in zip(rows, infos, strict=True)}, at_ms)
        for (who, name, *rest), info in zip(rows, infos, strict=True):
            registered_ms, by = _ms(rest[len(LiveInfo._fields)]), _by(rest[_FROM_BY])
            found.append(BrokerThen(who, name, info, registered_ms, signs.get(who), by))
        return sorted(found, key=lambda b: (b.info.cluster, b.broker_name, b.info.broker_id, b.info.addr))

    def _signs(self, timeouts: dict[str, int], at_ms: int) -> dict[str, LastBeat]:
        """The last heartbeats before an instant.

        Args:
            timeouts: who -> the greatest age (ms) of heartbeats that count.
        """
        since_ms = at_ms - max(timeouts.values(), default=0)
        if not timeouts:
            return {}
        days = (pc.field("day") >= day_text(since_ms)) & (pc.field("day") <= day_text(at_ms))
        during = days & (pc.field("ms") > since_ms) & (pc.field("ms") <= at_ms) & pc.field("reason").is_null()
        beats = self._read("bronze/heartbeats", ["e"], during)
        heard: dict[str, int] = {}
        through: dict[str, dict[str, list[int]]] = {}
        for e in beats.column("e").to_pylist():
            beat = _beat.decode(e.encode())
            if beat.ms > at_ms - timeouts.get(beat.who, 0):
                heard[beat.who] = max(beat.ms, heard.get(beat.who, 0))
                through.setdefault(beat.who, {}).setdefault(beat.front_end, []).append(beat.ms)
        return {who: LastBeat(ms, _front_ends(ms, [*through[who].values()])) for who, ms in heard.items()}


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _by(text: str | None) -> By | None:
    return None if text is None else msgspec.json.decode(text, type=By)


def _front_ends(newest_ms: int, beats: list[list[int]]) -> int:
    """See :class:`LastBeat`; ``beats``: for each front end the times of one process's heartbeats, in any order."""
    pauses = [later - before for moments in beats for before, later in pairwise(sorted(moments))]
    longest = max(pauses, default=newest_ms)
    return sum(newest_ms - max(moments) <= longest * 3 // 2 for moments in beats)


class _LastBeat(msgspec.Struct):
    ms: int
    who: str
    front_end: str = ""


_beat = msgspec.json.Decoder(_LastBeat)


def find_past(lake: Lake, namespace: str, at_ms: int) -> EpochPast:
    """The epoch that a namespace had at an instant.

    Raises:
        LakeError: the lake has nothing of the namespace, or does not know this instant; the message says why.
    """
    pasts = sorted(all_pasts(lake, namespace), key=lambda past: past.begin_ms)
    if not pasts:
        raise no_past(lake, namespace)
    live = [past for past in pasts if past.begin_ms <= at_ms]
    if not live:
        raise LakeError(
            f"the lake knows namespace {namespace!r} only from {show_ms(pasts[0].begin_ms)} on (its first snapshot); "
            f"{show_ms(at_ms)} is earlier"
        )
    past = live[-1]
    end_ms = past.end_ms()
    if at_ms > end_ms:
        if past is pasts[-1]:
            then = "'mqregistry pipeline run --once' brings it up to date; without --at the tables of now are shown"
        else:
            after = pasts[pasts.index(past) + 1]
            then = (
                f"the namespace was created again later; the lake knows the new one from {show_ms(after.begin_ms)} on"
            )
        raise LakeError(
            f"the lake knows namespace {namespace!r} only until {show_ms(end_ms)}; {show_ms(at_ms)} is later: {then}"
        )
    for from_ms, to_ms in past.gaps:
        if from_ms < at_ms < to_ms:
            raise LakeError(
                f"what held at {show_ms(at_ms)} is not known: changes between {show_ms(from_ms)} and {show_ms(to_ms)} "
                "were lost before they were read"
            )
    return past


def no_past(lake: Lake, namespace: str) -> LakeError:
    """The error that a lake knows nothing of a namespace."""
    known = sorted({name for name, _ in lake.owners()})
    advice = (
        f", but has {', '.join(known)}: is one of these meant (--namespace)?"
        if known
        else "; it is empty: is --lake right?"
    )
    return LakeError(
        f"the lake at {lake.root} has nothing of namespace {namespace!r}{advice} 'mqregistry pipeline run' writes a "
        "namespace into the lake"
    )


def all_pasts(lake: Lake, namespace: str) -> list[EpochPast]:
    """Every epoch of a namespace that silver has."""
    found = ((epoch, progress.last(lake, namespace, epoch)) for epoch in lake.epochs(namespace))
    return [EpochPast(lake, namespace, epoch, known) for epoch, known in found if known is not None]


def ask(lake: Lake, namespace: str, at_ms: int, question: Callable[[EpochPast], _Answer]) -> _Answer:
    """Answer a question about the past.

    Raises:
        LakeError: see :func:`find_past`; files are broken or gone.
    """
    with whole_files(lake):
        return question(find_past(lake, namespace, at_ms))


def show_ms(ms: int) -> str:
    """A moment as people read it: local time with its zone."""
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone().isoformat(sep=" ", timespec="milliseconds")
