"""A namespace that changes at random, its lake, and its plain model."""

from __future__ import annotations

import os
import random
import secrets
from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from typing import Any

from mqregistry.behaviour import FOUR_EIGHT
from mqregistry.events.by import By
from mqregistry.events.changes import Change, Parts, decode_change
from mqregistry.model import BrokerRow, QueueData, Registration
from mqregistry.pipeline.lake.lake import Lake
from mqregistry.pipeline.lake.schema import BRONZE, LATER, SILVER
from mqregistry.pipeline.lake.tables import ensure, make_rows
from mqregistry.pipeline.silver.progress import last
from mqregistry.store.store import Store
from mqregistry.tables.live_table import LiveInfo, LiveTable
from mqregistry.tables.tables import Tables
from tests.store.bed import RW, Bed, FrontEnd, Prepared, in_small_parts, registration
from tests.store.consistent import Told, assert_consistent

TOPICS = [f"topic-{number}" for number in range(12)]
PROCESSES = [  # cluster, brokerName, id, address; addresses, names, ids and clusters that cross
    ("c1", "broker-a", 0, "10.0.0.1:10911"),
    ("c1", "broker-a", 1, "10.0.0.2:10911"),
    ("c1", "broker-b", 0, "10.0.0.3:10911"),
    ("c1", "broker-b", 0, "10.0.0.4:10911"),
    ("c2", "broker-b", 0, "10.0.0.4:10911"),
    ("c2", "broker-b", 1, "10.0.0.4:10911"),
    ("c2", "broker-c", 0, "10.0.0.5:10911"),
    ("c1", "broker-c", 0, "10.0.0.1:10911"),
    ("c2", "broker-a", 1, "10.0.0.1:10911"),
    ("c2", "broker-d", 2, "10.0.0.6:10911"),
]
FRONT_ENDS = ("fe1", "fe2", "fe3")
CHECKED_EVERY = 4
"""Steps after which every key is compared with every other."""
OPERATIONS = {
    "register": 30, "same": 6, "late": 5, "touch": 6, "unregister": 8, "close": 8, "perm": 4, "delete": 6, "topic": 6,
    "kv": 6, "restore": 1, "config": 1, "time": 7, "clock": 1, "sweep": 3, "die": 2, "drain": 1, "reap": 2,
}  # fmt: skip


def new_seed() -> int:
    """Another one each time. CI takes the same each time: new ones are looked for where somebody can follow up."""
    return int(os.environ.get("MQREGISTRY_TEST_SEED", 1 if "CI" in os.environ else secrets.randbits(32)))


