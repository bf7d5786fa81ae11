"""Reads that pass through are repeated at ours and compared; ours never holds anything up."""

from __future__ import annotations

import asyncio
import time

import pytest

from mqregistry.compare.judged_differences import Sort
from mqregistry.model import QueueData
from mqregistry.protocol.command import Command
from mqregistry.shadow.counts import JAVA, OURS, quantile_s
from tests.client.fake_name_server import never
from tests.waiting import until

READS = [(105, {"topic": "orders"}), (105, {"topic": "none"}), (106, None), (206, None), (319, None),
         (219, {"namespace": "n"})]  # fmt: skip


async def test_answers_are_javas_and_reads_are_repeated_with_what_they_had(bed):
    async with bed.open():
        client = await bed.client()
        for code, ext in READS:
            answer = await client.request(code, ext, version=401)
            assert answer.version == 479
        await client.request(105, {"topic": "orders", "AccessKey": "me", "Signature": "s"})
        await until(lambda: bed.repeated == 7, "all were repeated")
        await client.close()
    assert bed.counts.of("same") == 7
    assert [(one.code, one.version) for one in bed.ours.requests[:6]] == [(code, 401) for code, _ in READS]
    assert bed.ours.requests[6].ext_fields == {"topic": "orders", "AccessKey": "me", "Signature": "s"}
    assert bed.counts.took[JAVA].times == bed.counts.took[OURS].times == 7
    assert 0 < quantile_s(bed.counts.took[OURS], 0.5) < 1


async def test_writes_go_to_java_alone(bed):
    async with bed.open():
        client = await bed.client()
        for code in (100, 102, 103, 104, 205, 216, 217, 318, 322, 327, 904, 29105):
            await client.request(code, {"topic": "orders"})
        await client.oneway(105, {"topic": "orders"})
        await client.request(106)
        await until(lambda: bed.repeated == 1, "the read was repeated")
        await client.close()
    assert [one.code for one in bed.ours.requests] == [106]
    assert len(bed.java.requests) == 14


async def test_what_differs_counts_after_a_while_and_goes_when_it_is_mended(bed):
    bed.our_tables.set_queue_data("orders", "broker-a", QueueData(8, 8, 4))
    async with bed.open():
        client = await bed.client()
        await client.request(105, {"topic": "orders"})
        await until(lambda: bed.repeats.of(Sort.YOUNG), "it differs")
        await until(lambda: bed.repeats.of(Sort.COUNTED), "it lasts, for it is asked again")
        (one,) = bed.repeats.standing()
        assert (one.kind, one.name, one.part, one.at) == ("topic", "orders", "perm", "broker-a")
        assert one.told == {JAVA: "6 RW", OURS: "4 R"}
        bed.our_tables.set_queue_data("orders", "broker-a", QueueData(8, 8, 6))
        await until(lambda: not bed.repeats.standing(), "it is mended")
        await client.close()
    assert bed.counts.of("different") == 1


async def test_what_is_meant_is_no_difference(bed):
    bed.java.answer = bed.ours.answer = None

    def lists(addr):
        async def answer(request):
            return Command(code=0, body=b'{"brokerAddr":"%s","topicList":["c1"]}' % addr, version=479)

        return answer

    bed.java.answer, bed.ours.answer = lists(b"a:1"), lists(b"b:1")
    async with bed.open():
        client = await bed.client()
        await client.request(304)
        await until(lambda: bed.counts.of("meant") == 1, "it was compared")
        await client.close()
        assert [one.row for one in bed.repeats.of(Sort.MEANT)] == ["D7"]


@pytest.mark.parametrize("ours", ["hangs", "away", "slow", "nonsense"])
async def test_ours_holds_nobody_up(bed, ours):
    async def slow(request):
        await asyncio.sleep(4.8)

    async def nonsense(request):
        return Command(code=0, body=b"\xff{nonsense", version=513)

    async with bed.open(timeout_s=5.0):
        if ours == "away":
            await bed.ours.stop()
        else:
            bed.ours.answer = {"hangs": never, "slow": slow, "nonsense": nonsense}[ours]
        client = await bed.client()
        slowest_s = 0.0
        for _ in range(300):
            began_s = time.perf_counter()
            assert (await client.request(105, {"topic": "orders"})).code == 0
            slowest_s = max(slowest_s, time.perf_counter() - began_s)
        assert slowest_s < 4.5
        await until(lambda: bed.counts.failed or bed.counts.of("different"), "ours was asked")
        assert bool(bed.repeats.away) == (ours != "nonsense")
        await client.close()


async def test_more_reads_than_may_be_repeated_are_counted_and_passed_on(bed):
    async with bed.open(most_per_s=5):
        client = await bed.client()
        began_s = time.perf_counter()
        await asyncio.gather(*(client.request(105, {"topic": "orders"}) for _ in range(200)))
        await until(lambda: bed.repeated + bed.counts.skipped == 200, "all are counted")
        took_s = time.perf_counter() - began_s
        await client.close()
    assert 5 <= bed.repeated <= 5 * (took_s + 3)


async def test_a_connection_that_speaks_something_else_is_counted_once(bed):
    async with bed.open():
        _, writer = await asyncio.open_connection("127.0.0.1", bed.relay.port)
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        await until(lambda: bed.counts.unreadable_connections, "it is read")
        writer.close()
        await until(lambda: not bed.relay.open, "it is closed")
    assert (bed.counts.unreadable_connections, bed.relay.deaf) == (1, 0)
