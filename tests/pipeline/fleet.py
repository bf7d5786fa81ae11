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

from bench.servers.processes import Processes, wait_until
from mqregistry.pipeline.lake.lake import Lake
from mqregistry.pipeline.lake.tables import sql_name
from mqregistry.pipeline.namespace import RunSettings
from mqregistry.pipeline.past.audit import Audit, audit
from mqregistry.pipeline.past.travel import EpochPast, find_past
from mqregistry.pipeline.run import run
from mqregistry.pipeline.spark.session import open_session
from mqregistry.store.leases import LeaseStore
from mqregistry.store.store import Store
from tests.differential.run import IN_TOUCH_S, REPEATS, Difference, NotNow
from tests.differential.shrink import random_sequence, steps_of
from tests.fleet.run import FleetPair, FleetRun
from tests.fleet.start import start_pair
from tests.pipeline.world import Model, entries, plain, whole_changes

LENGTH = 60
AUDIT_EVERY = 40
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
    """The lake of the several front ends' namespace, brought up to date by the pipeline itself."""

    def __init__(self, pair: FleetPair, folder: Path) -> None:
        self.url, self.namespace, self.compat = pair.redis_url, pair.namespaces[1], pair.compat
        self.lake = Lake(str(folder / "lake"))
        self.spark = open_session(master="local[2]", driver_memory="1g")
        self.record()

    async def _entries(self) -> list[tuple[str, str]]:
        async with Store(self.url, self.namespace, compat=self.compat) as store:
            return await entries(store)

    def record(self) -> None:
        run(self.spark, self.lake, RunSettings(self.url, (self.namespace,)), once=True, tell=str)

    def audit(self) -> Audit:
        return audit(self.spark, self.url, self.namespace, self.lake)

    def travel(self, instants: int, pick: random.Random) -> int:
        """Compare random instants with a plain replay; how many."""
        changes = whole_changes(asyncio.run(self._entries()))
        model = Model(changes, live_by_cluster=self.compat == "5.x")
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
            pair = start_pair(processes, 3, compat=options.compat, idle_s=3600)  # an audit takes minutes
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
        self._table = sql_name(recorder.lake, "bronze/changes")
        rows = recorder.spark.table(self._table).select("id_ms", "id_n", "seq", "e").orderBy("id_ms", "id_n")
        self._rows = [tuple(row) for row in rows.collect()]
        self.count = 0

    def altered(self, kind: str, alter: Callable[[dict[str, Any]], bool], table: str) -> str:
        """One event in whose place stands another; silver has what was there."""
        fitting = [
            (id_ms, id_n, event) for id_ms, id_n, _, e in self._rows if kind in e and alter(event := json.loads(e))
        ]
        id_ms, id_n, event = self._pick.choice(fitting)
        text = json.dumps(event)
        found = self._audit(f"UPDATE {self._table} SET e = :e WHERE id_ms = {id_ms} AND id_n = {id_n}", e=text)
        if table in {difference.table for difference in found.differences}:
            return ""
        return f"change {event['seq']} was altered to {event}, and the audit has {found.differences} {found.missing}"

    def removed(self) -> str:
        """Any event but the last of all."""
        id_ms, id_n, seq, _ = self._pick.choice(self._rows[:-1])
        found = self._audit(f"DELETE FROM {self._table} WHERE id_ms = {id_ms} AND id_n = {id_n}")
        if found.missing is not None and f"change {seq} is missing" in found.missing:
            return ""
        return f"change {seq} was removed, and the audit says {found.missing}, {len(found.differences)} differences"

    def _audit(self, edit: str, **values: str) -> Audit:
        self.count += 1
        spark = self._recorder.spark
        version = spark.sql(f"DESCRIBE HISTORY {self._table} LIMIT 1").first()["version"]
        spark.sql(edit, args=values)
        try:
            return self._recorder.audit()
        finally:
            spark.sql(f"RESTORE TABLE {self._table} TO VERSION AS OF {version}")


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
            recorder.record()
            found = recorder.audit()
            counts["audits"] += 1
            counts["differences"] += len(found.differences) + (found.missing is not None)
            what = f"{len(found.differences)} differences {found.differences[:3]} {found.missing or ''}"
            print(f"after {at + 1} sequences: {found.seq} changes, {found.cells} cells, {what}", flush=True)
            run.renew_connections()  # brokers expired meanwhile
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
        except Difference as difference:
            print(f"sequence {at}: {difference}", flush=True)
            counts["differences"] += 1
    recorder.record()
    instants = recorder.travel(options.instants, pick)
    found = recorder.audit()
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
          f"at the end {found.seq} changes, {found.cells} cells, {len(found.differences)} differences; of "
          f"{tampered.count} events altered or removed {len(unseen)} were not found")  # fmt: skip
    return 1 if counts["differences"] or unseen or not found.ok else 0


if __name__ == "__main__":
    sys.exit(main())
