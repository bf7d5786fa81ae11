"""Cancelled at any await, a registrar leaves no task and no socket behind."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from mqregistry.client.broker.registrar import BrokerRegistrar
from mqregistry.protocol.command import Command
from tests.waiting import until

from .interrupting import interrupted_at_each_await
from .ports import reserved_port
from .registrar_bed import NEVER, broker, name_servers, table


async def test_registering_changing_and_leaving():
    async with name_servers(2) as (first, second):

        async def scenario():
            topics = table()
            async with BrokerRegistrar(broker(), topics, f"{first.address};{second.address}", pace=NEVER) as registrar:
                topics.put_topic("t3")
                await registrar.register_now()

        assert await interrupted_at_each_await(scenario) > 20


async def test_name_servers_that_refuse_and_that_are_not_there():
    async with name_servers(1) as (server,):

        async def refuse(command):
            return Command(code=1, remark="not today")

        server.reply = refuse
        nobody = f"127.0.0.1:{reserved_port()}"

        async def scenario():
            config = broker(enable_slave_acting_master=True, broker_heartbeat_interval_ms=1)
            async with BrokerRegistrar(config, table("one"), f"{server.address};{nobody}", pace=NEVER):
                pass

        assert await interrupted_at_each_await(scenario) > 10


async def test_heartbeats_and_another_list_of_name_servers():
    async with name_servers(2) as (first, second):

        async def scenario():
            config = broker(enable_slave_acting_master=True, broker_heartbeat_interval_ms=1, force_register=False)
            async with BrokerRegistrar(config, table(), first.address, pace=NEVER) as registrar:
                registrar.use_name_servers(second.address)
                await until(lambda: second.address in registrar.results, "the other is registered at")
                await registrar.register_now()

        assert await interrupted_at_each_await(scenario) > 20


async def test_a_registrar_that_writes_to_redis(redis_url, namespace):
    async def scenario():
        topics = table()
        async with BrokerRegistrar(
            broker(), topics, transport="redis", redis=redis_url, namespace=namespace, create_namespace=True, pace=NEVER
        ) as registrar:
            topics.put_topic("t3")
            await registrar.register_now()

    assert await interrupted_at_each_await(scenario) > 20


async def test_the_harness_sees_what_is_left():
    kept = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        async def leaves_a_socket():
            _, writer = await asyncio.open_connection(*listener.getsockname())
            kept.append(writer)
            await asyncio.sleep(0)
            writer.close()

        async def leaves_a_task():
            kept.append(asyncio.ensure_future(asyncio.sleep(3600)))
            await asyncio.sleep(0)
            kept[-1].cancel()

        async def swallows():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
            await asyncio.sleep(0)

        async def raises():
            try:
                await asyncio.sleep(0)
            finally:
                raise ValueError("instead")

        for scenario, complaint in (
            (leaves_a_socket, "sockets left"),
            (leaves_a_task, "tasks left"),
            (swallows, "as if nothing had happened"),
        ):
            with pytest.raises(AssertionError, match=complaint):
                await interrupted_at_each_await(scenario, patience_s=0.2)
        with pytest.raises(ValueError, match="instead"):
            await interrupted_at_each_await(raises)
        for each in kept:
            each.cancel() if isinstance(each, asyncio.Future) else each.close()
        await asyncio.sleep(0)
