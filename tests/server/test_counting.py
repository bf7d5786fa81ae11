"""What a worker counts and times: requests by code and result, closed connections by reason, a sample of lookups."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time

import pytest

from bench.costs.hotpath import TOPIC, connection, filled_view
from bench.load.plan import lookup
from bench.load.shapes import VERSION
from mqregistry.histograms import BOUNDS_S, DurationHistogram, add_up
from mqregistry.protocol.codes import Encoding, ResponseCode
from mqregistry.server.counting.counters import Closed, Counters, code_of
from mqregistry.server.counting.lookup_samples import Sample, sample_next
from mqregistry.server.requests.replies import Replies

from .harness import Broker
from .serving import Serving


def requests_of(counters):
    return {name: n for name, n in counters.report().items() if name.startswith("requests_total") and n}


@pytest.mark.parametrize("encoding", Encoding)
@pytest.mark.parametrize("code", ResponseCode)
def test_the_code_of_a_reply_is_read_from_its_bytes(encoding, code):
    replies = Replies(513, "faq", encoding)
    assert code_of(replies.reply(7, code, "a remark", {"a": "b"}, b"body")) == code
    assert code_of(replies.go_away.reply(2**31 - 1)) == ResponseCode.GO_AWAY


def test_durations_fall_into_the_buckets_whose_bound_they_do_not_exceed():
    durations = DurationHistogram()
    for seconds in (0.0, BOUNDS_S[0], 0.02, 0.025, 99.0):
        durations.add(seconds)
    found = {(*BOUNDS_S, "more")[place]: n for place, n in enumerate(durations.counts) if n}
    assert found == {BOUNDS_S[0]: 2, 0.025: 2, "more": 1}
    assert durations.total_s == pytest.approx(99.04501)
    both = add_up([{"a": durations.told()}, {"a": durations.told(), "b": durations.told()}])
    assert (sum(both["a"][0]), both["b"]) == (10, (durations.counts, durations.total_s))


def test_codes_and_results_that_nobody_knows_are_other():
    replies, counters = Replies(513, "faq"), Counters()
    for code in (4711, 4712):
        counters.answered(code, replies.reply(1, ResponseCode.REQUEST_CODE_NOT_SUPPORTED))
    counters.answered(106, replies.reply(1, 999))
    assert requests_of(counters) == {
        'requests_total{code="other",result="request_code_not_supported"}': 2,
        'requests_total{code="106",result="other"}': 1,
    }  # fmt: skip


async def test_lookups_are_counted_once_whether_they_are_known_or_not():
    one = connection(filled_view())
    for topic in (TOPIC, TOPIC, TOPIC, TOPIC, "none"):
        one.data_received(lookup(topic, VERSION))
    assert one._context.counters.lookups_known > 0
    assert requests_of(one._context.counters) == {
        'requests_total{code="105",result="success"}': 4,
        'requests_total{code="105",result="topic_not_exist"}': 1,
    }  # fmt: skip


async def test_a_sample_times_one_lookup_and_leaves_the_next_ones_alone():
    one = connection(filled_view())
    counters, frame = one._context.counters, lookup(TOPIC, VERSION)
    lookups = counters.durations["lookup"]
    for known in (False, False, True):  # decoded twice, then known by its bytes
        before, cache = counters.lookups_known, one.known
        sample_next(one, counters)
        sample_next(one, counters)  # armed already
        assert isinstance(one.known, Sample)
        times = lookups.times
        one.data_received(frame)
        assert one.known is cache
        one.data_received(lookup("none", VERSION))
        assert (counters.lookups_known > before) is known
        await asyncio.sleep(0)
        assert lookups.times == times + 1
    assert lookups.total_s < 60


async def test_what_is_no_lookup_is_no_sample():
    one = connection(filled_view())
    counters = one._context.counters
    other = lookup(TOPIC, VERSION).replace(b'"code":105', b'"code":106')
    one._transport.close = lambda: None
    for data in (other, lookup(TOPIC, VERSION) * 2, b"\0\0\0\2"):
        sample_next(one, counters)
        one.data_received(data)
        await asyncio.sleep(0)
    assert counters.durations["lookup"].times == 0
    assert not isinstance(one.known, Sample)
    assert counters.durations["read"].times == 1


async def test_a_sample_does_not_put_back_a_cache_that_was_taken_away_meanwhile():
    one = connection(filled_view())
    sample_next(one, one._context.counters)
    armed, one.known = one.known, one._connections._unknown
    assert armed.answer(lookup(TOPIC, VERSION), set()) is None
    assert one.known is one._connections._unknown


async def test_every_tick_arms_some_of_the_connections_that_are_in_use(monkeypatch):
    monkeypatch.setattr("mqregistry.server.net.connections._TICK_S", 0.01)
    monkeypatch.setattr("mqregistry.server.net.connections.AT_A_TIME", 1)
    one = connection(filled_view())
    one._transport.get_write_buffer_size = lambda: 0
    one._context.watches.expire = lambda now: None
    connections = one._connections
    ticking = asyncio.create_task(connections.tick())
    lookups = one._context.counters.durations["lookup"]
    async with asyncio.timeout(20):
        while lookups.times < 3:
            one.data_received(lookup(TOPIC, VERSION))
            await asyncio.sleep(0.001)
    ticking.cancel()


async def test_the_first_reason_for_which_a_connection_closes_counts():
    one = connection(filled_view())
    one._transport.close = one._transport.abort = lambda: None
    one._context.watches.gone = lambda connection: None
    one.close(Closed.IDLE, "idle")
    one.abort(Closed.SLOW_CLIENT, "and it does not read")
    one.connection_lost(None)
    assert {reason: n for reason, n in one._context.counters.closed.items() if n} == {Closed.IDLE: 1}


@pytest.fixture
def open_one():
    """Opens a connection, and keeps it."""
    with contextlib.ExitStack() as stack:

        def open_it(serve, data=b""):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", serve.port)))
            client.sendall(data)
            return client

        yield open_it


def wait_for_closed(serve, **expected):
    """Wait until the front end shows so many connections that closed for these reasons."""

    def shown():
        found = serve.metrics()
        return {name: found.get(f"connections_closed_total{{{name}}}") for name in expected} == expected

    serve.wait_until(shown, f"{expected}")


@pytest.mark.parametrize(
    ("reason", "data", "settings"),
    [
        ("handshake", b"\r\n", {"handshake_timeout_ms": 300, "proxy_protocol": True}),  # a header that does not go on
        ("idle", b"", {"server_channel_max_idle_time_seconds": 1}),
    ],
    ids=["handshake", "idle"],
)
def test_a_front_end_shows_what_closed_after_its_time(tmp_path, redis_url, open_one, reason, data, settings):
    with contextlib.closing(Serving(tmp_path, redis_url, **settings)) as serve:
        open_one(serve, data)
        wait_for_closed(serve, **{reason: 1})


def test_a_front_end_shows_why_connections_closed_and_how_long_requests_took(tmp_path, redis_url, open_one):
    with contextlib.closing(Serving(tmp_path, redis_url, max_connections=3)) as serve:
        open_one(serve, b"\xff" * 64)
        wait_for_closed(serve, bad_frame=1)
        open_one(serve).close()
        wait_for_closed(serve, client=1)
        with serve.client() as client:
            assert client.register(Broker(topics=["t1", "t2"])).code == 0
            until = time.monotonic() + 20
            while serve.metrics().get("request_seconds_count{lookup}", 0) < 3:
                assert client.route("t1").code == 0
                assert time.monotonic() < until
            assert client.request(106).code == 0
            found = serve.metrics()
            assert found["requests_total{103,success}"] == 1
            many = [open_one(serve) for _ in range(5)]
            wait_for_closed(serve, too_many=3)
            assert len(many) == 5
        serve.wait_until(lambda: serve.metrics()["request_seconds_count{read}"] == 1, "a read was timed")
        found = serve.metrics()
        assert found["sweep_seconds_count"] > 0
        assert found["script_seconds_count{expire_brokers}"] > 0, "of the sweeper in the supervisor"
        assert found["script_seconds_count{renew_lease}"] > 0
        assert found["redis_failures_total{away}"] == 0
        assert 0 <= found["request_seconds_sum{lookup}"] / found["request_seconds_count{lookup}"] < 60
