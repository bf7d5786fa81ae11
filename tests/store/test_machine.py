"""Random sequences of everything against a model of plain dictionaries.

HYPOTHESIS_PROFILE=long HYPOTHESIS_EXAMPLES=5000 pytest tests/store/test_machine.py -s   runs it for long.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import uvloop
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mqregistry.behaviour import FOUR_EIGHT
from mqregistry.events import changes as kinds
from mqregistry.events.changes import Change, Parts
from mqregistry.model import DataVersion, QueueData, Registration, who
from mqregistry.store import keys
from mqregistry.store.change_reader import ChangeReader
from mqregistry.store.restore_changes import Restorer
from mqregistry.store.route_writes import Channel, HeartbeatReply
from mqregistry.store.snapshot import read_head, read_tables
from mqregistry.store.store import Store
from mqregistry.tables.live_table import LiveTable
from mqregistry.tables.tables import Tables

from .bed import FrontEnd, Prepared, in_small_parts
from .consistent import assert_consistent
from .model import TIMEOUT_48, Model, Model48, Reg

CLUSTERS = st.sampled_from(["c1", "c2"])
NAMES = st.sampled_from(["a", "b"])
ADDRS = st.sampled_from(["1:1", "2:2", "3:3"])
IDS = st.sampled_from([0, 0, 1, 2])
TOPICS = ["t1", "t2", "t3", "t4"]
TOPIC = st.sampled_from(TOPICS)
QUEUES = st.tuples(st.sampled_from([4, 8]), st.just(8), st.sampled_from([2, 4, 6, 7]), st.sampled_from([0, 1]))
FRONT_ENDS = st.sampled_from(["fe1", "fe2"])
CONNECTIONS = st.sampled_from(["x", "y"])
# Steps of the clock are multiples of 40 s and timeouts lie half way between, so that the few real milliseconds
# that pass meanwhile never decide anything.
TIMEOUTS = st.sampled_from([20, 60, 100])
STEP_S = 40

# two topics or more are the rule: exactly one is refused for a new id
SEVERAL = st.dictionaries(TOPIC, QUEUES, min_size=2, max_size=4)
SOME = st.one_of(SEVERAL, SEVERAL, SEVERAL, st.dictionaries(TOPIC, QUEUES, max_size=2))

REGISTRATIONS = st.builds(
    Reg,
    cluster=CLUSTERS,
    name=NAMES,
    id=IDS,
    addr=ADDRS,
    topics=SOME,
    version=st.tuples(st.sampled_from([1, 2]), st.sampled_from([1, 1, 2]), st.sampled_from([0, 0, 1])),
    acting=st.sampled_from([None, True, False]),
    zone=st.sampled_from([None, None, "z"]),
    ha=st.sampled_from(["h1", "h1", "h2", None]),
    filters=st.sampled_from([None, [], ["f1"], ["f2", "f1"]]),
    timeout=TIMEOUTS,
    delete_missing=st.sampled_from([False, False, True]),
    mapping=st.sampled_from([None, None, ("t1", "m1"), ("t1", "m2")]),
)


def as_registration(reg: Reg) -> Registration:
    return Registration(
        reg.cluster, reg.name, reg.id, reg.addr, reg.ha, reg.zone, reg.acting, reg.timeout * 1000,
        DataVersion(*reg.version),
        {topic: QueueData(*data) for topic, data in reg.topics.items()},
        {} if reg.mapping is None else {reg.mapping[0]: (reg.name, reg.mapping[1])},
        reg.filters,
    )  # fmt: skip


def plain(tables: Tables) -> dict[str, Any]:
    """Tables in the model's terms."""
    found = tables.contents()
    found["topics"] = {
        topic: {name: msgspec.structs.astuple(data)[:4] for name, data in datas.items()}
        for topic, datas in tables.topics.items()
    }
    found["brokers"] = {
        name: (row.cluster, row.broker_addrs, row.zone_name, row.enable_acting_master)
        for name, row in tables.brokers.items()
    }
    return found


