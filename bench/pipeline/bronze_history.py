"""Writes a made-up history to bronze: 32 brokers with 10,000 topics each, a change every eight milliseconds.

Changes as the scripts write them: registrations of one changed topic, topics deleted and registered by hand, wiped
permissions, and now and then a broker that expires with all its topics and comes back with them. Beside them what such
a cluster says of itself in that time: a beat a broker and front end every 30 seconds, lookups every ten seconds; that
is little beside a change every eight milliseconds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pyarrow as pa

from mqregistry.events.journal import CHANGES, HEARTBEATS, LOOKUPS, Stream
from mqregistry.pipeline.bronze import log
from mqregistry.pipeline.lake.files import File, write_file
from mqregistry.pipeline.lake.lake import Lake, State, owner
from mqregistry.pipeline.lake.schema import BRONZE
from mqregistry.pipeline.redis_stream.ranges import EntryId, Position

NAMESPACE, EPOCH = "bench", "e1"
BROKERS, TOPICS = 32, 10_000
STEP_MS = 8  # ten million changes are 22 hours
BEGIN_MS = 1_779_926_400_000  # 2026-05-28, 00:00 UTC
BATCH_ROWS = 250_000  # as the source writes them
EXPIRY_EVERY = 100_000
BEAT_EVERY_MS, LOOKUPS_EVERY_MS = 30_000, 10_000
FRONT_ENDS = 2
LOOKED_UP = 200  # topics that an entry of lookups names


class BatchCommit(msgspec.Struct):
    """The commit of a batch, without which nobody reads it."""

    stream: Stream
    number: int
    end: Position
    file: File

    def to(self, lake: Lake) -> None:
        log._commit(lake, self.stream, NAMESPACE, EPOCH, self.number, self.end, [self.file])


class Batches:
    """Batches of one stream, a file each and a file more where a day ends.

    Args:
        commit: what is done with the commit of each that was written.
    """

    def __init__(self, lake: Lake, stream: Stream, commit: Callable[[BatchCommit], None]) -> None:
        self._lake = lake
        self._stream = stream
        self._schema = BRONZE[stream]
        self._ms = self._schema.get_field_index("ms")
        self._rows: list[tuple[Any, ...]] = []
        self.number = 0
        self.commit = commit

    def add(self, *row: Any) -> None:
        self._rows.append(row)
        if len(self._rows) >= BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write the rows collected so far as a batch."""
        rows, self._rows = self._rows, []
        if not rows:
            return
        table = pa.Table.from_arrays(
            [pa.array(values, f.type) for values, f in zip(zip(*rows, strict=True), self._schema, strict=True)],
            schema=self._schema,
        )
        assert rows[-1][self._ms] < BEGIN_MS + 86_400_000, "more than a day of changes"
        table = table.append_column("batch", pa.repeat(pa.scalar(self.number, pa.int64()), len(rows)))
        place = {**owner(NAMESPACE, EPOCH), "day": "2026-05-28"}
        file = write_file(self._lake, f"bronze/{self._stream}", table, place)
        end = Position(EntryId(rows[-1][0], rows[-1][1]), file.high.get("seq", -1))
        self.commit(BatchCommit(self._stream, self.number, end, file))
        self.number += 1