class World:
    """Random operations through three front ends on one namespace.

    After each of them every key agrees with every other one, and with what the change stream tells.
    """

    def __init__(self, store: Store, seed: int) -> None:
        if seed % 2:
            in_small_parts(store, 3)
        self.bed = Bed(store)
        self.front_ends = [FrontEnd(store, name, f"{name}.0") for name in FRONT_ENDS]
        self.random = random.Random(seed)
        self.version = 0
        self.born = 0
        self.steps = 0
        self.channels: dict[tuple[str, str, str], int] = {}
        self.on_the_way: list[tuple[FrontEnd, Prepared]] = []
        self.told = Told(store)

    async def run(self, operations: int) -> None:
        for number in range(operations):
            await self.step()
            if number % CHECKED_EVERY == 0 or number == operations - 1:  # what a step breaks stays broken
                await assert_consistent(self.bed.store)
                await self.told.assert_true()

    async def step(self) -> None:
        pick = self.random
        self.bed.store.by = By("direct", f"user-{self.steps % 5}", f"host/{self.steps % 3}")
        self.steps += 1
        kind = pick.choices(list(OPERATIONS), list(OPERATIONS.values()))[0]
        front_end = pick.choice(self.front_ends)
        cluster, name, broker_id, addr = pick.choice(PROCESSES)
        match kind:
            case "register":
                await self.register(front_end, cluster, name, broker_id, addr, new=True)
            case "same":
                await self.register(front_end, cluster, name, broker_id, addr, new=False)
            case "late":
                await self.late(front_end, self.registration(cluster, name, broker_id, addr, new=pick.random() < 0.5))
            case "touch":
                await front_end.routes.touch_broker(cluster, addr, front_end.channel(pick.randint(1, 3)), 1)
            case "unregister":
                await front_end.routes.unregister_broker(cluster, addr, name, broker_id)
            case "close":
                connection = self.channels.get((front_end.front_end, cluster, addr), 1)
                await front_end.close(registration(addr, name, broker_id, cluster), connection=connection)
            case "perm":
                await front_end.routes.set_write_perm(name, pick.choice(["wipe", "add"]))
            case "delete":
                await front_end.routes.delete_topic(pick.choice(TOPICS), pick.choice(["", "", "c1", "c2"]))
            case "topic":
                names = pick.sample(["broker-a", "broker-b", "broker-c", "broker-d"], 2)
                await front_end.routes.register_topic(pick.choice(TOPICS), [(n, self.queue_data()) for n in names])
            case "kv":
                await self.kv(front_end)
            case "restore":
                values = {topic: pick.choice(["1", "3"]) for topic in pick.sample(TOPICS[:3], 2)}
                known = (await self.bed.head()).seq  # rises, so the last one knows most
                await self.bed.give_back("kv", pick.choice(["other", "third"]), values.items(), known=known)
            case "config":
                values = {pick.choice(["orderMessageEnable", "supportActingMaster"]): pick.choice(["true", "false"])}
                await front_end.kv.set_config(values)
            case "time":
                await self.bed.let_pass(pick.choice([1, 200, 30_000, 119_000, 121_000]))
                await front_end.leases.expire(100)
            case "clock":
                await self.bed.move_clock(pick.choice([-7_000, -1, 3_600_000]))
            case _:
                await self.workers(kind, front_end)

    async def workers(self, kind: str, front_end: FrontEnd) -> None:
        """What workers and sweepers do of themselves, each in a moment of its own."""
        pick = self.random
        match kind:
            case "sweep":  # one broker, or one at a time
                await self.bed.let_pass(pick.choice([0, 5_000, 21_000, 121_000]))
                await front_end.leases.expire(1, pick.choice([1, 5, 1000]))
            case "die":
                await self.bed.redis("DEL", self.bed.key(f"lease:{front_end.incarnation}"))
                await self.new_worker(front_end)
            case "drain":
                await front_end.leases.release(front_end.incarnation)
                await self.new_worker(front_end)
            case "reap":
                await self.bed.let_pass(11_000)
                await front_end.leases.reap(pick.choice([1, 100]))

    async def new_worker(self, front_end: FrontEnd) -> None:
        self.born += 1
        front_end.incarnation = f"{front_end.front_end}.{self.born}"
        await front_end.leases.renew(front_end.incarnation, 10**9)
        whos = ["|".join((process[0], process[3])) for process in self.random.sample(PROCESSES, 2)]
        if self.random.random() < 0.5:  # it was only paused, and attaches what it has
            await front_end.leases.attach(
                front_end.front_end, [(who, front_end.channel(number + 1).value) for number, who in enumerate(whos)]
            )

    def queue_data(self) -> Any:
        return type(RW)(self.random.choice([4, 8]), self.random.choice([4, 8]), self.random.choice([2, 4, 6]))

    async def kv(self, front_end: FrontEnd) -> None:
        pick = self.random
        namespace = pick.choice(["ORDER_TOPIC_CONFIG", "other"])
        key = pick.choice(TOPICS[:3])
        if pick.random() < 0.3:
            await front_end.kv.delete(namespace, key)
        else:
            await front_end.kv.put(namespace, key, pick.choice(["1", "2", 'ä"\\', None]))

    def registration(self, cluster: str, name: str, broker_id: int, addr: str, *, new: bool) -> Registration:
        pick = self.random
        self.version += new
        topics = {topic: (8, pick.choice([4, 8]), 6) for topic in pick.sample(TOPICS, pick.randint(0, 7))}
        extra: dict[str, Any] = {}
        if pick.random() < 0.3:
            extra["mappings"] = {topic: (name, f'{{"e":{self.version}}}') for topic in list(topics)[:2]}
        if pick.random() < 0.3:
            extra["enable_acting_master"] = True
        if pick.random() < 0.2:
            extra["zone_name"] = pick.choice(["z1", "z2"])
        if pick.random() < 0.5:
            extra["filter_servers"] = pick.choice([["f1:1"], ["f1:1", "f2:2"], []])
        if pick.random() < 0.2:
            extra["heartbeat_timeout_ms"] = 20_000
        wanted = registration(
            addr, name, broker_id, cluster, topics=topics, counter=self.version, timestamp=self.version,
            state_version=pick.choice([0, 0, 1]), **extra,
        )  # fmt: skip
        return wanted if self.bed.store.compat == "5.x" else FOUR_EIGHT.seen(wanted)

    async def register(
        self, front_end: FrontEnd, cluster: str, name: str, broker_id: int, addr: str, *, new: bool
    ) -> None:
        wanted = self.registration(cluster, name, broker_id, addr, new=new)
        connection = self.random.randint(1, 3)
        self.channels[front_end.front_end, cluster, addr] = connection
        await front_end.register(wanted, connection=connection, delete_missing_topics=self.random.random() < 0.5)

    async def late(self, front_end: FrontEnd, wanted: Registration) -> None:
        """Of up to three registrations that were compared, one arrives, however long ago that was."""
        connection = self.random.randint(1, 3)
        self.on_the_way.append((front_end, await front_end.prepare(wanted, connection=connection)))
        if len(self.on_the_way) > 3 or self.random.random() < 0.5:
            of, prepared = self.on_the_way.pop(self.random.randrange(len(self.on_the_way)))
            if prepared.diff is not None:
                await of.send(prepared)


