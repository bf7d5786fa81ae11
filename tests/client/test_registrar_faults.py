"""Registration that never stops and never lies: name servers that are away, slow, lie or hang up."""

from __future__ import annotations

import asyncio

import pytest

from mqregistry.client.addresses import NameServerAddresses
from mqregistry.client.broker.registrar import BrokerRegistrar, Pace, TopicTable
from mqregistry.model import TopicConfig
from mqregistry.protocol.bodies.wire_json import encode_data_version
from mqregistry.protocol.codes import VERSION_V4_8_0, Encoding, RequestCode
from mqregistry.protocol.command import Command
from tests.waiting import until

from .ports import reserved_port
from .registrar_bed import NEVER, SHORT, FakeNameServer, broker, name_servers, queue_datas, table

REGISTER = RequestCode.REGISTER_BROKER


def topics_of(body):
    return set(body.topics)


async def never(command):
    await asyncio.Event().wait()


async def test_a_server_that_does_not_answer_delays_no_other():
    async with name_servers(2) as (silent, good):
        silent.reply = never
        topics = table()
        config = broker(register_broker_timeout_ms=3000)
        async with BrokerRegistrar(config, topics, f"{silent.address};{good.address}", pace=NEVER) as registrar:
            assert registrar.results[good.address].status == "registered"
            assert registrar.results[silent.address].status == "failed"
            assert "no answer" in registrar.results[silent.address].error
            asked = asyncio.ensure_future(registrar.register_now())
            await until(lambda: len(silent.registrations) == 2, "the silent one was asked again")
            for number in range(5):
                topics.put_topic(f"new{number}")
                await until(lambda n=number: topics_of(good.registrations[-1][1]) == {f"new{n}"}, "the other goes on")
            assert not asked.done()
            await asked


async def test_a_server_that_came_to_hang_is_called_anew():
    """A connection whose other end vanished would be silent for ever."""
    async with (
        name_servers(1) as (server,),
        BrokerRegistrar(broker(), table(), server.address, pace=Pace(3600, 3600, 0.01)) as registrar,
    ):
        server.reply = never
        registrar.change(register_broker_timeout_ms=200)
        await registrar.register_now()
        assert registrar.results[server.address].failures >= 1
        server.reply = server.accept
        await until(lambda: registrar.results[server.address].ok, "it is registered over a new connection")
        assert server.connections > 1


async def test_all_away_for_long_and_back_on_other_addresses():
    async with name_servers(3) as (first, second, third):
        addresses = NameServerAddresses(f"{first.address};{second.address}")
        topics, told = table(), []
        async with BrokerRegistrar(broker(), topics, addresses, pace=SHORT, on_result=told.append) as registrar:
            await first.stop()
            await second.stop()
            await until(
                lambda: min(result.failures for result in registrar.results.values()) >= 20, "twenty attempts failed"
            )
            topics.put_topic("t3")  # meanwhile
            registrar.use_name_servers(third.address)
            await until(lambda: third.registrations, "the new one is registered at")
            assert topics_of(third.registrations[0][1]) == {"t1", "t2", "t3"}
            await until(lambda: list(registrar.results) == [third.address], "the old ones are forgotten")
            assert registrar.results[third.address].failures == 0
        assert {result.status for result in told} == {"registered", "failed"}
        assert third.came[-1].code == RequestCode.UNREGISTER_BROKER


async def test_a_server_that_was_restarted_gets_everything_long_before_the_period():
    async with (
        name_servers(1) as (server,),
        BrokerRegistrar(broker(), table(), server.address, pace=Pace(3600, 3600, 0.05)) as registrar,
    ):
        await server.stop()
        before = len(server.came)
        await until(lambda: not registrar.results[server.address].ok, "it is noticed")
        await server.start()
        await until(lambda: len(server.came) > before, "it is registered at again")
        assert topics_of(server.registrations[-1][1]) == {"t1", "t2"}


async def test_no_change_is_missed_behind_a_newer_version():
    """The one that was not answered goes out again with the next, be the server as new as it says it is."""
    async with name_servers(1) as (server,):
        topics = table()
        async with BrokerRegistrar(broker(), topics, server.address, pace=Pace(3600, 3600, 0.01)) as registrar:

            async def refuse(command):
                return Command(code=1, remark="try again")

            server.reply = refuse
            topics.put_topic("t3")
            await until(lambda: registrar.results[server.address].status == "refused", "it was refused")
            assert "code 1 (SYSTEM_ERROR): try again" in registrar.results[server.address].error
            server.reply, refused = server.accept, len(server.registrations)
            topics.put_topic("t4")

            def accepted() -> set[str]:
                return set().union(*(topics_of(body) for _, body in server.registrations[refused:]))

            # in one, or in two: the one that repeats what was refused may have been on its way
            await until(lambda: accepted() == {"t1", "t2", "t3", "t4"}, "everything has come")
            await until(lambda: registrar.results[server.address].ok, "it is registered")
            topics.put_topic("t5")
            await until(lambda: topics_of(server.registrations[-1][1]) == {"t5"}, "from then on what is new alone")


