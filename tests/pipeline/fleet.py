"""Random operations through three front ends over the wire, and the audit of what they leave behind; also of what is
then removed or altered in it: python -m tests.pipeline.fleet --operations 10000 --seed 1
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from bench.servers.processes import Processes, wait_until
from mqregistry.pipeline import silver
from mqregistry.pipeline.lake import snapshot
from mqregistry.pipeline.lake.lake import Lake, owner
from mqregistry.pipeline.past.audit import Audit, audit
from mqregistry.pipeline.past.travel import EpochPast, find_past
from mqregistry.store.leases import LeaseStore
from mqregistry.store.store import Store
from tests.differential.run import IN_TOUCH_S, REPEATS, CellDifference, NotNow
from tests.differential.shrink import random_sequence, steps_of
from tests.fleet.run import FleetPair, FleetRun
from tests.fleet.start import start_pair
from tests.pipeline.world import Model, entries, plain, whole_changes, write_bronze

LENGTH = 60
AUDIT_EVERY = 20
TIMEOUT_MS = 121_000


class PastRun(FleetRun):
    """A sequence that is looked at, or whose brokers all fall silent, before it is cleaned up."""

    before: Callable[[PastRun], bool]  # whether to clean up

    def clean_up(self) -> None:
        if self.before():
            super().clean_up()

    def renew_connections(self) -> None:
        """A front end closes the connection of a broker that expired."""
        for line in (*self.lines.values(), *(line for lines in self.old.values() for line in lines)):
            for connection in line.connections:
                connection.close()
        self.lines.clear()
        self.old.clear()
        for server in self.pair.servers:
            server.control.close()
            server.control = server.connect()
        self.control.connections = [server.control for server in self.pair.servers]


async def expire(url: str, namespace: str, compat: str) -> int:
    """Let the longest timeout pass, watched all the time."""
    async with Store(url, namespace, compat=compat) as store:
        meta = f"mq:{{{namespace}}}:meta"
        await store.client.hincrby(meta, "clock_offset_ms", TIMEOUT_MS)
        seconds, _ = await store.client.time()
        offset = int(await store.client.hget(meta, "clock_offset_ms"))
        await store.client.hset(meta, "seen_ms", seconds * 1000 + offset)
        removed = 0
        while gone := (await LeaseStore(store).expire(1000)).whos:
            removed += len(gone)
        return removed


class Recorder:
    """The lake of the several front ends' namespace."""

    def __init__(self, pair: FleetPair, folder: Path) -> None:
        self.url, self.namespace, self.compat = pair.redis_url, pair.namespaces[1], pair.compat
        self.lake = Lake(str(folder / "lake"))
        self.epoch = snapshot.take(self.url, self.namespace, self.lake).epoch
        self.after, self.number = "-", 0

    async def _entries(self, after: str) -> list[tuple[str, str]]:
        async with Store(self.url, self.namespace, compat=self.compat) as store:
            return await entries(store, after)

    def record(self) -> None:
        found = asyncio.run(self._entries(self.after))
        if found:
            write_bronze(self.lake, self.namespace, self.epoch, self.number, found)
            self.after, self.number = found[-1][0], self.number + 1
            silver.advance(None, self.lake, self.namespace, self.epoch)

    def audit(self, spark: Any = None) -> Audit:
        self.record()
        return audit(spark, self.url, self.namespace, self.lake)

    def travel(self, instants: int, pick: random.Random) -> int:
        """Compare random instants with a plain replay; how many."""
        model = Model(whole_changes(asyncio.run(self._entries("-"))), live_by_cluster=self.compat == "5.x")
        first, last = model.moments[0], model.moments[-1]
        wanted = [pick.randint(first, last) if pick.random() < 0.5 else pick.choice(model.moments)
                  for _ in range(instants)]  # fmt: skip
        for instant, tables, lives in model.walk(wanted):
            past: EpochPast = find_past(self.lake, self.namespace, instant)
            assert plain(past.tables(instant)) == plain(tables), instant
            assert past.lives(instant) == lives.by_who, instant
        return len(wanted)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pipeline.fleet", description=__doc__)
    parser.add_argument("--operations", type=int, default=10_000)
    parser.add_argument("--instants", type=int, default=1000, help="at which the past is compared with a plain replay")
    parser.add_argument("--compat", default="5.x", help="5.x or 4.8")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    pick = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="mqpast") as folder:
        processes = Processes(Path(folder))
        try:
            pair = start_pair(processes, 3, compat=options.compat)
            recorder = Recorder(pair, Path(folder))
            return _run(pair, recorder, options, pick)
        finally:
            processes.close()


def _again_when_not_now(pair: FleetPair, work: Callable[[int], None]) -> None:
    """Repeat a sequence, under other names, during which a front end was out of touch with its Redis."""
    for number in range(REPEATS):
        try:
            return work(number)
        except NotNow:
            wait_until("every front end is in touch again", pair.in_touch, IN_TOUCH_S)
    raise AssertionError(f"a front end lost touch with its Redis {REPEATS} times during one sequence")