async def entries(store: Store, after: str = "-") -> list[tuple[str, str]]:
    """(id, e) of the change stream."""
    minimum = after if after == "-" else f"({after}"
    found = await store.client.xrange(f"mq:{{{store.namespace}}}:changes", min=minimum)
    return [(entry_id.decode(), fields[b"e"].decode()) for entry_id, fields in found]


def write_bronze(spark: Any, lake: Lake, namespace: str, epoch: str, found: list[tuple[str, str]]) -> None:
    """Changes, as the query that reads the stream writes them."""
    rows = []
    for entry_id, e in found:
        change = decode_change(e.encode())
        id_ms, id_n = entry_id.split("-")
        rows.append((int(id_ms), int(id_n), change.seq, change.ms, change.type, change.part, change.parts, e))
    write_rows(spark, lake, "changes", namespace, epoch, rows)


def write_rows(
    spark: Any, lake: Lake, stream: Any, namespace: str, epoch: str, rows: list[tuple[Any, ...]], *,
    reason: str | None = None,
) -> None:  # fmt: skip
    """Entries of a stream, whatever is missing in it; the rows have the columns of ``BRONZE[stream]`` up to e."""
    at = BRONZE[stream].names.index("ms")
    days = [str(datetime.fromtimestamp(row[at] / 1000, UTC).date()) for row in rows]
    every = [(*row, reason, None, day) for row, day in zip(rows, days, strict=True)]
    name = f"bronze/{stream}"
    ensure(spark, lake, name)
    make_rows(spark, name, (namespace, epoch), every).coalesce(1).write.format("delta").mode("append").save(
        lake.path(name)
    )


def whole_changes(found: list[tuple[str, str]]) -> list[Change]:
    parts = Parts()
    return [change for _, e in found for change in parts.add(decode_change(e.encode()))]


