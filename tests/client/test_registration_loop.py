"""What one server is sent while several threads change the table: never a version before its topics."""

from __future__ import annotations

import asyncio
import sys
import threading
import time

import pytest

from mqregistry.client import TopicConfig, TopicTable
from mqregistry.client.broker.payload import PayloadBuilder
from mqregistry.client.broker.registration_loop import RegistrationLoop
from mqregistry.client.broker.target import RegistrationAnswer
from tests.waiting import until

from .registrar_bed import NEVER, broker, queue_datas


class Target:
    """A model of a name server: it reads topics that it has only with another version (docs/semantics.md 13)."""

    name = "model"
    generation = 1

    def __init__(self):
        self.on_lost = lambda: None
        self.version = None
        self.topics = {}
        self.registrations = []

    async def open(self):
        await asyncio.sleep(0)

    async def register(self, payload):
        await asyncio.sleep(0)
        (body,) = payload.bodies
        self.registrations.append(len(body.topics))
        for name, topic in body.topics.items():
            if body.data_version != self.version or name not in self.topics:
                self.topics[name] = topic
        self.version = body.data_version
        await asyncio.sleep(0)
        return RegistrationAnswer()

    def reset(self):
        raise AssertionError("nothing went wrong")


@pytest.fixture
def quick_switches():
    """Threads take turns much more often than they usually do."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("quick_switches")
async def test_threads_that_change_the_table_never_leave_a_topic_behind_its_version():
    for _ in range(5):
        table = TopicTable(TopicConfig(f"t{number}", 1, 1, 6) for number in range(60))
        target = Target()
        loop = RegistrationLoop(target, PayloadBuilder(table, broker()), broker, lambda: NEVER, lambda _: None)
        table.subscribe(loop.change)
        task = asyncio.create_task(loop.run())
        await until(lambda target=target: target.registrations, "the whole table is registered")

        def change(first, table=table):
            for nums in range(2, 60):
                table.put_topic(f"t{first + nums % 10}", nums, nums)
                time.sleep(0)  # lets the loop run in between

        threads = [threading.Thread(target=change, args=(first,)) for first in (0, 10, 20, 30)]
        for thread in threads:
            thread.start()
        await asyncio.to_thread(lambda threads=threads: [thread.join() for thread in threads])
        await until(lambda target=target, table=table: target.version == table.data_version, "it has the last version")
        await until(lambda loop=loop: not loop._changed, "nothing is due")
        await asyncio.sleep(0)
        assert target.topics == queue_datas(table)
        assert max(target.registrations[1:]) < 60, "changes are sent alone"
        task.cancel()
        await asyncio.wait([task])


class Interrupted(PayloadBuilder):
    """Another thread changes the table between the decision what to send and the payload, if it can."""

    change = None

    def increment(self, names):
        if self.change is not None:
            self.thread, self.change = threading.Thread(target=self.change), None
            self.thread.start()
            self.thread.join(0.1)  # it waits for the table's lock, and so for the end of this
        return super().increment(names)


async def test_a_change_between_the_decision_and_the_payload_waits_for_the_payload():
    table = TopicTable(TopicConfig(name, 1, 1, 6) for name in ("t1", "t2", "t3"))
    target, payloads = Target(), Interrupted(table, broker())
    loop = RegistrationLoop(target, payloads, broker, lambda: NEVER, lambda _: None)
    table.subscribe(loop.change)
    task = asyncio.create_task(loop.run())
    await until(lambda: target.registrations, "the whole table is registered")
    payloads.change = lambda: table.put_topic("t2", 2, 2)
    table.put_topic("t1", 2, 2)
    await until(lambda: len(target.registrations) == 3, "both changes are registered")
    await until(lambda: not payloads.thread.is_alive(), "the thread has ended")
    assert target.topics == queue_datas(table)
    assert target.registrations == [3, 1, 1]
    task.cancel()
    await asyncio.wait([task])