class Tampered:
    """Bronze after somebody edited it; each edit is taken back. What the audit does not find is told."""

    def __init__(self, recorder: Recorder, pick: random.Random) -> None:
        self._recorder, self._pick = recorder, pick
        files = recorder.lake.table("bronze/changes").files(**owner(recorder.namespace, recorder.epoch))
        self._paths = [Path(recorder.lake.path(file.path)) for file in files]
        self.count = 0

    def altered(self, kind: str, alter: Callable[[dict[str, Any]], bool], table: str) -> str:
        """One event in whose place stands another; silver has what was there."""
        fitting = []
        for path in self._paths:
            for at, e in enumerate(pq.read_table(path, columns=["e"])["e"].to_pylist()):
                if kind in e and alter(event := json.loads(e)):
                    fitting.append((path, at, event))
        path, at, event = self._pick.choice(fitting)
        found = self._audit(path, at, json.dumps(event))
        if table in {difference.table for difference in found.differences}:
            return ""
        return f"change {event['seq']} was altered to {event}, and the audit has {found.differences} {found.missing}"

    def removed(self) -> str:
        """Any event but the last of all."""
        rows = [(path, at, seq) for path in self._paths
                for at, seq in enumerate(pq.read_table(path, columns=["seq"])["seq"].to_pylist())]  # fmt: skip
        path, at, seq = self._pick.choice(sorted(rows, key=lambda row: row[2])[:-1])
        found = self._audit(path, at, None)
        if found.missing is not None and f"change {seq} is missing" in found.missing:
            return ""
        return f"change {seq} was removed, and the audit says {found.missing}, {len(found.differences)} differences"

    def _audit(self, path: Path, at: int, instead: str | None) -> Audit:
        self.count += 1
        recorder, before, table = self._recorder, path.read_bytes(), pq.read_table(path)
        rows = table.to_pylist()
        rows[at : at + 1] = [] if instead is None else [rows[at] | {"e": instead}]
        try:
            pq.write_table(table.from_pylist(rows, schema=table.schema), path)
            return audit(None, recorder.url, recorder.namespace, recorder.lake)
        finally:
            path.write_bytes(before)


def _other_value(event: dict[str, Any]) -> bool:
    """Alter a KV event, if it has a value."""
    given = event.get("value") is not None
    event["value"] = "altered"
    return given


def _other_addr(event: dict[str, Any]) -> bool:
    """Alter an event with a broker row, if it has an address."""
    addrs = (event["row"] or {}).get("addrs") or {}
    addrs.update(dict.fromkeys(list(addrs)[:1], "192.0.2.1:1"))
    return bool(addrs)


def _run(pair: FleetPair, recorder: Recorder, options: argparse.Namespace, pick: random.Random) -> int:
    sequences = -(-options.operations // LENGTH)
    counts = {"expired": 0, "audits": 0, "differences": 0}
    at = 0

    def before(run: PastRun) -> bool:
        last = at == sequences - 1
        if at % AUDIT_EVERY == 0 or last:
            found = recorder.audit(None)
            counts["audits"] += 1
            counts["differences"] += len(found.differences) + (found.missing is not None)
            what = f"{len(found.differences)} differences {found.differences[:3]} {found.missing or ''}"
            print(f"after {at + 1} sequences: {found.seq} changes, {found.cells} cells, {what}", flush=True)
        elif pick.random() < 0.3:
            for namespace in pair.namespaces:
                counts["expired"] += asyncio.run(expire(pair.redis_url, namespace, pair.compat))
            run.renew_connections()
        return not last

    PastRun.before = before
    for at in range(sequences):
        steps = steps_of(random_sequence(options.seed + at, LENGTH))
        try:
            _again_when_not_now(pair, lambda number, at=at, steps=steps: PastRun(pair, f"q{at}r{number}x").run(steps))
        except CellDifference as difference:
            print(f"sequence {at}: {difference}", flush=True)
            counts["differences"] += 1
    instants = recorder.travel(options.instants, pick)
    from mqregistry.pipeline.spark.session import open_session

    spark = open_session(master="local[2]", driver_memory="1g")
    found = recorder.audit(spark)
    spark.stop()
    counts["differences"] += len(found.differences) + (found.missing is not None)
    tampered = Tampered(recorder, pick)
    unseen = [what for _ in range(3) for what in (
        tampered.altered('"kv_put"', _other_value, "kv"), tampered.altered('"row"', _other_addr, "broker_addr"),
        tampered.removed(),
    ) if what]  # fmt: skip
    for text in unseen:
        print(text)
    sent = ", ".join(f"{code} {count}" for code, count in sorted(pair.sent.items(), key=str))
    print(f"{sequences * LENGTH} operations ({sent}), {counts}; {instants} instants as the plain replay has them; "
          f"on Spark: {found.seq} changes, {found.cells} cells, {len(found.differences)} differences; of "
          f"{tampered.count} events altered or removed {len(unseen)} were not found")  # fmt: skip
    return 1 if counts["differences"] or unseen or not found.ok else 0


if __name__ == "__main__":
    sys.exit(main())