async def test_changes_while_a_registration_is_under_way_go_out_together_with_the_last_version():
    async with name_servers(1) as (server,):
        topics = table()
        async with BrokerRegistrar(broker(), topics, server.address, pace=NEVER):
            gate = asyncio.Event()

            async def wait(command):
                await gate.wait()
                return Command(ext_fields={})

            server.reply = wait
            topics.put_topic("t3")
            await until(lambda: len(server.registrations) == 2, "the first change is under way")
            topics.put_topic("t4")
            topics.put_topic("t5")
            topics.put_topic("t4", 1, 1)
            gate.set()
            await until(lambda: len(server.registrations) == 3, "the others follow")
            body = server.registrations[2][1]
            assert topics_of(body) == {"t4", "t5"}
            assert (body.topics["t4"].read_queue_nums, body.data_version) == (1, topics.data_version)


async def test_a_change_while_the_registration_after_a_failure_is_under_way_is_not_left_to_the_period():
    async with name_servers(1) as (server,):
        topics = table()

        async def refuse(command):
            return Command(code=1)

        async with BrokerRegistrar(broker(), topics, server.address, pace=Pace(3600, 3600, 0.01)) as registrar:
            server.reply = refuse
            assert not (await registrar.register_now())[server.address].ok
            gate = asyncio.Event()

            async def wait(command):
                await gate.wait()
                return Command(ext_fields={})

            server.reply = wait
            before = len(server.registrations)
            await until(lambda: len(server.registrations) > before, "it is tried again")
            topics.put_topic("t3")
            gate.set()
            await until(lambda: topics_of(server.registrations[-1][1]) == {"t3"}, "what changed meanwhile follows")


async def test_a_server_that_sends_clients_away_is_called_anew_at_once():
    async with name_servers(1) as (server,):
        topics = table()
        async with BrokerRegistrar(broker(), topics, server.address, pace=NEVER) as registrar:
            connections = server.connections

            async def go_away(command):
                if server.connections == connections:
                    return Command(code=1500, remark="please go away")
                return Command(ext_fields={})

            server.reply = go_away
            topics.put_topic("t3")
            await until(
                lambda: (
                    server.connections > connections and topics_of(server.registrations[-1][1]) == {"t1", "t2", "t3"}
                ),
                "it called anew, with all that it has",
            )
            await until(lambda: registrar.results[server.address].data_version == topics.data_version, "it is taken")
            assert registrar.results[server.address].ok


