"""Bad input: the NameServer's own answer where it has one, else a closed connection; the process lives."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import socket
import struct
import time
import zlib

import psutil
import pytest

from mqregistry.protocol.command import Command, encode_command
from mqregistry.server.limits.summary_log import LINES_EACH

from .harness import Broker, Client, wait_until

GARBAGE = random.Random(7).randbytes(512)


def raw(front_end, data: bytes) -> Client:
    client = front_end.client(timeout_s=20)
    client.socket.sendall(data)
    return client


def lives_on(front_end) -> None:
    assert front_end.process.poll() is None
    with front_end.client() as client:
        assert client.request(106).code == 0


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(struct.pack(">i", 0) * 3, id="length-zero"),
        pytest.param(struct.pack(">i", -5) + b"x" * 20, id="length-negative"),
        pytest.param(struct.pack(">i", 16_777_213) + b"x" * 20, id="over-16-MiB"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", id="http"),
        pytest.param(GARBAGE, id="garbage"),
        pytest.param(framed(struct.pack(">I", 500) + b"{  }"), id="header-longer-than-frame"),
        pytest.param(framed(struct.pack(">I", 7 << 24 | 4) + b"{  }"), id="unknown-serializer"),
        pytest.param(framed(struct.pack(">I", 9) + b"not json!"), id="header-no-json"),
        pytest.param(framed(struct.pack(">I", 1 << 24 | 4) + b"abcd"), id="binary-header-truncated"),
    ],
)
def test_bytes_that_are_no_frame_close_the_connection(front_end, data):
    with raw(front_end, data) as client:
        assert client.closed()
    front_end.wait_until(lambda: front_end.counter("bad_frames_total") == 1, "it was counted")
    assert "bad frame" in front_end.log
    lives_on(front_end)


def test_frames_before_a_bad_one_are_answered(front_end):
    good = encode_command(Command(code=106, opaque=5, version=479))
    with raw(front_end, good + b"\xff" * 8) as client:
        assert client.receive().opaque == 5
        assert client.closed()


def test_a_cut_frame_is_finished_by_the_rest(front_end):
    frame = encode_command(Command(code=106, opaque=9, version=479))
    with front_end.client() as client:
        for byte in frame:
            client.socket.sendall(bytes([byte]))
        assert client.receive().opaque == 9


def test_a_wrong_crc_is_refused_and_stores_nothing(front_end):
    with front_end.client() as client:
        ext, body = Broker().registration()
        reply = client.request(103, ext | {"bodyCrc32": "12345"}, body)
        assert (reply.code, reply.remark, reply.ext_fields) == (1, "crc32 not match", {})
        assert client.route("topic1").code == 17


@pytest.mark.parametrize("field", ["brokerId", "brokerName", "brokerAddr", "clusterName"])
@pytest.mark.parametrize("value", [None, "", "x"])
def test_a_missing_field_is_refused_with_its_name(front_end, field, value):
    if value == "x" and field != "brokerId":
        pytest.skip("any text is a name")
    with front_end.client() as client:
        ext, body = Broker().registration()
        ext.pop(field)
        if value is not None:
            ext[field] = value
        reply = client.request(103, ext, body)
        assert reply.code == 1
        assert field in reply.remark
        assert client.route("topic1").code == 17


@pytest.mark.parametrize(
    ("compressed", "body"),
    [
        ("true", b"this is no zlib stream"),
        ("true", zlib.compress(b"\0" * (65 << 20))),
        ("false", zlib.compress(b"\0" * (65 << 20))),
        ("false", b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"a":'),
        ("true", zlib.compress(b"\x7f\xff\xff\xff garbage")),
    ],
    ids=["bad-zlib", "zlib-bomb", "zlib-bomb-undeclared", "cut-json", "bad-lengths"],
)
def test_a_body_that_cannot_be_read_is_code_1_and_stores_nothing(front_end, compressed, body):
    before = psutil.Process(front_end.process.pid).memory_info().rss
    with front_end.client() as client:
        ext, _ = Broker().registration()
        reply = client.request(103, ext | {"compressed": compressed, "bodyCrc32": "0"}, body)
        assert reply.code == 1
        # a busy machine may have kept the worker from its Redis for a moment: then it cannot tell, and says so
        wait_until(lambda: client.route("topic1").code == 17, "nothing was stored")
    assert psutil.Process(front_end.process.pid).memory_info().rss < before + (96 << 20)
    lives_on(front_end)


def test_an_unknown_code_is_answered_with_3(front_end):
    with front_end.client() as client:
        reply = client.request(9999)
        assert (reply.code, reply.remark) == (3, " request type 9999 not supported")


def test_oneway_requests_are_never_answered(front_end):
    with front_end.client() as client:
        client.send(105, {"topic": "x"}, flag=2)
        client.send(9999, flag=2)
        client.send(103, {}, flag=2)
        assert client.request(106).code == 0  # request() checks that this is the next answer


def test_a_client_that_never_reads_is_dropped_and_costs_little(front_end_with):
    front_end = front_end_with(slow_client_timeout_seconds=1)
    with front_end.client() as broker_connection, front_end.client() as client:
        broker_connection.register(Broker(topics=[f"a-rather-long-topic-name-{i:04}" for i in range(2000)]))
        before = psutil.Process(front_end.process.pid).memory_info().rss
        client.socket.settimeout(0.5)
        request = encode_command(Command(code=206, opaque=1, version=479)) * 200  # 60 kB each
        sent = 0
        try:
            while sent < 64 << 20:
                sent += client.socket.send(request)
        except (TimeoutError, OSError):
            pass
        front_end.wait_until(lambda: front_end.counter("slow_clients_total") == 1, "it was dropped")
        assert psutil.Process(front_end.process.pid).memory_info().rss < before + (64 << 20)
        assert broker_connection.request(106).code == 0


def test_partial_frames_of_all_connections_together_are_bounded(front_end):
    process = psutil.Process(front_end.process.pid)
    before = process.memory_info().rss
    clients = []
    block = b"x" * (1 << 20)
    # of a registration: other requests are refused by their headers
    head = encode_command(Command(code=103, opaque=1, version=479, ext_fields={}))[4:]
    try:
        for _ in range(24):  # 24 x 15 MiB would be 360 MiB
            client = front_end.client(timeout_s=2)
            clients.append(client)
            try:
                client.socket.sendall(struct.pack(">i", 16_000_000) + head)
                for _ in range(15):
                    client.socket.sendall(block)
            except OSError:
                continue
        front_end.wait_until(lambda: "bytes of unfinished frames" in front_end.log, "connections were dropped")
        assert process.memory_info().rss < before + (320 << 20)
    finally:
        for client in clients:
            client.close()
    lives_on(front_end)


@pytest.fixture
def many_idle():
    """Opens 5,000 connections, and keeps them."""
    soft = 12000
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < soft:
        pytest.skip(f"only {hard} open files are permitted, not {soft}: ulimit -Hn as root, or limits.conf")
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with contextlib.ExitStack() as stack:

        def open_all(port):
            for _ in range(5000):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))

        yield open_all


def test_5000_idle_connections_cost_little(front_end, many_idle):
    process = psutil.Process(front_end.process.pid)
    before = process.memory_info().rss
    many_idle(front_end.port)
    front_end.wait_until(lambda: front_end.poll().get("connections") == 5000, "5,000 are connected")
    assert process.memory_info().rss < before + (60 << 20)
    with front_end.client() as client:

        def answers_at_once():
            began = time.monotonic()
            assert client.request(106).code == 0
            return time.monotonic() - began < 1

        wait_until(answers_at_once, "others are answered at once", 10)


def test_5000_idle_connections_go_after_their_time(front_end_with, many_idle):
    """The first ones maybe before the last ones come."""
    front_end = front_end_with(server_channel_max_idle_time_seconds=3)
    many_idle(front_end.port)
    idle = 'connections_closed_total{reason="idle"}'
    front_end.wait_until(lambda: front_end.counter(idle) == 5000, "idle ones were closed")
    assert front_end.poll()["connections"] == 0
    lives_on(front_end)


def test_more_connections_than_allowed_are_turned_away(front_end_with):
    front_end = front_end_with(max_connections=3)
    kept = [front_end.client() for _ in range(3)]
    for client in kept:
        assert client.request(106).code == 0
    with front_end.client() as one_too_many:
        assert one_too_many.closed()
    assert kept[0].request(106).code == 0
    for client in kept:
        client.close()


def test_random_bytes_after_a_valid_head_never_stop_the_server(front_end):
    generator = random.Random(os.environ.get("SEED", "11"))
    for _ in range(200):
        frame = bytearray(encode_command(Command(code=103, opaque=1, version=479, ext_fields={"a": "b"}, body=b"{}")))
        for _ in range(generator.randint(1, 6)):
            frame[generator.randrange(4, len(frame))] = generator.randrange(256)
        with raw(front_end, bytes(frame)):
            pass
    lives_on(front_end)
    assert "Traceback" not in front_end.log


def test_the_first_bad_frames_and_bad_writes_have_a_line_each_and_all_are_counted(front_end):
    for _ in range(20):
        with raw(front_end, GARBAGE) as client:
            assert client.closed()
    with front_end.client() as client:
        for _ in range(20):
            assert client.request(217, {"topic": "t"}, b"[").code == 1
    front_end.wait_until(lambda: front_end.counter("bad_frames_total") == 20, "they were counted")
    assert front_end.log.count("bad frame: ") == LINES_EACH
    assert front_end.log.count("(REGISTER_TOPIC_IN_NAMESRV) of 127.0.0.1") == LINES_EACH
