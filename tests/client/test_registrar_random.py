"""Whatever happens on the way, in the end each name server has exactly the table: random faults, by seed.

The name server here is a model of RouteInfoManager.registerBroker: topics count with another DataVersion than the
one it has, or (5.x) where it has none; a broker goes with the connection that it registered over. There is no period:
what goes wrong must be put right by what the registrar notices itself.
MQREGISTRY_REGISTRAR_SEEDS sets how many seeds are run.
"""

from __future__ import annotations

import asyncio
import os
import random

import pytest

from mqregistry.client.broker.registrar import BrokerRegistrar, Pace
from mqregistry.protocol.codes import RequestCode
from mqregistry.protocol.command import Command
from mqregistry.protocol.headers import RegisterBroker
from tests.protocol.at_once import decode_register_body
from tests.waiting import until

from .registrar_bed import FakeNameServer, broker, queue_datas, table

SEEDS = int(os.environ.get("MQREGISTRY_REGISTRAR_SEEDS", "12"))


class NameServer(FakeNameServer):
    """A model of one, with faults to come."""

    def __init__(self, restores: bool) -> None:
        super().__init__()
        self.restores = restores  # 5.x
        self.version = None
        self.topics = {}
        self.faults: list[str] = []
        self.reply = self.serve

    async def serve(self, command: Command) -> Command | None:
        fault = self.faults.pop() if self.faults else ""
        if fault == "refuse":
            return Command(code=1, remark="not now")
        if fault == "hang up":
            self.hang_up()
        if fault == "lose":  # before it took effect
            return await asyncio.Event().wait()
        if command.code == RequestCode.REGISTER_BROKER and fault != "hang up":
            header = RegisterBroker.from_ext_fields(command.ext_fields)
            body = decode_register_body(command.body, compressed=header.compressed, version=command.version)
            if self.restores and self.version is None and len(body.topics) == 1:
                return Command(code=1, remark="register broker failed")
            for name, topic in body.topics.items():
                if self.version != body.data_version or (self.restores and name not in self.topics):
                    self.topics[name] = topic
            self.version = body.data_version
        if fault == "slow":  # to answer: an old request that took effect late is what periods are for
            await asyncio.sleep(random.uniform(0.0, 0.1))
        if fault == "lose answer":
            return await asyncio.Event().wait()
        return Command(ext_fields={})

    def closed(self) -> None:
        """The broker's connection is gone."""
        if not self._writers:
            self.version, self.topics = None, {}


@pytest.mark.parametrize("restores", [True, False], ids=["5.x", "4.8"])
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_all_name_servers_have_the_table_in_the_end(seed, restores):
    choose = random.Random(seed)
    servers = [NameServer(restores) for _ in range(2)]
    for server in servers:
        await server.start()
    topics = table(*(f"t{n}" for n in range(choose.randint(1, 4))))
    config = broker(
        register_broker_timeout_ms=150, compressed_register=choose.random() < 0.3,
        incremental_register=choose.random() < 0.8,
        enable_split_registration=choose.random() < 0.2, split_registration_size=2,
    )  # fmt: skip
    pace = Pace(3600, 3600, 0.01)
    addresses = ";".join(server.address for server in servers)
    try:
        async with BrokerRegistrar(config, topics, addresses, pace=pace, unregister=False) as registrar:
            for _ in range(choose.randint(5, 25)):
                server = choose.choice(servers)
                match choose.randint(0, 5):
                    case 0 | 1:
                        topics.put_topic(f"t{choose.randint(0, 6)}", choose.randint(1, 9), 1, choose.choice([4, 6]))
                    case 2:
                        server.faults.append(choose.choice(["refuse", "lose", "lose answer", "slow", "hang up"]))
                    case 3:
                        server.hang_up()
                    case 4:
                        await server.stop()
                        await server.start()
                    case 5:
                        await asyncio.sleep(choose.uniform(0.0, 0.03))
            for server in servers:
                server.faults.clear()

            def settled():
                return all(
                    registrar.results[server.address].ok and server.topics == queue_datas(topics) for server in servers
                )

            try:
                await until(settled, "every server has the table")
            except AssertionError:
                found = [(registrar.results[one.address], one.version, one.topics) for one in servers]
                raise AssertionError(f"{topics.data_version}, {dict(topics)}; but: {found}") from None
            await asyncio.sleep(0)
            assert settled()
    finally:
        for server in servers:
            await server.stop()