class RouteTableMachine(RuleBasedStateMachine):
    """Two front ends on one namespace, and a model that is told the same."""

    url: str
    compat = "5.x"
    model_of: type[Model] = Model
    on_the_way = Bundle("on_the_way")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self.run = self.runner.run
        self.namespace = secrets.token_hex(6)
        self.prefix = keys.prefix(self.namespace)
        self.store = Store(self.url, self.namespace, timeout_ms=30_000, compat=self.compat)
        in_small_parts(self.store, 2)
        self.run(self.store.init_namespace())
        self.model = self.model_of()
        self.workers = {name: FrontEnd(self.store, name, f"{name}.0") for name in ("fe1", "fe2")}
        # as the front end keeps it: the connection of each process' last registration
        self.owners: dict[str, dict[tuple[str, str], str]] = {"fe1": {}, "fe2": {}}
        for worker in self.workers.values():
            worker.default_timeout_ms = TIMEOUT_48 * 1000
        self.born = self.looks = 0
        self.last: dict[tuple[str, str, str], Reg] = {}  # of each process and name: what was accepted last
        self.known = 0
        self.reader, self.parts, self.replayed, self.seq = ChangeReader(self.store, "0-0"), Parts(), Tables(), 0
        self.told_lives = LiveTable(self.replayed, live_by_cluster=self.compat == "5.x")
        self.told_dead: set[str] = set()  # who counts as not alive though it stands somewhere
        self.before = self.visible()
        for front_end in self.workers:
            self.renew(front_end)

    def teardown(self) -> None:
        try:
            self.run(assert_consistent(self.store))
            self.everything_goes()
            self.run(assert_consistent(self.store, events=True))
        finally:
            self.run(self.store.client.delete(*self.run(self.store.client.keys(self.prefix + "*"))))
            self.run(self.store.close())
            self.runner.close()

    def who(self, reg: Reg) -> tuple[str, str]:
        return self.model.who(reg.cluster, reg.addr)

    # Registration

    def as_registration(self, reg: Reg) -> Registration:
        whole = as_registration(reg)
        return whole if self.compat == "5.x" else FOUR_EIGHT.seen(whole)

    def channel(self, front_end: str, connection: str) -> str:
        return self.workers[front_end].channel(connection).value

    def owns(self, front_end: str, whom: tuple[str, str], connection: str) -> None:
        self.owners[front_end][whom] = self.channel(front_end, connection)

    @rule(reg=REGISTRATIONS, front_end=FRONT_ENDS, connection=CONNECTIONS)
    def register(self, reg: Reg, front_end: str, connection: str) -> None:
        result = self.run(
            self.workers[front_end].register(
                self.as_registration(reg),
                connection=connection,
                delete_missing_topics=self.model.understood(reg).delete_missing,
            )
        )
        known = isinstance(result, HeartbeatReply)
        status = self.model.register(reg, front_end, self.channel(front_end, connection), known=known)
        self.check_answer(reg, result, status)
        self.owns(front_end, self.who(reg), connection)

    def somebody(self, data: st.DataObject) -> Reg:
        """The last registration of somebody, who may be gone since."""
        return data.draw(st.sampled_from([reg for _, reg in sorted(self.last.items())]))

    @precondition(lambda self: self.last)
    @rule(data=st.data(), front_end=FRONT_ENDS, connection=CONNECTIONS)
    def register_again(self, data: st.DataObject, front_end: str, connection: str) -> None:
        """The very same once more: usually, but not always, the heartbeat alone."""
        self.register(self.somebody(data), front_end, connection)

    @precondition(lambda self: self.last)
    @rule(data=st.data(), topics=SOME, step=st.integers(0, 2), front_end=FRONT_ENDS)
    def register_changed(self, data: st.DataObject, topics: dict[str, Any], step: int, front_end: str) -> None:
        """The same broker with some other topics, with a higher counter or with none."""
        self.register(self.changed(self.somebody(data), topics, step), front_end, "x")

    def changed(self, reg: Reg, topics: dict[str, Any], step: int) -> Reg:
        counter, *rest = reg.version
        return replace(reg, topics=reg.topics | topics, version=(counter + step, *rest))

    @rule(target=on_the_way, reg=REGISTRATIONS, front_end=FRONT_ENDS, connection=CONNECTIONS)
    def begin_registration(self, reg: Reg, front_end: str, connection: str) -> Any:
        """Its front end asks and compares, and is slow to send."""
        reg = replace(reg, delete_missing=False)
        live = self.model.lives.get(self.who(reg))
        n = live.n if live else None
        prepared = self.run(self.workers[front_end].prepare(self.as_registration(reg), connection=connection))
        if prepared.diff is None:
            status = self.model.register(reg, front_end, prepared.channel.value, known=True)
            self.check_answer(reg, prepared.heartbeat, status)
            self.owns(front_end, self.who(reg), connection)
        return reg, n, prepared, front_end, connection

    @precondition(lambda self: self.last)
    @rule(target=on_the_way, data=st.data(), topics=SOME, step=st.integers(0, 2), front_end=FRONT_ENDS)
    def begin_registration_of_somebody(
        self, data: st.DataObject, topics: dict[str, Any], step: int, front_end: str
    ) -> Any:
        return self.begin_registration(self.changed(self.somebody(data), topics, step), front_end, "y")

    @rule(late=consumes(on_the_way))
    def finish_registration(self, late: tuple[Reg, int | None, Prepared, str, str]) -> None:
        """It arrives, whatever happened since."""
        reg, n, prepared, front_end, connection = late
        if prepared.diff is None:
            return
        result = self.run(self.workers[front_end].send(prepared))
        status = self.model.register_late(reg, n, front_end, prepared.channel.value)
        self.check_answer(reg, result, status)
        self.owns(front_end, self.who(reg), connection)

    def check_answer(self, reg: Reg, result: Any, status: str) -> None:
        if isinstance(result, HeartbeatReply):
            assert result.same
            assert status == "OK"
        else:
            assert result.status == status
        if status == "OK":
            self.last[reg.cluster, reg.addr, reg.name] = reg
        if status in ("OK", "REFRESHED"):
            assert (result.master_addr, result.ha_server_addr) == self.model.master_of(reg)

    # Signs of life and their end

    @rule(
        cluster=CLUSTERS,
        addr=ADDRS,
        front_end=FRONT_ENDS,
        connection=CONNECTIONS,
        only=st.sampled_from([None, None, (1, 1, 0)]),
    )
    def touch(self, cluster: str, addr: str, front_end: str, connection: str, only: Any) -> None:
        """only: as 4.8, of which a sign of life is only what knows the version."""
        channel, whom = self.channel(front_end, connection), self.model.who(cluster, addr)
        touched = self.run(
            self.workers[front_end].routes.touch_broker(
                cluster, addr, Channel(front_end, channel), 1, only_version=only and DataVersion(*only)
            )
        )
        alive = self.model.alive(whom)
        assert touched.data_version == (DataVersion(*alive.version) if alive else None)
        assert touched.refreshed == self.model.touch(whom, front_end, channel, only)
        if touched.refreshed:
            self.owners[front_end].setdefault(whom, channel)

    @rule(cluster=CLUSTERS, addr=ADDRS, name=NAMES, front_end=FRONT_ENDS, broker_id=IDS)
    def unregister(self, cluster: str, addr: str, name: str, front_end: str, broker_id: int) -> None:
        self.run(self.workers[front_end].routes.unregister_broker(cluster, addr, name, broker_id))
        self.model.unregister(cluster, addr, name, broker_id)

    @precondition(lambda self: self.last)
    @rule(data=st.data(), front_end=FRONT_ENDS)
    def unregister_somebody(self, data: st.DataObject, front_end: str) -> None:
        reg = self.somebody(data)
        self.unregister(reg.cluster, reg.addr, reg.name, front_end, reg.id)

    @rule(cluster=CLUSTERS, addr=ADDRS, front_end=FRONT_ENDS, connection=CONNECTIONS, hung_up=st.booleans())
    def close(self, cluster: str, addr: str, front_end: str, connection: str, hung_up: bool) -> None:
        self.close_channel(self.model.who(cluster, addr), front_end, self.channel(front_end, connection), hung_up)

    def close_channel(self, whom: tuple[str, str], front_end: str, channel: str, hung_up: bool) -> None:
        routes, cause = self.workers[front_end].routes, "client" if hung_up else ""
        outcome = self.run(routes.channel_destroyed(who(*whom), Channel(front_end, channel), cause))
        assert outcome == self.model.close(whom, front_end, channel, hung_up=hung_up)
        if self.owners[front_end].get(whom) == channel:
            del self.owners[front_end][whom]

    @precondition(lambda self: any(self.model.channels.values()))
    @rule(data=st.data(), hung_up=st.booleans())
    def close_somebody(self, data: st.DataObject, hung_up: bool) -> None:
        """The channel of somebody's last registration."""
        known = sorted((w, fe, c) for w, channels in self.model.channels.items() for fe, c in channels.items())
        self.close_channel(*data.draw(st.sampled_from(known)), hung_up)

    # Time, sweepers and workers

    async def tell_seen(self) -> None:
        """Real milliseconds pass in a test: what the model calls watched is watched until now."""
        if self.model.seen == self.model.now:
            seconds, microseconds = await self.store.client.time()
            offset = int(await self.store.client.hget(self.prefix + "meta", "clock_offset_ms") or 0)
            await self.store.client.hset(
                self.prefix + "meta", "seen_ms", seconds * 1000 + microseconds // 1000 + offset
            )

    @rule(steps=st.integers(1, 3), watched=st.sampled_from([True, True, True, False]))
    def time_passes(self, steps: int, watched: bool) -> None:
        self.run(self.store.client.hincrby(self.prefix + "meta", "clock_offset_ms", steps * STEP_S * 1000))
        self.model.pass_time(steps * STEP_S, watched=watched)
        self.run(self.tell_seen())

    @rule(steps=st.integers(1, 4))
    def clock_steps_back(self, steps: int) -> None:
        self.run(self.store.client.hincrby(self.prefix + "meta", "clock_offset_ms", -steps * STEP_S * 1000))
        self.model.pass_time(-steps * STEP_S, watched=False)

    @rule(front_end=FRONT_ENDS)
    def sweep(self, front_end: str) -> None:
        self.run(self.tell_seen())
        whos: set[str] = set()
        while batch := self.run(self.workers[front_end].leases.expire(2, topics=3)).whos:
            whos.update(batch)
        # one that was spared may hide another behind it in a batch of two: until nobody is left who is due
        for _ in range(6):
            whos.update(self.run(self.workers[front_end].leases.expire(2, topics=3)).whos)
        assert whos == {who(*gone) for gone in self.model.expire()}

    @rule(front_end=FRONT_ENDS)
    def sweep_one(self, front_end: str) -> None:
        """The first who is due goes alone: others find the tables as they are between two batches."""
        self.run(self.tell_seen())
        due = {who(*whom): whom for whom in self.model.due()}
        whos, more = [], True
        while more and not whos:  # who was attached again is passed over
            found = self.run(self.workers[front_end].leases.expire(1, topics=2))
            whos, more = found.whos, found.more and bool(due)
        assert len(whos) == min(1, len(due))
        for one in whos:
            self.model.remove(due[one])

    @rule(front_end=FRONT_ENDS)
    def reap(self, front_end: str) -> None:
        self.run(self.tell_seen())
        while self.run(self.workers[front_end].leases.reap(2))[1]:
            pass
        self.model.reap()

    @rule(front_end=FRONT_ENDS)
    def worker_dies(self, front_end: str) -> None:
        """And another takes its place; its brokers find new connections, or do not."""
        worker = self.workers[front_end]
        self.run(self.store.client.delete(self.prefix + f"lease:{worker.incarnation}"))
        self.model.workers.discard(worker.incarnation)
        self.new_worker(front_end)

    def new_worker(self, front_end: str) -> None:
        self.owners[front_end].clear()
        self.born += 1
        self.workers[front_end].incarnation = f"{front_end}.{self.born}"
        self.renew(front_end)

    def renew(self, front_end: str) -> None:
        worker = self.workers[front_end]
        self.run(self.tell_seen())
        assert self.run(worker.leases.renew(worker.incarnation, 10**9)).lost
        self.model.workers.add(worker.incarnation)
        self.model.watch()

    @rule(front_end=FRONT_ENDS, reaped=st.booleans())
    def worker_is_paused(self, front_end: str, reaped: bool) -> None:
        """Its lease runs out; perhaps it is reaped; it comes back and attaches what it has."""
        worker = self.workers[front_end]
        self.run(self.store.client.delete(self.prefix + f"lease:{worker.incarnation}"))
        self.model.workers.discard(worker.incarnation)
        if reaped:
            self.reap(front_end)
        self.renew(front_end)
        owned = self.owners[front_end]
        self.run(worker.leases.attach(front_end, [(who(*whom), channel) for whom, channel in owned.items()]))
        for whom, channel in owned.items():
            if whom in self.model.lives:
                self.model.attach(whom, front_end, channel, only_if_none=True)

    @rule(front_end=FRONT_ENDS)
    def worker_drains(self, front_end: str) -> None:
        worker = self.workers[front_end]
        self.run(worker.leases.release(worker.incarnation))
        self.model.release(worker.incarnation)
        self.new_worker(front_end)

    # Administration

    @rule(name=NAMES, mode=st.sampled_from(["wipe", "add"]))
    def set_perm(self, name: str, mode: Any) -> None:
        assert self.run(self.workers["fe1"].routes.set_write_perm(name, mode))[1] == self.model.set_perm(name, mode)

    @rule(topic=TOPIC, cluster=st.sampled_from(["", "", "c1", "c2"]))
    def delete_topic(self, topic: str, cluster: str) -> None:
        self.run(self.workers["fe1"].routes.delete_topic(topic, cluster))
        self.model.delete_topic(topic, cluster)

    @precondition(lambda self: self.model.queues)
    @rule(data=st.data())
    def delete_a_topic_that_is_there(self, data: st.DataObject) -> None:
        topic, _ = data.draw(st.sampled_from(sorted(self.model.queues)))
        self.delete_topic(topic, "")

    @rule(topic=TOPIC, pairs=st.lists(st.tuples(NAMES, QUEUES), max_size=3))
    def register_topic(self, topic: str, pairs: list[tuple[str, Any]]) -> None:
        queue_datas = [(name, QueueData(*data)) for name, data in pairs]
        self.run(self.workers["fe2"].routes.register_topic(topic, queue_datas))
        self.model.register_topic(topic, pairs)

    @rule(
        what=st.sampled_from(["put", "put", "delete", "config"]),
        namespace=st.sampled_from(["n1", "n2"]),
        key=TOPIC,
        value=st.sampled_from(["v", "w", None]),
    )
    def change_kv_or_configuration(self, what: str, namespace: str, key: str, value: str | None) -> None:
        kv = self.workers["fe1"].kv
        if what == "put":
            self.run(kv.put(namespace, key, value))
            self.model.put_kv(namespace, key, value)
        elif what == "delete":
            self.run(kv.delete(namespace, key))
            self.model.delete_kv(namespace, key)
        else:
            self.run(kv.set_config({"key": str(value)}))
            self.model.config["key"] = str(value)

    @rule(kv=st.dictionaries(st.sampled_from(["n1", "n2"]), st.dictionaries(TOPIC, st.sampled_from(["v", "x"]))))
    def give_kv_back(self, kv: dict[str, dict[str, str]]) -> None:
        """A front end gives back what it knew."""
        for namespace, table in kv.items():
            self.known += 1
            gone = set(self.model.kv.get(namespace, {})) - set(table)
            status = self.run(self.give_back(namespace, table, gone))
            assert status == "OK"
            self.model.kv[namespace] = dict(table)

    @rule(topics=st.integers(1, 5))
    def tidy_topics(self, topics: int) -> None:
        self.run(self.workers["fe1"].leases.tidy_topics(topics, 0))

    async def give_back(self, namespace: str, table: dict[str, str], gone: set[str]) -> str:
        giver = Restorer(self.store, 0, self.known)
        assert await giver.begin() == "OK"
        seq = (await read_head(self.store)).seq
        return await giver.give(seq, "kv", namespace, table.items(), gone)

    # What always holds

    def visible(self) -> Any:
        """All that events tell of: tables, and of each process what a registration says of it."""
        lives = {
            w: (dict(live.names), live.version, live.timeout, live.ha, live.cluster)
            for w, live in self.model.lives.items()
        }
        return self.model.tables(), lives

    @initialize()
    def begin(self) -> None:
        self.before = self.visible()

    @invariant()
    def redis_tables_equal_the_model_and_the_stream_replays_to_them(self) -> None:
        head, tables = self.run(read_tables(self.store))
        expected = self.model.tables()
        assert plain(tables) == expected
        first = self.seq
        while changes := self.run(self.reader.read(block_ms=0)):
            for change in changes:
                assert change.seq == self.seq + 1, "a gap in seq"
                self.seq = change.seq
                for whole in self.parts.add(change):
                    self.replayed.apply(whole)
                    self.replay_live(whole)
        assert self.seq == head.seq
        assert self.seq == first or self.replayed_lives() == self.model_lives()
        assert self.replayed.contents() == tables.contents()
        assert self.replayed.config_rev == tables.config_rev
        after = self.visible()
        if after[0] != self.before[0]:
            assert self.seq > first, "a change that nobody was told of"
        elif after == self.before:
            assert self.seq == first, "an event though nothing changed"
        self.before = after

    def replay_live(self, change: Change) -> None:
        self.told_lives.apply(change)
        if isinstance(change, kinds.BrokerChange) and change.who is not None:
            self.told_dead.discard(change.who)
            if change.type != kinds.BrokerRegistered.type and change.who in self.told_lives.by_who:
                self.told_dead.add(change.who)

    def replayed_lives(self) -> dict[str, Any]:
        """What the events tell of each process: its cluster, names, data version, timeout and HA address."""
        found = {}
        for process, names in self.told_lives.by_who.items():
            ((cluster, timeout_ms, *version, ha),) = {
                (i.cluster, i.timeout_ms, i.counter, i.timestamp, i.state_version, i.ha) for i in names.values()
            }
            ids = {name: info.broker_id for name, info in names.items()}
            found[process] = (cluster, ids, None if process in self.told_dead else tuple(version), timeout_ms, ha)
        return found

    def model_lives(self) -> dict[str, Any]:
        return {
            who(*w): (live.cluster, live.names, live.version, live.timeout * 1000, live.ha)
            for w, live in self.model.lives.items()
        }

    @invariant()
    def every_queue_data_has_a_broker(self) -> None:
        for topic, name in self.model.queues:
            assert name in self.model.rows, topic

    @invariant()
    def every_key_agrees_with_every_other(self) -> None:
        """Looked at after every third step, and at the end: what a step breaks stays broken."""
        self.looks += 1
        if self.looks % 3 == 0:
            self.run(assert_consistent(self.store))

    @invariant()
    def live_table_deadlines_and_channels_equal_the_model(self) -> None:
        self.run(self.check_lives())

    async def check_lives(self) -> None:
        client = self.store.client
        found = sorted(key.decode().removeprefix(self.prefix) for key in await client.keys(self.prefix + "*"))
        hashes = [key for key in found if key.startswith(("live:", "channels:"))]
        sets = [key for key in found if key.startswith("held:")]
        pipeline = client.pipeline(transaction=False).time().hget(self.prefix + "meta", "clock_offset_ms")
        pipeline.zrange(self.prefix + "deadlines", 0, -1, False, True)
        pipeline.zrange(self.prefix + "disconnected", 0, -1, False, True)
        for key in hashes:
            pipeline.hgetall(self.prefix + key)
        for key in sets:
            pipeline.smembers(self.prefix + key)
        (seconds, _), offset, scores, lost, *values = await pipeline.execute()
        contents: dict[str, Any] = {}
        for key, value in zip(hashes + sets, values, strict=True):
            if isinstance(value, dict):
                contents[key] = {field.decode(): item.decode() for field, item in value.items()}
            else:
                contents[key] = {member.decode() for member in value}

        deadlines, disconnected = ({w.decode(): score for w, score in of} for of in (scores, lost))
        assert deadlines.keys() == {who(*w) for w in self.model.lives}, (
            "a live entry without a deadline, or one too many"
        )
        held: dict[str, set[str]] = {}
        for w, channels in self.model.channels.items():
            for channel in channels.values():
                held.setdefault(channel.split("/")[0], set()).add(who(*w))
        expected: dict[str, Any] = {f"held:{incarnation}": whos for incarnation, whos in held.items()}
        expected |= {f"channels:{who(*w)}": channels for w, channels in self.model.channels.items() if channels}
        assert {key: value for key, value in contents.items() if not key.startswith("live:")} == expected

        assert {key for key in contents if key.startswith("live:")} == {f"live:{who(*w)}" for w in self.model.lives}
        for w, live in self.model.lives.items():
            fields = contents[f"live:{who(*w)}"]
            names = {field[5:]: int(value) for field, value in fields.items() if field.startswith("name:")}
            version = tuple(int(fields[f]) for f in ("counter", "timestamp", "state_version") if f in fields)
            assert (names, version or None) == (live.names, live.version)
            assert self.model.who(fields["cluster"], fields["addr"]) == w
            assert fields["cluster"] == live.cluster
            assert (int(fields["timeout_ms"]), fields.get("ha")) == (live.timeout * 1000, live.ha)
            assert ("closed_at" in fields) == (live.closed is not None)
            if live.lost is not None:
                left_ms = disconnected[who(*w)] - seconds * 1000 - int(offset or 0)
                assert abs(left_ms - (live.lost - self.model.now) * 1000) < 15_000
            left_ms = deadlines[who(*w)] - seconds * 1000 - int(offset or 0)
            assert abs(left_ms - (live.deadline - self.model.now) * 1000) < 15_000

    def everything_goes(self) -> None:
        """Every broker says goodbye: no key is left but those that outlive brokers."""
        for name, row in list(self.model.rows.items()):
            for broker_id, addr in list(row.addrs.items()):
                self.unregister(row.cluster, addr, name, "fe1", broker_id)
        for cluster, addr in list(self.model.lives):
            for name in list(self.model.lives[cluster, addr].names):
                self.unregister(cluster, addr, name, "fe1", 0)
        assert not self.model.lives
        while self.run(self.workers["fe1"].leases.expire(1, topics=2)).more:
            pass
        while self.run(self.workers["fe1"].leases.tidy_topics(5, 0))[0]:
            pass
        self.redis_tables_equal_the_model_and_the_stream_replays_to_them()
        self.live_table_deadlines_and_channels_equal_the_model()
        keep = ("meta", "kv", "mapping", "config", "changes", "heartbeats", "lease")
        left = {key.decode().removeprefix(self.prefix) for key in self.run(self.store.client.keys(self.prefix + "*"))}
        assert [key for key in left if not key.startswith(keep)] == []


@pytest.mark.timeout(0)
@pytest.mark.parametrize(("compat", "model_of"), [("5.x", Model), ("4.8", Model48)], ids=["5.x", "4.8"])
def test_route_tables_behave_as_the_model(redis_url, compat, model_of):
    fields = {"url": redis_url, "compat": compat, "model_of": model_of}
    run_state_machine_as_test(type("RouteTableMachine", (RouteTableMachine,), fields))
