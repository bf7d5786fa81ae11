"""Writes the day of a plan into Redis as a past day, with the scripts that front ends call.

No name server runs, and no operation waits for its time: operations follow each other in the plan's order. Before each
operation the clock of the namespace is set to the operation's time, so that events and heartbeats have the times of a
whole day. The clock never goes back. The entries name two front ends that do not exist.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from ..follow.follow import Follow
from ..model import QueueData, Registration
from ..store.leases import LeaseStore, opened_now
from ..store.route_writes import Channel, RouteStore
from ..store.snapshot import read_tables
from ..store.store import Store
from ..store.streams import StreamStore, lookup_entries
from ..tables.pick_up_route import pick_up_route
from ..tables.registration import compare
from ..tables.tables import Tables
from .broker import NotAsPlanned, Table
from .day import DayPlan, Member, Op, OpKind
from .run import TIMESTAMP, Outcome

HEARTBEATS_KEPT: Final = 400_000
"""The default limit of the stream, before a sweeper sets one (lua/include/open)."""

LOOKUPS_WRITTEN_MS: Final = 60_000


class PastDay:
    """Writes one plan, once, into a new namespace that nobody else uses meanwhile.

    The end of the day is the moment at which the writing begins.
    """

    def __init__(self, plan: DayPlan, store: Store) -> None:
        self.plan = plan
        self.outcome = Outcome()
        self.elapsed_ms = 0
        self._store = store
        self._routes, self._leases, self._streams = RouteStore(store), LeaseStore(store), StreamStore(store)
        self._members = plan.members()
        self._tables = {broker.name: Table(broker.topics, TIMESTAMP) for broker in plan.brokers}
        self._channels: defaultdict[tuple[str, int], dict[int, Channel]] = defaultdict(dict)
        self._connections = self._reports = 0
        self._asked: list[tuple[Counter[str], Counter[str]]] = [
            (Counter(), Counter()) for _ in range(plan.shape.servers)
        ]
        self._known, self._behind = Tables(), False

    @property
    def brokers_up(self) -> int:
        """How many processes are registered now."""
        return sum(bool(channels) for channels in self._channels.values())

    async def run(
        self, stop: asyncio.Event | None = None, *, before_leaving: Callable[[], Awaitable[None]] | None = None
    ) -> Outcome:
        """Write the plan to its end; if ``stop`` is set earlier, every process that is registered then unregisters.

        ``before_leaving``: awaited at the plan's end.

        Raises:
            StoreUnavailable, StoreError: from Redis. StreamGap: changes are missing, perhaps because somebody else uses
                the namespace.
        """
        head, self._known = await read_tables(self._store)
        self._follow = Follow.behind(self._store, head)
        self._begun_s, self._now_ms, self._offset_ms = time.monotonic(), head.now_ms, -self.plan.shape.duration_ms
        for op in self.plan.ops:
            if stop is not None and stop.is_set():
                break
            if op.at_ms // LOOKUPS_WRITTEN_MS > self.elapsed_ms // LOOKUPS_WRITTEN_MS:
                await self._write_lookups(op.at_ms // LOOKUPS_WRITTEN_MS * LOOKUPS_WRITTEN_MS)
            self.elapsed_ms = op.at_ms
            if op.kind is not OpKind.LOOKUP:
                await self._set_clock(op.at_ms)
            self._behind |= op.kind not in (OpKind.LOOKUP, OpKind.BEAT, OpKind.ASK, OpKind.TOUCH)
            try:
                await self._do(op)
            except NotAsPlanned as error:
                self.outcome.fault(f"{op.at_ms} ms, {op.kind} {op.broker or op.topic}: {error}")
            else:
                self.outcome.done[op.kind] += 1
        else:
            self.outcome.is_complete = True
        await self._write_lookups(self.elapsed_ms)
        if before_leaving is not None and self.outcome.is_complete:
            await before_leaving()
        for (broker, number), channels in self._channels.items():
            if channels and not self.outcome.is_complete:
                await self._leave(self._members[broker, number])
        for server in range(self.plan.shape.servers):
            await self._leases.release(_incarnation(server))
        await self._store.move_clock(0)
        return self.outcome

    async def _set_clock(self, at_ms: int) -> None:
        """Set the namespace's clock to a time of the day, and note that Redis heard brokers until then."""
        passed_ms = int((time.monotonic() - self._begun_s) * 1000)
        self._offset_ms = max(self._offset_ms, at_ms - self.plan.shape.duration_ms - passed_ms)
        await self._store.move_clock(self._offset_ms, seen_ms=self._now_ms + passed_ms + self._offset_ms)

    async def _do(self, op: Op) -> None:
        match op.kind:
            case OpKind.LOOKUP:
                await self._look_up(op)
            case OpKind.PUT_TOPIC | OpKind.DROP_TOPIC:
                self._tables[op.broker].change(op)
            case OpKind.DELETE_TOPIC:
                await self._routes.delete_topic(op.topic)
            case OpKind.WIPE:
                await self._routes.set_write_perm(op.broker, "wipe")
            case OpKind.ADD:
                await self._routes.set_write_perm(op.broker, "add")
            case _:
                assert op.id is not None
                await self._do_process(op, self._members[op.broker, op.id])

    async def _do_process(self, op: Op, member: Member) -> None:
        channels = self._channels[member.broker, member.id]
        match op.kind:
            case OpKind.START:
                for server in range(self.plan.shape.servers):
                    self._connect(channels, server)
                await self._register(member, channels.values())
            case OpKind.REGISTER | OpKind.BEAT:
                await self._register(member, channels.values())
            case OpKind.ASK | OpKind.TOUCH:
                for channel in channels.values():
                    if not (await self._routes.touch_broker(member.cluster, member.addr, channel)).refreshed:
                        raise NotAsPlanned("the process is not known")
            case OpKind.EXPIRE:
                gone = (await self._leases.expire(1000)).whos
                if gone != [member.who]:
                    raise NotAsPlanned(f"{gone or 'nobody'} expired, expected {member.who}")
                channels.clear()
            case OpKind.CLOSE:
                for server in list(channels):
                    await self._disconnect(member, server)
            case OpKind.LEAVE:
                await self._leave(member)
            case OpKind.UNLINK:
                assert op.server is not None
                await self._disconnect(member, op.server)
            case OpKind.RELINK:
                assert op.server is not None
                self._connect(channels, op.server)
                await self._register(member, [channels[op.server]])

    def _connect(self, channels: dict[int, Channel], server: int) -> None:
        self._connections += 1
        channels[server] = Channel(_front_end(server), f"{_incarnation(server)}/{self._connections}{opened_now()}")

    async def _disconnect(self, member: Member, server: int) -> None:
        channel = self._channels[member.broker, member.id].pop(server)
        await self._routes.channel_destroyed(member.who, channel)

    async def _leave(self, member: Member) -> None:
        await self._routes.unregister_broker(member.cluster, member.addr, member.broker, member.id)
        self._channels[member.broker, member.id].clear()

    async def _register(self, member: Member, channels: Iterable[Channel]) -> None:
        """Do the same as a front end for a registration (103)."""
        table = self._tables[member.broker]
        digest, size = f"simulated {table.version.counter}", len(table.topics)
        for channel in channels:
            beat = await self._routes.heartbeat(
                member.cluster, member.broker, member.id, member.addr, digest, channel, size
            )
            if beat.same:
                continue
            await self._catch_up()
            registration = _registration(member, table)
            diff = compare(registration, beat.data_version, self._known, epoch=self._follow.epoch, n=beat.n)
            done = await self._routes.register_broker(
                registration, diff, digest=digest, channel=channel, body_bytes=size
            )
            self._behind = True
            if done.status != "OK":
                raise NotAsPlanned(f"the registration is {done.status}: does somebody else use this namespace?")

    async def _catch_up(self) -> None:
        """Apply to the known tables what was changed since."""
        while self._behind and (changes := await self._follow.read(block_ms=0)):
            for change in changes:
                for whole in self._follow.whole(change):
                    self._known.apply(whole)
        self._behind = False

    async def _look_up(self, op: Op) -> None:
        assert op.client is not None
        await self._catch_up()
        found = pick_up_route(self._known, op.topic) is not None
        self._asked[op.client % self.plan.shape.servers][not found][op.topic] += 1
        self.outcome.lookups[op.topic, found] += 1

    async def _write_lookups(self, at_ms: int) -> None:
        if not any(map(any, self._asked)):
            return
        await self._set_clock(at_ms)
        self._reports += 1
        for server, (found, missing) in enumerate(self._asked):
            entries = lookup_entries(found, missing)
            incarnation = _incarnation(server)
            await self._streams.write_lookups(
                _front_end(server), incarnation, self._reports, LOOKUPS_WRITTEN_MS, entries
            )
            found.clear()
            missing.clear()


def _front_end(server: int) -> str:
    return f"simulated-{server + 1}"


def _incarnation(server: int) -> str:
    return f"simulated-{server + 1}.0"


def _registration(member: Member, table: Table) -> Registration:
    host, _, port = member.addr.rpartition(":")
    return Registration(
        cluster=member.cluster, broker_name=member.broker, broker_id=member.id, broker_addr=member.addr,
        ha_server_addr=f"{host}:{int(port) + 1}", enable_acting_master=True if member.acting else None,
        heartbeat_timeout_ms=member.timeout_ms, data_version=table.version,
        topics={name: QueueData(*queues) for name, queues in table.topics.items()}, filter_servers=[],
    )  # fmt: skip
