"""Plays a plan against name servers.

Operations begin at their time. If an earlier operation is on the same process, brokerName or topic, an operation first
waits until every name server shows the effect of the earlier one. So the tables go through the planned states in the
planned order, even on a slow machine. Heartbeats change nothing and wait only for their process.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from typing import Final

from ..client.questions import ask_route
from ..errors import RegistryError
from ..protocol.codes import RequestCode
from ..tasks import wait_within
from .broker import REQUEST_TIMEOUT_S, Administrator, BrokerProcess, NotAsPlanned, SimulatedServer, Table, reconnecting
from .day import DayPlan, Op, OpKind

_FAULTS_KEPT: Final = 100
_LEAVE_WITHIN_S: Final = 10.0
TIMESTAMP: Final = 1_700_000_000_000  # the same in every data version; the counters differ


class Outcome:
    """The result of a run so far."""

    def __init__(self) -> None:
        self.done: Counter[OpKind] = Counter()  # operations that went as planned
        self.faults: list[str] = []  # a sentence on each of the first hundred operations that did not
        self.fault_count = 0
        self.lookups: Counter[tuple[str, bool]] = Counter()  # (topic, whether a route was found) -> answers
        self.late_ms = 0.0  # the longest time by which an operation began late
        self.is_complete = False  # the plan was played to its end

    def fault(self, text: str) -> None:
        """Record something that was not as planned."""
        self.fault_count += 1
        if len(self.faults) < _FAULTS_KEPT:
            self.faults.append(text)


class Simulation:
    """Plays one plan, once, at as many name servers as its shape says."""

    def __init__(self, plan: DayPlan, servers: list[SimulatedServer]) -> None:
        assert len(servers) == plan.shape.servers
        self.plan = plan
        self.outcome = Outcome()
        self.elapsed_ms = 0
        self._watcher = Administrator(servers)
        self._tables = {broker.name: Table(broker.topics, TIMESTAMP) for broker in plan.brokers}
        self._processes = {
            key: BrokerProcess(member, self._tables[key[0]], servers) for key, member in plan.members().items()
        }
        self._clients = [reconnecting(servers[number % len(servers)]) for number in range(plan.shape.clients)]
        self._always, self._never = set(plan.always), set(plan.never)
        self._last: dict[Hashable, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._first_starts: list[asyncio.Task[None]] = []

    async def run(
        self, stop: asyncio.Event | None = None, *, before_leaving: Callable[[], Awaitable[None]] | None = None
    ) -> Outcome:
        """Play the plan to its end, or until ``stop`` is set; then unregister every process that is registered.

        ``before_leaving``: awaited at the plan's end, while the brokers that stay registered are still connected.

        Raises:
            PeerUnavailable: a name server cannot be reached at the start.
        """
        stop = stop or asyncio.Event()
        try:
            await self._watcher.open()
            await self._play(stop)
            if before_leaving is not None and self.outcome.is_complete:
                await before_leaving()
        finally:
            await self._leave()
        return self.outcome

    @property
    def brokers_up(self) -> int:
        """How many processes are registered now."""
        return sum(process.is_registered for process in self._processes.values())

    async def _play(self, stop: asyncio.Event) -> None:
        started = time.monotonic()
        for op in self.plan.ops:
            wait_s = started + op.at_ms / 1000 - time.monotonic()
            if wait_s > 0:
                await wait_within(stop, wait_s)
            elif len(self._tasks) > 1000:
                await asyncio.sleep(0)  # late: let the operations that have begun go on first
            if stop.is_set():
                break
            self.elapsed_ms = op.at_ms
            self.outcome.late_ms = max(self.outcome.late_ms, -wait_s * 1000)
            self._begin(op)
        while self._tasks and not stop.is_set():
            await asyncio.wait([*self._tasks, waits := asyncio.ensure_future(stop.wait())],
                               return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
            waits.cancel()
        self.outcome.is_complete = not stop.is_set()

    def _begin(self, op: Op) -> None:
        keys = _order(op)
        before = {self._last[key] for key in keys if key in self._last}
        if op.kind is OpKind.LOOKUP:
            before.update(task for task in self._first_starts if not task.done())
        task = asyncio.create_task(self._perform(op, before))
        for key in keys:
            self._last[key] = task
        if op.kind is OpKind.START and op.at_ms <= self.plan.shape.started_ms:
            self._first_starts.append(task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _perform(self, op: Op, before: set[asyncio.Task[None]]) -> None:
        if before:
            await asyncio.wait(before)
        try:
            await self._do(op)
        except RegistryError as error:
            self.outcome.fault(f"{op.at_ms} ms, {op.kind} {op.broker or op.topic}: {error}")
        else:
            self.outcome.done[op.kind] += 1

    async def _do(self, op: Op) -> None:
        match op.kind:
            case OpKind.LOOKUP:
                await self._look_up(op)
            case OpKind.PUT_TOPIC | OpKind.DROP_TOPIC:
                self._tables[op.broker].change(op)
            case OpKind.DELETE_TOPIC:
                await self._watcher.administer(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": op.topic})
            case OpKind.WIPE:
                await self._watcher.administer(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": op.broker})
            case OpKind.ADD:
                await self._watcher.administer(RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": op.broker})
            case _:
                assert op.id is not None
                await self._do_process(op, self._processes[op.broker, op.id])

    async def _do_process(self, op: Op, process: BrokerProcess) -> None:
        match op.kind:
            case OpKind.START:
                await process.start()
            case OpKind.REGISTER:
                await process.register()
            case OpKind.BEAT | OpKind.ASK | OpKind.TOUCH:
                await process.beat(op.kind)
            case OpKind.SILENCE:
                pass  # no beats are planned until it is back
            case OpKind.EXPIRE:
                await self._watcher.until_gone(process.member)
                process.is_registered = False
                process.abort()
            case OpKind.CLOSE:
                await process.close()
                await self._watcher.until_gone(process.member)
            case OpKind.LEAVE:
                await process.leave()
                await self._watcher.until_gone(process.member)
            case OpKind.UNLINK:
                assert op.server is not None
                await process.unlink(op.server)
            case OpKind.RELINK:
                assert op.server is not None
                await process.relink(op.server)

    async def _look_up(self, op: Op) -> None:
        assert op.client is not None
        connection = await self._clients[op.client].connected(now=True)
        found = await ask_route(connection, op.topic, timeout_s=REQUEST_TIMEOUT_S) is not None
        self.outcome.lookups[op.topic, found] += 1
        if not found and op.topic in self._always:
            raise NotAsPlanned("no route, although a broker that is never away has this topic")
        if found and op.topic in self._never:
            raise NotAsPlanned("a route, although no broker has this topic")

    async def _leave(self) -> None:
        """Unregister all processes that are still registered and close every connection, however the run ended."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        left = [process for process in self._processes.values() if process.is_registered]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_WITHIN_S):
                await asyncio.gather(*(process.leave() for process in left), return_exceptions=True)
                await asyncio.gather(
                    self._watcher.close(), *(client.close() for client in self._clients), return_exceptions=True
                )
        for process in self._processes.values():
            process.abort()


def _order(op: Op) -> list[Hashable]:
    """The keys of an operation; it waits for the last earlier operation with each of these keys."""
    if op.kind is OpKind.LOOKUP:
        return [("client", op.client)]
    keys: list[Hashable] = [("process", op.broker, op.id)] if op.id is not None else []
    if op.kind not in (OpKind.BEAT, OpKind.ASK, OpKind.TOUCH, OpKind.SILENCE, OpKind.UNLINK, OpKind.RELINK):
        keys += [("broker", name) for name in op.brokers or (op.broker,)]
    if op.topic:
        keys.append(("topic", op.topic))
    return keys
