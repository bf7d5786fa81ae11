"""Those who ask and administrate: lookups at every front end, and writes of KV, permissions and settings."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from mqregistry.protocol.bodies.route import decode_route

from .model import KvModel, Line
from .wire import HungUp, Wire

if TYPE_CHECKING:
    from .world import World

KV_NAMESPACE = "campaign"
KV_KEYS = 6
SETTINGS = ("orderMessageEnable", "supportActingMaster", "returnOrderTopicConfigToBroker")


class Looker:
    """A client that asks one front end for routes, over one connection as long as it holds."""

    def __init__(self, world: World, index: int, seed: int) -> None:
        self.world, self.index, self.random = world, index, Random(seed)
        self.asked = 0

    async def run(self) -> None:
        while True:
            try:
                wire = await Wire.open(self.world.front_ends[self.index].port, timeout_s=3)
            except (OSError, TimeoutError):
                await asyncio.sleep(0.1)
                continue
            try:
                await self._ask_over(wire, Line(self.index))
            except HungUp:
                if wire.closed_at is not None:
                    self.world.hung_up(self.index, None, wire)
            except TimeoutError:
                self.world.unanswered(self.index, "a lookup")
            finally:
                wire.close()

    async def _ask_over(self, wire: Wire, line: Line) -> None:
        model = self.world.model
        end = time.monotonic() + self.random.uniform(3, 30)
        while time.monotonic() < end:
            choice = self.random.random()
            if choice < 0.1:
                topic = f"never-{self.random.randrange(5)}"
            elif choice < 0.3:
                topic = "common"
            else:
                known = [broker for broker in model.brokers.values() if broker.topics]
                topic = self.random.choice(list(self.random.choice(known).topics)) if known else "common"
            asked = time.monotonic()
            answer = await wire.ask(105, {"topic": topic})
            answered = time.monotonic()
            if answer.code == 1500:
                return
            self.asked += 1
            if answer.code not in (0, 1, 17) or (answer.code == 0 and topic.startswith("never-")):
                self.world.judged([f"fe{self.index} answered {topic} with code {answer.code}"])
            rows = decode_route(answer.body).broker_rows if answer.code == 0 else {}
            self.world.judged(model.judge_route(line, topic, asked, answered, answer.code, rows))
            await asyncio.sleep(0.04 * self.random.uniform(0.5, 1.5))


class Admin:
    """An administrator's tools: one write after the other, each at some front end."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.random = world, Random(seed)
        self.kv = KvModel(time.monotonic)
        self.settings = KvModel(time.monotonic, "setting")
        self.values = 0
        self.every_s = 0.5
        self.rests = False
        self.resting = asyncio.Event()
        self._held = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.every_s * self.random.uniform(0.5, 1.5))
            if self.rests:
                self.resting.set()
                continue
            if self._held:
                continue
            index = self.random.randrange(len(self.world.front_ends))
            await self.write_once(index)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Write nothing of its own accord for the length of a block."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    async def rest(self) -> None:
        """Write nothing more; returns when the last write is answered."""
        self.rests = True
        await self.resting.wait()

    async def write_once(self, index: int) -> None:
        choice = self.random.random()
        if choice < 0.6:
            await self.write_kv(index)
        elif choice < 0.7:
            key = self.random.choice(SETTINGS)
            await self.set_config(index, key, self.random.choice(("true", "false")))
        elif choice < 0.8:
            self.values += 1
            await self.set_config(index, "productEnvName", f"env{self.values}")
        elif choice < 0.9:
            name = self.random.choice(list(self.world.model.brokers.values())).name
            await self.ask(index, self.random.choice((205, 327)), {"brokerName": name})
        else:
            await self.ask(index, 216, {"topic": f"v-{self.random.randrange(6)}"})

    async def set_config(self, index: int, key: str, value: str) -> bool:
        """318; whether it was acknowledged."""
        sent = time.monotonic()
        acked = await self.ask(index, 318, None, f"{key}={value}\n".encode())
        self.settings.written(key, value, acked=acked, sent=sent)
        return acked

    async def write_kv(self, index: int, key: str = "", *, delete: bool | None = None) -> bool:
        """Put or delete one key; whether it was acknowledged."""
        key = key or f"key{self.random.randrange(KV_KEYS)}"
        if delete is None:
            delete = self.random.random() < 0.25
        ext = {"namespace": KV_NAMESPACE, "key": key}
        value = None
        if not delete:
            self.values += 1
            value = ext["value"] = f"value{self.values}"
        sent = time.monotonic()
        acked = await self.ask(index, 102 if delete else 100, ext)
        self.kv.written(key, value, acked=acked, sent=sent)
        return acked

    async def ask(self, index: int, code: int, ext: dict[str, str] | None, body: bytes = b"") -> bool:
        sent = time.monotonic()
        try:
            wire = await Wire.open(self.world.front_ends[index].port, timeout_s=3)
        except (OSError, TimeoutError):
            return False
        try:
            answer = await wire.ask(code, ext, body)
        except HungUp:
            return False
        except TimeoutError:
            self.world.unanswered(index, f"a request {code}")
            return False
        finally:
            wire.close()
        self.world.judge_write(index, answer, f"request {code}", sent)
        return answer.code == 0