@pytest.mark.parametrize("garbage", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\4\x07\0\0\0", b"\xff" * 64])
async def test_what_is_no_name_server(garbage):
    async def serve(reader, writer):
        await reader.read(10)
        writer.write(garbage)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with BrokerRegistrar(broker(), table(), address, pace=SHORT) as registrar:
        await until(lambda: registrar.results[address].failures >= 3, "it is tried again and again")
        assert address in registrar.results[address].error
    server.close()


async def test_a_table_of_nonsense_in_an_answer_is_no_table():
    async with name_servers(1) as (server,):

        async def nonsense(command):
            return Command(ext_fields={"masterAddr": "m:1"}, body=b"\x00nonsense")

        server.reply = nonsense
        async with BrokerRegistrar(broker(), table(), server.address, pace=NEVER) as registrar:
            assert registrar.results[server.address].status == "registered"
            assert registrar.order_topic_config == {}


async def test_what_on_result_raises_stops_nothing(caplog):
    async with name_servers(1) as (server,):

        def fail(result):
            raise ZeroDivisionError

        async with BrokerRegistrar(broker(), table(), server.address, pace=SHORT, on_result=fail):
            await until(lambda: len(server.registrations) > 5, "it goes on")
    assert "ZeroDivisionError" in caplog.text


async def test_nobody_there_at_the_start_or_at_the_end():
    nobody = f"127.0.0.1:{reserved_port()}"
    async with BrokerRegistrar(broker(), table(), nobody, pace=NEVER) as registrar:
        result = registrar.results[nobody]
        assert (result.status, result.ok, result.failures) == ("failed", False, 1)
        assert nobody in result.error
    assert registrar.unregistered == {}


async def test_a_goodbye_that_is_not_heard_is_told_and_waited_for_no_longer_than_it_may():
    async with name_servers(2) as (silent, good):
        config = broker(unregister_timeout_ms=2000)
        async with BrokerRegistrar(config, table(), f"{silent.address};{good.address}", pace=NEVER) as registrar:
            silent.reply = never
    assert registrar.unregistered[good.address] == ""
    assert "no answer within 2 s" in registrar.unregistered[silent.address]
    assert len(good.requests(RequestCode.UNREGISTER_BROKER)) == 1


@pytest.mark.parametrize("version", [VERSION_V4_8_0, 513])
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("encoding", list(Encoding))
async def test_what_is_said(version, compressed, encoding):
    async with name_servers(1) as (server,):
        config = broker(
            version=version, compressed_register=compressed, encoding=encoding, zone_name="z",
            enable_slave_acting_master=version > VERSION_V4_8_0, broker_heartbeat_interval_ms=3_600_000,
            force_register=False,
        )  # fmt: skip
        topics = table()
        async with BrokerRegistrar(config, topics, server.address, pace=NEVER):
            pass
        register, goodbye = server.came
        header, body = server.registrations[0]
        assert {register.version, goodbye.version} == {version}
        assert {register.encoding, goodbye.encoding} == {encoding}
        assert (header.broker_name, header.broker_addr, header.cluster_name, header.broker_id) == (
            "broker-a", "127.0.0.1:10911", "c1", 0,
        )  # fmt: skip
        assert header.ha_server_addr == "127.0.0.1:10912"
        assert header.enable_acting_master is (True if version > VERSION_V4_8_0 else None)
        assert header.heartbeat_timeout_millis == (10_000 if version > VERSION_V4_8_0 else None)
        assert (header.compressed, header.zone_name) == (compressed, "z")
        assert (body.topics, body.data_version) == (queue_datas(topics), topics.data_version)
        assert goodbye.ext_fields == {
            "brokerName": "broker-a", "brokerAddr": "127.0.0.1:10911", "clusterName": "c1", "brokerId": "0",
        }  # fmt: skip


async def test_the_version_is_asked_for_but_not_over_a_new_connection():
    async with name_servers(1) as (server,):
        topics = table()

        async def known(command):
            if command.code != RequestCode.QUERY_DATA_VERSION:
                return Command(ext_fields={})
            return Command(ext_fields={"changed": "false"}, body=encode_data_version(topics.data_version))

        server.reply = known
        config = broker(force_register=False)
        async with BrokerRegistrar(config, topics, server.address, pace=SHORT) as registrar:
            await until(lambda: registrar.results[server.address].status == "unchanged", "322 says so")
            assert len(server.registrations) == 1
            server.hang_up()
            await until(lambda: len(server.registrations) == 2, "the server may have forgotten it")


async def test_a_split_registration_as_a_java_broker_sends_it():
    async with name_servers(1) as (server,):
        topics = table(*(f"t{number}" for number in range(6)))
        config = broker(enable_split_registration=True, split_registration_size=3)
        async with BrokerRegistrar(config, topics, server.address, pace=NEVER):
            bodies = [body for _, body in server.registrations]
        assert [topics_of(body) for body in bodies] == [{"t0", "t1", "t2"}, {"t3", "t4", "t5"}, set()]
        counters = [body.data_version.counter for body in bodies]
        assert counters == [counters[0], counters[0] + 1, counters[0] + 2]
        assert bodies[-1].data_version == topics.data_version


async def test_a_single_topic_that_was_refused_is_introduced():
    async with name_servers(1) as (server,):
        seen = set()

        async def as_5x(command):
            header, body = server.registrations[-1]
            if len(body.topics) == 1 and header.broker_addr not in seen:
                return Command(code=1, remark="register broker failed", ext_fields={})
            seen.add(header.broker_addr)
            return Command(ext_fields={})

        server.reply = as_5x
        async with BrokerRegistrar(broker(), table("only"), server.address, pace=NEVER, unregister=False) as registrar:
            assert registrar.results[server.address].status == "registered"
        versions = [body.data_version for _, body in server.registrations]
        assert [topics_of(body) for _, body in server.registrations] == [{"only"}, set(), {"only"}]
        assert versions[1] != versions[2]  # or a 4.8 name server would not look at the topic


async def test_a_table_that_no_frame_can_carry_says_what_to_do():
    async with name_servers(1) as (server,):
        topics = TopicTable(TopicConfig(f"{number:05}" + "x" * 250, 8, 8, 6) for number in range(27_000))
        async with BrokerRegistrar(broker(), topics, server.address, pace=NEVER) as registrar:
            assert registrar.results[server.address].status == "failed"
            assert "set enable_split_registration" in registrar.results[server.address].error
            registrar.change(enable_split_registration=True, split_registration_size=10_000)
            assert (await registrar.register_now())[server.address].status == "registered"


async def test_many_topics_changed_at_once_are_one_version_and_one_registration():
    async with name_servers(1) as (server,):
        topics = TopicTable()
        async with BrokerRegistrar(broker(), topics, server.address, pace=NEVER):
            before = topics.data_version.counter
            topics.put(*(TopicConfig(f"t{number}", 1, 1, 6) for number in range(100)))
            topics.put(TopicConfig("t1", 1, 1, 6))  # nothing new
            await until(lambda: len(server.registrations) == 2, "they were registered")
            assert len(server.registrations[1][1].topics) == 100
            assert topics.data_version.counter == before + 1


async def test_fakes_stop_with_their_connections():
    server = FakeNameServer()
    await server.start()
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    await until(lambda: server.connections == 1, "it came")
    await server.stop()
    writer.close()
