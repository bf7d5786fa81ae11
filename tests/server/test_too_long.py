"""A request above 16 MiB is answered with what to do, and its body is never held; what cannot be answered is closed."""

from __future__ import annotations

import contextlib

import psutil
import pytest

from mqregistry.protocol.codes import FLAG_ONEWAY, Encoding, RequestCode
from mqregistry.protocol.command import Command, encode_command

from .harness import Broker

BODY_BYTES = 40 << 20


def request(code=RequestCode.REGISTER_BROKER, flag=0, encoding=Encoding.JSON):
    ext, _ = Broker().registration()
    return encode_command(
        Command(code=code, opaque=7, flag=flag, version=479, ext_fields=ext, body=bytes(BODY_BYTES), encoding=encoding)
    )


@pytest.mark.parametrize("encoding", list(Encoding), ids=lambda encoding: encoding.name)
def test_a_registration_that_is_too_long_is_answered_before_the_close(front_end_with, encoding):
    front_end = front_end_with()
    with front_end.client() as client, front_end.client() as other:
        frame = request(encoding=encoding)
        process = psutil.Process(front_end.process.pid)
        before = process.memory_info().rss
        client.socket.sendall(frame)  # all of it is taken, as real brokers send it before they read
        reply = client.receive()
        assert (reply.code, reply.opaque) == (1, 7)
        assert reply.remark == (
            f"a request of {len(frame)} bytes: at most 16777216 are taken; nothing was changed: set "
            "enableSplitRegistration=true (RocketMQ 5.x: splitRegistrationSize topics a request) or "
            "compressedRegister=true at the broker"
        )
        assert client.closed()
        assert other.request(106).code == 0
        assert process.memory_info().rss - before < BODY_BYTES // 4
    front_end.wait_until(lambda: f"bad frame: frame length {len(frame) - 4} is not between" in front_end.log, "the log")
    assert front_end.counter("bad_frames") <= 1


def test_another_request_is_answered_without_the_hint(front_end_with):
    with front_end_with().client() as client:
        client.socket.sendall(request(RequestCode.PUT_KV_CONFIG))
        assert client.receive().remark.endswith("at most 16777216 are taken; nothing was changed")
        assert client.closed()


@pytest.mark.parametrize(
    "begin",
    [
        request(flag=FLAG_ONEWAY)[:4096],
        request()[:4],
        (16_777_213).to_bytes(4, "big") + bytes([0, 0, 0, 200]) + b"{",
        (0x40000000).to_bytes(4, "big") + request()[4:4096],
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["oneway", "length alone", "half a header", "a gigabyte", "http"],
)
def test_what_cannot_be_answered_is_closed_at_once(front_end_with, begin):
    with front_end_with().client() as client:
        assert client.request(106).code == 0  # fewer than 12 bytes of a new connection wait
        client.socket.sendall(begin)
        with contextlib.suppress(ConnectionResetError):
            assert client.receive() is None
