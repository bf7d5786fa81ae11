"""Simulated brokers: processes of one or more brokers that share one connection to each front end, and beat over it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from random import Random
from typing import TYPE_CHECKING

from mqregistry.protocol.bodies.route import decode_route
from tests.server.harness import Broker

from .model import BrokerState, Line
from .wire import HungUp, Wire

if TYPE_CHECKING:
    from .world import World

REFUSED_AFTER_S = 8.0
"""A write may be answered with 1 for so long after a disturbance."""


class Member:
    """One broker of a host. silent: it sends nothing, over connections that stay open."""

    def __init__(self, state: BrokerState, topics: list[str]) -> None:
        self.state = state
        self.sim = Broker(
            state.name, state.addr, broker_id=state.broker_id, cluster=state.cluster, topics=topics,
            heartbeatTimeoutMillis=str(int(state.timeout_s * 1000)), enableActingMaster="true",
        )  # fmt: skip
        self.sim.separators = (",", ":")  # as Java writes it, which large bodies are cut by
        self.silent = False
        self.in_flight = 0
        self.checked: set[str] = set()
        self._told: tuple[str, dict[str, str], bytes] = "", {}, b""

    @property
    def version(self) -> str:
        """Another one for each registration that differs from the last."""
        return f"{self.sim.counter} {self.state.cluster}"

    def registration(self) -> tuple[dict[str, str], bytes]:
        """Header and body of 103; written once, as large ones would take this process all its time."""
        if self._told[0] != self.version:
            self._told = self.version, *self.sim.registration()
        return self._told[1], self._told[2]

    @property
    def firm(self) -> list[str]:
        """Topics that this broker alone decides about: it registers them as a master, and nobody deletes them."""
        return [topic for topic in self.sim.topics if not topic.startswith("v-")] if self.state.broker_id == 0 else []

    def add_topics(self, topics: list[str]) -> None:
        self.sim.topics = {**dict.fromkeys(self.sim.topics, (4, 4, 6)), **dict.fromkeys(topics, (4, 4, 6))}
        self.sim.counter += 1

    def move(self, cluster: str) -> None:
        """It comes back under another cluster name, over the same connections."""
        self.state.cluster = self.sim.cluster = cluster
        self.state.moved_at = time.monotonic()
        self.sim.counter += 1

    def fall_silent(self) -> None:
        self.silent = True
        self.state.end(time.monotonic(), "silent")

    def wake(self) -> None:
        self.silent, self.state.ended = False, None


class Host:
    """One process.

    front_ends: those of its address list. held: those to which it says nothing for now. registered: those that have
    answered a registration with 0 over the connection that there is. apart: one operation alone decides what happens to
    it; the others do not choose it.
    """

    def __init__(
        self, world: World, name: str, members: list[Member], front_ends: tuple[int, ...], seed: int, *,
        period_s: float, apart: bool,
    ) -> None:  # fmt: skip
        self.world, self.name, self.members, self.front_ends = world, name, members, front_ends
        self.period_s, self.apart = period_s, apart
        self.random = Random(seed)
        self.closes_late_answers = self.random.random() < 0.5
        self.runs = True
        self.wires: dict[int, Wire] = {}
        self.held: set[int] = set()
        self.registered: set[int] = set()
        self._tasks = [asyncio.create_task(self._speak(index)) for index in front_ends]

    async def _speak(self, index: int) -> None:
        """Keep a connection to one front end, and beat over it."""
        while self.runs:
            if index in self.held:
                await asyncio.sleep(0.1)
                continue
            try:
                wire = await Wire.open(self.world.front_ends[index].port, timeout_s=3)
            except (OSError, TimeoutError):
                await asyncio.sleep(0.25)
                continue
            self.wires[index] = wire
            self.registered.discard(index)
            line = Line(index)
            try:
                await self._beat_over(index, wire, line)
            except HungUp:
                if wire.closed_at is not None:
                    self.world.hung_up(index, self, wire)
            except TimeoutError:
                self.world.unanswered(index, f"a request of {self.name}")
            if wire.is_open:
                self.close(index)
            await asyncio.sleep(0.05 + 0.3 * self.random.random())

    def close(self, index: int, *, reset: bool = False) -> None:
        """Close the connection to one front end: the registry may take that for the end of these brokers."""
        wire = self.wires.pop(index, None)
        if wire is None or not wire.is_open:
            return
        for member in self.members:
            member.state.may_be_gone(time.monotonic(), index)
        if reset:
            wire.drop()
        else:
            wire.close()

    async def _beat_over(self, index: int, wire: Wire, line: Line) -> None:
        registered: set[str] = set()
        while self.runs and wire.is_open:
            if index in self.held:
                await asyncio.sleep(0.02)
                continue
            began = time.monotonic()
            for member in list(self.members):
                if member.silent or not self.runs or index in self.held:
                    continue
                member.in_flight += 1
                try:
                    await self._beat(index, wire, line, member, registered)
                finally:
                    member.in_flight -= 1
                if wire.sent_away:
                    return
            pause_s = self.period_s * self.random.uniform(0.8, 1.2) - (time.monotonic() - began)
            end = time.monotonic() + max(0.05, pause_s)
            while self.runs and wire.is_open and time.monotonic() < end:  # noqa: ASYNC110 (three conditions)
                await asyncio.sleep(min(0.1, max(0.0, end - time.monotonic())))
        if wire.closed_at is not None:
            raise HungUp("hung up")

    async def _beat(self, index: int, wire: Wire, line: Line, member: Member, registered: set[str]) -> None:
        state, sent = member.state, time.monotonic()
        version = member.version
        if version not in registered or self.random.random() < 0.75:
            topics = member.firm
            ext, body = member.registration()
            answer = await wire.ask(103, ext, body)
            if answer.code == 0:
                registered.add(version)
                self.registered.add(index)
                if not member.silent:
                    state.acknowledged(sent, time.monotonic(), topics)
                if topics and (topics[-1] not in member.checked or self.random.random() < 0.2):
                    await self._look(index, wire, line, member, topics[-1])
        else:
            ext = {
                "clusterName": state.cluster, "brokerAddr": state.addr, "brokerName": state.name,
                "brokerId": str(state.broker_id),
            }  # fmt: skip
            version_body = b'{"counter":%d,"stateVersion":0,"timestamp":1700000000000}' % member.sim.counter
            code, body = (904, b"") if self.random.random() < 0.5 else (322, version_body)
            answer = await wire.ask(code, ext, body)
            if answer.code == 0:
                state.beaten(sent, time.monotonic())
        self.world.judge_write(index, answer, f"{state.uid} beat", sent)

    async def _look(self, index: int, wire: Wire, line: Line, member: Member, topic: str) -> None:
        """Its own topic, over the connection that has just acknowledged it."""
        state, life = member.state, member.state.life
        for last in (False, True):
            asked = time.monotonic()
            answer = await wire.ask(105, {"topic": topic})
            if answer.code == 1500:
                return
            rows = decode_route(answer.body).broker_rows if answer.code == 0 else {}
            self.world.judged(self.world.model.judge_route(line, topic, asked, time.monotonic(), answer.code, rows))
            there = state.name in rows and state.addr in rows[state.name].broker_addrs.values()
            if there:
                member.checked.add(topic)
            places = ("redis", "master", "clock", "peers", "loss", "load", f"fe{index}")
            quiet = self.world.timeline.is_quiet(asked - 4, time.monotonic(), places)
            lives = self.world.model.lives(state, time.monotonic()) and state.life == life
            if there or not lives or not quiet:
                return
            if last:
                self.world.judged(
                    [f"fe{index} acknowledged {topic} to {state.uid}, and answers it with code {answer.code} 1 s later"]
                )
            await asyncio.sleep(1.0)

    # how it ends

    async def crash(self, *, reset: bool = False) -> None:
        """The process is gone; its connections close."""
        self.runs = False
        for member in self.members:
            if not member.silent:
                member.state.end(time.monotonic(), "closed")
        for index in self.front_ends:
            self.close(index, reset=reset)
        await self.stop()

    async def leave(self) -> None:
        """Unregister (104) at every front end of its list, and end."""
        for member in self.members:
            if not member.silent:
                member.fall_silent()
        end = time.monotonic() + 1.5
        while any(member.in_flight for member in self.members) and time.monotonic() < end:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        calm = not any(member.in_flight for member in self.members)
        for member in self.members:
            state, taken = member.state, 0
            ext = {
                "clusterName": state.cluster, "brokerAddr": state.addr, "brokerName": state.name,
                "brokerId": str(state.broker_id),
            }  # fmt: skip
            for index in self.front_ends:
                wire = self.wires.get(index)
                with contextlib.suppress(OSError, TimeoutError):
                    if wire is not None and wire.is_open:
                        taken += (await wire.ask(104, ext, timeout_s=3)).code == 0
            if taken and calm:
                state.end(time.monotonic(), "unregistered")
        self.runs = False
        for index in self.front_ends:
            self.close(index)
        await self.stop()

    async def stop(self) -> None:
        self.runs = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for wire in self.wires.values():
            wire.close()