class MadeUpChanges:
    """The stream of changes: what brokers and operators do, by a seed."""

    def __init__(self, batches: Batches, seed: int) -> None:
        self.seq = 0
        self._batches = batches
        self._pick = random.Random(seed)
        self._counters = [0] * BROKERS

    @property
    def ms(self) -> int:
        """The time of the last change."""
        return BEGIN_MS + self.seq * STEP_MS

    def steps(self) -> Iterator[int]:
        """Add changes without end; yields the last seq of each."""
        for broker in range(BROKERS):
            self._come(broker)
            yield self.seq
        expire_at = EXPIRY_EVERY
        pick = self._pick
        while True:
            broker, topic, chance = pick.randrange(BROKERS), pick.randrange(TOPICS), pick.random()
            if self.seq >= expire_at:
                expire_at += EXPIRY_EVERY
                addr = f"10.0.{broker}.1:10911"
                gone = f'"who":"c1|{addr}","cluster":"c1","addr":"{addr}","broker_id":0,"row":null'
                self._add("broker_expired", f",{self._name(broker)},{gone}")
                yield self.seq
                self._come(broker)
            elif chance < 0.9:
                data = f'"topic-{topic}":{{"r":8,"w":{pick.randrange(1, 17)},"p":6,"f":0}}'
                who = self._who(broker, row=False)
                self._add("broker_registered", f',{self._name(broker)}{who},"topics":{{{data}}}')
            elif chance < 0.94:
                members = f',"topic":"topic-{topic}","rev":{self.seq + 1},"broker_names":["broker-{broker}"]'
                self._add("topic_deleted", members)
            elif chance < 0.98:
                data = f'"broker-{broker}":{{"r":4,"w":4,"p":6,"f":0}}'
                members = f',"topic":"topic-{topic}","rev":{self.seq + 1},"queue_datas":{{{data}}}'
                self._add("topic_registered", members)
            else:
                data = f'"topic-{topic}":{{"r":8,"w":8,"p":4,"f":0}}'
                self._add("write_perm_set", f',{self._name(broker)},"topics":{{{data}}}')
            yield self.seq

    def _add(self, kind: str, members: str, part: int = 1, parts: int = 1) -> None:
        self.seq += 1
        ms = self.ms
        of_parts = f',"part":{part},"parts":{parts}' if parts > 1 else ""
        e = f'{{"seq":{self.seq},"ms":{ms},"type":"{kind}"{of_parts}{members}}}'
        self._batches.add(ms, 0, self.seq, ms, kind, part, parts, e)

    def _come(self, broker: int) -> None:
        """Register all topics of a broker, in parts of 500."""
        parts = TOPICS // 500
        for part in range(1, parts + 1):
            topics = ",".join(
                f'"topic-{n}":{{"r":8,"w":8,"p":6,"f":0}}' for n in range((part - 1) * 500, part * 500)
            )  # fmt: skip
            who = self._who(broker, row=True) if part == 1 else ""
            self._add("broker_registered", f',{self._name(broker)}{who},"topics":{{{topics}}}', part, parts)

    def _name(self, broker: int) -> str:
        return f'"broker_name":"broker-{broker}","rev":{self.seq + 1}'

    def _who(self, broker: int, *, row: bool) -> str:
        self._counters[broker] += 1
        addr, counter = f"10.0.{broker}.1:10911", self._counters[broker]
        live = f'{{"timeout_ms":120000,"counter":{counter},"timestamp":{BEGIN_MS},"state_version":0}}'
        of_row = f',"row":{{"cluster":"c1","acting":false,"addrs":{{"0":"{addr}"}}}}' if row else ""
        return f',"who":"c1|{addr}","cluster":"c1","broker_id":0,"addr":"{addr}","live":{live}{of_row}'


def write(lake: Lake, events: int, *, later: int = 0, seed: int = 1) -> list[BatchCommit]:
    """Write so many changes, the other streams of that time, and the snapshot before them.

    Args:
        later: so many more changes in batches that do not count yet.

    Returns:
        What makes those count.
    """
    held_back: list[BatchCommit] = []
    batches = {stream: Batches(lake, stream, lambda commit: commit.to(lake)) for stream in BRONZE}
    changes = MadeUpChanges(batches[CHANGES], seed)
    others = {HEARTBEATS: _beats(seed), LOOKUPS: _lookups(seed)}
    waiting = {stream: next(entries) for stream, entries in others.items()}
    ends = [events, events + later] if later else [events]
    for seq in changes.steps():
        for stream, entries in others.items():
            while waiting[stream][0] <= changes.ms:
                ms, number, e = waiting[stream]
                batches[stream].add(ms, number, ms, e)
                waiting[stream] = next(entries)
        if seq >= ends[0]:
            for written in batches.values():
                written.flush()
                written.commit = held_back.append
            ends.pop(0)
            if not ends:
                break
    lake.set_state("snapshot", NAMESPACE, EPOCH, State(0, {"taken": [[EPOCH, 0, BEGIN_MS, "0-0"]]}))
    return held_back


Entry = tuple[int, int, str]  # ms, number within it, JSON


def _beats(seed: int) -> Iterator[Entry]:
    pick, ms, number = random.Random(seed + 1), BEGIN_MS, 0
    while True:
        for broker in range(BROKERS):
            late = pick.randrange(BEAT_EVERY_MS // BROKERS)
            for front_end in range(FRONT_ENDS):
                at, number = ms + broker * BEAT_EVERY_MS // BROKERS + late, number + 1
                e = (f'{{"ms":{at},"who":"c1|10.0.{broker}.1:10911","front_end":"front-end-{front_end}","kind":"same",'
                     f'"interval_ms":30000,"bytes":1700000,"broker_name":"broker-{broker}"}}')  # fmt: skip
                yield at, number, e
        ms += BEAT_EVERY_MS


def _lookups(seed: int) -> Iterator[Entry]:
    pick, ms, number = random.Random(seed + 2), BEGIN_MS, 0
    while True:
        ms += LOOKUPS_EVERY_MS
        for front_end in range(FRONT_ENDS):
            number += 1
            topics = sorted({int(TOPICS * pick.random() ** 3) for _ in range(LOOKED_UP)})
            found = ",".join(f'"topic-{n}":{pick.randrange(1, 50)}' for n in topics)
            yield ms, number, (f'{{"ms":{ms},"front_end":"front-end-{front_end}","since_ms":{ms - LOOKUPS_EVERY_MS},'
                               f'"found":{{{found}}},"missing":{{"no-such-topic":3}}}}')  # fmt: skip