class Model:
    """The tables after each moment, by replaying events in a plain dict; moments never run backwards."""

    def __init__(self, changes: list[Change], *, live_by_cluster: bool = True) -> None:
        self.changes = changes
        self.moments: list[int] = []
        for change in changes:
            self.moments.append(max(change.ms, self.moments[-1] if self.moments else 0))
        self._live_by_cluster = live_by_cluster

    def walk(self, instants: list[int]) -> Any:
        """For each instant, rising: (instant, tables, lives) as they were."""
        tables = Tables()
        lives = LiveTable(tables, live_by_cluster=self._live_by_cluster)
        done = 0
        for instant in sorted(instants):
            upto = bisect_right(self.moments, instant)
            for change in self.changes[done:upto]:
                tables.apply(change)
                lives.apply(change)
            done = upto
            yield instant, tables, lives


def plain(tables: Tables) -> dict[str, Any]:
    """Contents without revisions, and without what brokers registered before others changed it: no part of the past."""
    contents = tables.contents()
    contents["topics"] = {
        topic: {name: data.numbers for name, data in queue_datas.items()}
        for topic, queue_datas in tables.topics.items()
    }
    contents["brokers"] = {
        name: (row.cluster, row.broker_addrs, row.zone_name, row.enable_acting_master)
        for name, row in tables.brokers.items()
    }
    return contents


def all_rows(lake, namespace, epoch):
    """Silver as of its last step: table -> its rows, in an order of their own."""
    return {table: sorted(map(repr, rows)) for table, rows in silver_rows(lake, namespace, epoch).items()}


def silver_rows(lake, namespace, epoch):
    """Silver's rows as of its last step, whatever a run that was killed wrote behind it."""
    seq = last(lake, namespace, epoch).seq
    found = {}
    for table, schema in SILVER.items():
        rows = lake.read(f"silver/{table}", namespace=namespace, epoch=epoch, columns=schema.names).to_pylist()
        rows = [row for row in rows if row["from_seq"] <= seq]
        for row in rows:
            if row["to_seq"] is not None and row["to_seq"] > seq:
                row |= dict.fromkeys(LATER)
        found[table] = rows
    return found


def tables_at(rows, instant_ms, *, live_by_cluster=True):
    """The tables and the live table at an instant, from silver's rows."""
    at = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=instant_ms)
    then = {
        table: [row for row in found if row["valid_from"] <= at and (row["valid_to"] is None or row["valid_to"] > at)]
        for table, found in rows.items()
    }
    tables = Tables()
    lives = LiveTable(tables, live_by_cluster=live_by_cluster)
    for row in then["queue_data"]:
        numbers = (row[name] for name in ("read_queue_nums", "write_queue_nums", "perm", "flag"))
        tables.set_queue_data(row["topic"], row["broker_name"], QueueData(*numbers))
    for row in then["mapping"]:
        tables.set_mapping(row["topic"], row["broker_name"], row["mapping"])
    for row in then["broker_row"]:
        tables.brokers[row["broker_name"]] = BrokerRow(row["cluster"], {}, row["zone"], row["acting"])
    for row in then["broker_addr"]:
        tables.brokers[row["broker_name"]].broker_addrs[row["broker_id"]] = row["addr"]
    for row in then["filter_server"]:
        tables.set_filter_servers(row["who"], row["filter_servers"])
    for row in then["cluster_member"]:
        tables.clusters.setdefault(row["cluster"], set()).add(row["broker_name"])
    for row in then["kv_namespace"]:
        tables.kv[row["kv_namespace"]] = {}
    for row in then["kv"]:
        tables.kv[row["kv_namespace"]][row["key"]] = row["value"]
    tables.config = {row["key"]: row["value"] for row in then["config"]}
    for row in then["live"]:
        info = LiveInfo(*(row[name] for name in LiveInfo._fields))
        lives.by_who.setdefault(row["who"], {})[row["broker_name"]] = info
    return tables, lives
